"""One independent client: the official Python SDK over ACP v1, driven by a plan (`v1.py PLAN.json`).

Prints one JSON object a line, as the other clients do; every message has passed the SDK's models.
"""

import asyncio

import plan as shared
from acp import connect_to_agent, schema


class Client:
    def __init__(self):
        self.tally = shared.Tally("reject")

    async def session_update(self, session_id, update, **_):
        self.tally.note(update.model_dump(mode="json", by_alias=True, exclude_none=True))

    async def request_permission(self, session_id, tool_call, options, **_):
        outcome = self.tally.choose((option.option_id, option.kind) for option in options)
        return schema.RequestPermissionResponse.model_validate(outcome)

    async def ext_notification(self, method, params):
        """Extension notifications are for clients that know them."""


async def session(plan):
    client = Client()

    async def body(stdin, stdout):
        connection = connect_to_agent(client, stdin, stdout)
        initialized = await asyncio.wait_for(
            connection.initialize(1, client_info=schema.Implementation(name="interop-py-sdk", version="1")),
            plan["stepLimitMs"] / 1000,
        )
        shared.say(
            kind="initialized",
            version=initialized.protocol_version,
            agent=initialized.agent_info and initialized.agent_info.name,
        )

        async def prompt(session_id, text):
            return await connection.prompt(
                session_id=session_id, prompt=[schema.TextContentBlock(type="text", text=text)]
            )

        async def cancel(session_id):
            await connection.cancel(session_id=session_id)

        async def end(response, _tally):
            return response.stop_reason

        await shared.play(plan, client, connection, prompt, cancel, end)
        await connection.close()

    await shared.with_agent(plan, body)


shared.main(session)

"""One independent client: the official Python SDK's v2 API, driven by a plan (`v2.py PLAN.json`).

Prints one JSON object a line, as the other clients do; every message has passed the SDK's models.
"""

import asyncio

import plan as shared
from acp.experimental.v2 import connect_to_agent, schema


class Client:
    def __init__(self):
        self.tally = shared.Tally("reject")

    async def session_update(self, session_id, update, **_):
        self.tally.note(update.model_dump(mode="json", by_alias=True, exclude_none=True))

    async def request_permission(self, session_id, title, options, **_):
        return self.tally.choose((option.option_id, option.kind) for option in options)

    async def ext_notification(self, method, params):
        """Extension notifications are for clients that know them."""


async def session(plan):
    client = Client()

    async def body(stdin, stdout):
        connection = connect_to_agent(client, stdin, stdout)
        initialized = await asyncio.wait_for(
            connection.initialize(2, schema.Implementation(name="interop-py-sdk", version="1")),
            plan["stepLimitMs"] / 1000,
        )
        shared.say(kind="initialized", version=initialized.protocol_version, agent=initialized.info.name)

        async def prompt(session_id, text):
            return await connection.prompt(session_id, [schema.TextContentBlock(type="text", text=text)])

        async def cancel(session_id):
            await connection.cancel_session(session_id)

        async def end(_response, tally):
            # The response may be held until the turn's end or come at once; the idle state is the end in both cases.
            await tally.idle.wait()
            return tally.stop

        await shared.play(plan, client, connection, prompt, cancel, end)
        await connection.close()

    await shared.with_agent(plan, body)


shared.main(session)

"""What the clients of both protocol versions share: the plan, one turn's tally, and the lines of the report."""

import asyncio
import json
import logging
import sys


def say(**line):
    print(json.dumps(line, ensure_ascii=False), flush=True)


class Problems(logging.Handler):
    """The SDK logs a message that it could not take and goes on; here that fails the run."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record):
        cause = record.exc_info[1] if record.exc_info else ""
        self.add(f"{record.getMessage()} {cause!r}")

    def add(self, text):
        self.count += 1
        say(kind="problem", text=text[:2000])


class Tally:
    """What the agent has shown of the current turn."""

    def __init__(self, answer):
        self.answer = answer
        self.text, self.chunks, self.permissions, self.tools = "", 0, 0, {}
        self.first_text = asyncio.Event()
        self.active, self.stop, self.idle = False, None, asyncio.Event()

    def note(self, update):
        """Counts one update, as the SDK's model dumps it."""
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk" and update["content"]["type"] == "text":
            self.text += update["content"]["text"]
            self.chunks += 1
            self.first_text.set()
        elif kind in ("tool_call", "tool_call_update"):
            row = update["toolCallId"]
            self.tools[row] = update.get("status") or self.tools.get(row, "")
        elif kind == "state_update":
            if update["state"] != "idle":
                self.active = True
            elif self.active:
                self.stop = update.get("stopReason")
                self.idle.set()

    def choose(self, options):
        """The outcome for a permission question with these (id, kind) options."""
        self.permissions += 1
        kind = "allow_once" if self.answer == "allow" else "reject_once"
        for option, its_kind in options:
            if its_kind == kind:
                return {"outcome": {"outcome": "selected", "optionId": option}}
        return {"outcome": {"outcome": "cancelled"}}

    def report(self, name, stop):
        say(
            kind="turn",
            name=name,
            stop=stop,
            text=self.text,
            chunks=self.chunks,
            permissions=self.permissions,
            tools=self.tools,
        )


async def play(plan, client, connection, send_prompt, send_cancel, turn_end):
    """Opens a session, plays the plan's steps in it and closes it.

    `send_prompt(session, text)` and `send_cancel(session)` are the version's calls; `turn_end(response, tally)`
    gives the stop reason once the turn is over.
    """
    limit = plan["stepLimitMs"] / 1000

    async def turn(session, step):
        tally = client.tally = Tally(step["answer"])
        prompt = asyncio.ensure_future(send_prompt(session, step["prompt"]))
        if step["cancel"] == "first-text":
            first = asyncio.ensure_future(tally.first_text.wait())
            await asyncio.wait({prompt, first}, return_when=asyncio.FIRST_COMPLETED)
            first.cancel()
        elif step["cancel"] == "at-once":
            await asyncio.sleep(0)  # let the prompt's line go first
        if step["cancel"] != "never":
            await send_cancel(session)
        stop = await turn_end(await prompt, tally)
        tally.report(step["name"], stop)

    opened = await asyncio.wait_for(connection.new_session(cwd=plan["cwd"], mcp_servers=[]), limit)
    say(kind="session", id=opened.session_id)
    for step in plan["steps"]:
        try:
            await asyncio.wait_for(turn(opened.session_id, step), limit)
        except TimeoutError:
            raise TimeoutError(f"{step['name']}: nothing after {limit} s") from None
    await asyncio.wait_for(connection.close_session(opened.session_id), limit)
    say(kind="closed")


async def with_agent(plan, body):
    """Starts the agent, runs `body(stdin, stdout)`, and sees the process off."""
    agent = await asyncio.create_subprocess_exec(
        *plan["agent"], stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=64 << 20
    )
    try:
        await body(agent.stdin, agent.stdout)
    finally:
        agent.stdin.close()
        try:
            await asyncio.wait_for(agent.wait(), 5)
        except TimeoutError:
            agent.kill()
            raise TimeoutError("the agent did not end with its stdin") from None


def main(session):
    """Runs `session(plan)` and exits with 1 when anything went wrong."""
    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)
    problems = Problems()
    logging.basicConfig(level=logging.WARNING, handlers=[problems], force=True)
    try:
        asyncio.run(session(plan))
    except Exception as error:  # whatever it is, it belongs in the report
        problems.add(repr(error))
    sys.exit(1 if problems.count else 0)

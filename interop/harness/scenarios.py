"""What every client plays, and what must come of it.

The prompts are directives to the scripted model server (`milk mock`): the newest user message says what the model does.
"""

import json
from dataclasses import dataclass, field

# The longest that anything may take between a client's cancel and the end of the turn.
CANCEL_LIMIT_MS = 2000
# The longest that one turn may take for its client.
STEP_LIMIT_MS = 30_000


@dataclass(frozen=True)
class Step:
    """One turn: what is asked, what the person at the client does, and what must be true afterwards."""

    name: str
    prompt: str
    answer: str = "reject"  # or "allow"
    cancel: str = "never"  # or "first-text", "at-once"
    stop: str = "end_turn"
    text: str | None = None  # the whole text, where it is known
    chunks: int = 0  # the fewest that the text must come in
    permissions: int = 0  # questions asked
    row: str | None = None  # the last status of each tool row
    files: dict = field(
        default_factory=dict
    )  # name in the workspace -> content, or None for "must not exist"

    def plan(self):
        """The step as the clients read it."""
        return {"name": self.name, "prompt": self.prompt, "answer": self.answer, "cancel": self.cancel}


def tool(name, **arguments):
    return f"[[tool {name} {json.dumps(arguments)}]]"


STEPS = (
    Step("text", "[[say 40 tokens 200 rate]]", text="".join(f"w{n} " for n in range(40)), chunks=2),
    Step(
        "denied",
        tool("write_file", path="no.txt", content="no"),
        permissions=1,
        row="failed",
        files={"no.txt": None},
    ),
    Step(
        "allowed",
        tool("write_file", path="yes.txt", content="yes"),
        answer="allow",
        permissions=1,
        row="completed",
        files={"yes.txt": "yes"},
    ),
    Step(
        "shell",
        tool("bash", command="printf shell > shell.txt"),
        answer="allow",
        permissions=1,
        row="completed",
        files={"shell.txt": "shell"},
    ),
    Step(
        "cancel in a text",
        "[[say 2000 tokens 20 rate]]",
        cancel="first-text",
        stop="cancelled",
        chunks=1,
    ),
    Step(
        "cancel in a silence",
        "[[say 1 tokens 0 rate]] [[hang]]",
        cancel="first-text",
        stop="cancelled",
        text="w0 ",
    ),
    # Nothing answered this prompt, so a model is shown it and the next one as one message of the user.
    Step("cancel at once", "[[say 40 tokens 20 rate]]", cancel="at-once", stop="cancelled"),
    Step("after the cancels", "[[say 3 tokens 0 rate]]", chunks=1),
)


def judge(step, turn, workspace):
    """What is wrong with a turn, as its client saw it and as the workspace shows it."""
    wrong = []
    if turn is None:
        return ["the client did not finish it"]
    if turn["stop"] != step.stop:
        wrong.append(f"stop reason {turn['stop']!r}, not {step.stop!r}")
    if step.text is not None and turn["text"] != step.text:
        wrong.append(f"text {turn['text'][:200]!r}, not {step.text[:200]!r}")
    if turn["chunks"] < step.chunks:
        wrong.append(f"{turn['chunks']} chunks of text, fewer than {step.chunks}")
    if turn["permissions"] != step.permissions:
        wrong.append(f"{turn['permissions']} permission questions, not {step.permissions}")
    rows = sorted(turn["tools"].values())
    if rows != ([step.row] if step.row else []):
        wrong.append(f"tool rows ended {rows}, not {step.row!r}")
    for name, content in step.files.items():
        file = workspace / name
        found = file.read_text() if file.exists() else None
        if found != content:
            wrong.append(f"{name} holds {found!r}, not {content!r}")
    return wrong


def cancel_times(record):
    """Milliseconds from each `session/cancel` of a record to the response of the prompt that it cancelled; None where none came."""
    times, open_prompts = [], {}
    for ms, side, message in record:
        if side == "client" and message.get("method") == "session/prompt":
            open_prompts[json.dumps(message["id"])] = None
        elif side == "client" and message.get("method") == "session/cancel":
            open_prompts = {prompt: ms for prompt in open_prompts}
        elif side == "agent" and "method" not in message:
            cancelled_at = open_prompts.pop(json.dumps(message.get("id")), None)
            if cancelled_at is not None:
                times.append(ms - cancelled_at)
    return times + [None for at in open_prompts.values() if at is not None]

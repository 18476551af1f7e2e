"""One independent client: the command `acpx`, which speaks v1, driven by a plan (`client.py PLAN.json NODE ACPX`).

acpx keeps the agent in a process of its own between its commands, so the plan's steps are separate commands in one
session. With `--format json` it prints the messages that it sent and got; the lines of the report are made of those.
"""

import json
import shlex
import subprocess
import sys
import threading

plan_path, NODE, ACPX = sys.argv[1:]
with open(plan_path, encoding="utf-8") as file:
    PLAN = json.load(file)
LIMIT = PLAN["stepLimitMs"] / 1000
COMMON = [
    NODE,
    ACPX,
    "--agent",
    shlex.join(PLAN["agent"]),
    "--cwd",
    PLAN["cwd"],
    "--format",
    "json",
    "--ttl",
    "60",
    "--timeout",
    str(round(LIMIT)),
]


def say(**line):
    print(json.dumps(line, ensure_ascii=False), flush=True)


def acpx(*words):
    """One short command of acpx; the last JSON line that it printed."""
    done = subprocess.run(
        [*COMMON, *words], capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise RuntimeError(
            f"acpx {words} ended with {done.returncode}: {done.stderr[-1000:]} {done.stdout[-1000:]}"
        )
    return json.loads(done.stdout.splitlines()[-1])


def turn(step):
    answer = "--approve-all" if step["answer"] == "allow" else "--deny-all"
    prompt = subprocess.Popen(
        [*COMMON, answer, "prompt", step["prompt"]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    overdue = threading.Timer(LIMIT, prompt.kill)
    overdue.start()
    seen = {"text": "", "chunks": 0, "permissions": 0, "tools": {}}
    stop, prompt_id, cancelled, line = None, None, step["cancel"] == "never", ""
    for line in prompt.stdout:
        message = json.loads(line)
        method, result = message.get("method"), message.get("result") or {}
        if "protocolVersion" in result:
            say(
                kind="initialized",
                version=result["protocolVersion"],
                agent=result.get("agentInfo", {}).get("name"),
            )
        elif method == "session/prompt":
            prompt_id = message["id"]
        elif method == "session/request_permission":
            seen["permissions"] += 1
        elif method == "session/update" and prompt_id is not None:
            note(seen, message["params"]["update"])
        elif prompt_id is not None and message.get("id") == prompt_id and "stopReason" in result:
            stop = result["stopReason"]
        if not cancelled and prompt_id is not None and (step["cancel"] == "at-once" or seen["chunks"]):
            cancelled = True
            acpx("cancel")
    status, errors = prompt.wait(), prompt.stderr.read()
    overdue.cancel()
    # acpx itself says no with status 5 when every permission question of the turn was denied.
    if status not in ((0, 5) if step["answer"] == "reject" else (0,)):
        raise RuntimeError(f"{step['name']}: acpx ended with {status}: {line[-1000:]}{errors[-1000:]}")
    say(kind="turn", name=step["name"], stop=stop, **seen)


def note(seen, update):
    kind = update["sessionUpdate"]
    if kind == "agent_message_chunk" and update["content"]["type"] == "text":
        seen["text"] += update["content"]["text"]
        seen["chunks"] += 1
    elif kind in ("tool_call", "tool_call_update"):
        row = update["toolCallId"]
        seen["tools"][row] = update.get("status") or seen["tools"].get(row, "")


opened = acpx("sessions", "new")
say(kind="session", id=opened["acpxSessionId"])
try:
    for each in PLAN["steps"]:
        turn(each)
finally:
    acpx("sessions", "close")
say(kind="closed")

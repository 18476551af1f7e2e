#!/usr/bin/env python3
"""Stands between a client and the agent, passes every line on untouched, and writes it down.

    recorder.py FOLDER -- AGENT [ARGUMENT...]

FOLDER gets one file for each agent process that the client starts (1.jsonl, 2.jsonl, ...). Each line of it is one
line of the wire: {"ms": since the start, "from": "client" or "agent", "line": "..."}. The agent's stderr goes to
N.stderr. The exit status is the agent's.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time


def open_record(folder):
    os.makedirs(folder, exist_ok=True)
    number = 1
    while True:
        path = os.path.join(folder, f"{number}.jsonl")
        try:
            return open(path, "x", encoding="utf-8", buffering=1), os.path.join(folder, f"{number}.stderr")
        except FileExistsError:
            number += 1


def main():
    folder, dashes, *command = sys.argv[1:]
    assert dashes == "--" and command
    record, stderr_path = open_record(folder)
    started, lock = time.monotonic(), threading.Lock()
    with open(stderr_path, "wb") as stderr:
        agent = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, bufsize=0
        )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: agent.send_signal(received))

    def carry(source, sink, side):
        for line in iter(source.readline, b""):
            entry = {
                "ms": round((time.monotonic() - started) * 1000, 1),
                "from": side,
                "line": line.decode("utf-8", "backslashreplace").rstrip("\n"),
            }
            with lock:
                record.write(json.dumps(entry) + "\n")
            try:
                sink.write(line)
                sink.flush()
            except (OSError, ValueError):
                break  # the reader of this side is gone; the other side goes on
        if side == "client":
            agent.stdin.close()

    sides = [
        threading.Thread(target=carry, args=(sys.stdin.buffer, agent.stdin, "client"), daemon=True),
        threading.Thread(target=carry, args=(agent.stdout, sys.stdout.buffer, "agent"), daemon=True),
    ]
    for side in sides:
        side.start()
    status = agent.wait()
    sides[1].join(2)
    os._exit(status if status >= 0 else 128 - status)  # the thread on stdin may be blocked in a read


main()

"""Running one client, and counting verdicts."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent
# The longest that one client's whole run may take, in seconds.
CLIENT_LIMIT = 180


class Tally:
    """Counts and prints verdicts."""

    def __init__(self):
        self.passed = self.failed = 0

    def verdict(self, client, what, wrong):
        if wrong:
            self.failed += 1
            print(f"FAIL {client}: {what}")
            for line in wrong:
                print(f"     {line}")
        else:
            self.passed += 1
            print(f"ok   {client}: {what}")
        sys.stdout.flush()

    def end(self):
        """Prints the sum and ends the program with it."""
        print(f"{self.passed} passed, {self.failed} failed")
        sys.exit(1 if self.failed or not self.passed else 0)


def build_milk():
    """The workspace's own debug binary, built now."""
    subprocess.run(["cargo", "build", "--quiet", "--package", "milk"], cwd=PROJECT, check=True)
    metadata = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--no-deps"],
        cwd=PROJECT,
        check=True,
        capture_output=True,
    )
    return Path(json.loads(metadata.stdout)["target_directory"]) / "debug/milk"


def run_client(command, world):
    """Runs a client in a world; the lines that it printed, and what it complained of."""
    client = subprocess.Popen(
        [str(word) for word in command],
        cwd=world.workspace,
        env=world.environment,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    complaints = []
    try:
        out, err = client.communicate(timeout=CLIENT_LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(client.pid, signal.SIGKILL)
        out, err = client.communicate()
        complaints.append(f"stopped after {CLIENT_LIMIT} s")
    lines = [json.loads(line) for line in out.decode().splitlines() if line.startswith("{")]
    complaints += [line["text"] for line in lines if line["kind"] == "problem"]
    if client.returncode and not complaints:
        complaints.append(
            f"the client ended with {client.returncode}: {err.decode(errors='replace')[-2000:]}"
        )
    return lines, complaints

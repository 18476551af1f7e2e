"""A place of its own for one client's run: a home, a workspace, a config that points at the scripted model server, and
an agent command that records what passes. Everything that was started in it can be found, and ended, by its environment."""

import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

RECORDER = Path(__file__).resolve().parent / "recorder.py"
# What a program needs of the caller's environment; no key or proxy of theirs gets in.
KEPT = ("PATH", "LANG", "TERM", "TMPDIR")


class World:
    def __init__(self, milk, model_url, **agent):
        """`agent` holds further keys of the agent's entry in the config."""
        self.root = Path(tempfile.mkdtemp(prefix="milk-interop-"))
        self.home, self.workspace, self.records = (
            self.root / "home",
            self.root / "work",
            self.root / "records",
        )
        for folder in (self.home / ".milk", self.workspace, self.records):
            folder.mkdir(parents=True)
        entry = {"name": "interop", "url": model_url, "model": "interop", **agent}
        config = {"agent": "interop", "agents": [entry]}
        (self.home / ".milk/config.json").write_text(json.dumps(config, indent=2) + "\n")
        self.environment = {
            **{name: os.environ[name] for name in KEPT if name in os.environ},
            "HOME": str(self.home),
            "MILK_HOME": str(self.home / ".milk"),
        }
        self.agent = self.root / "agent"
        command = [sys.executable, str(RECORDER), str(self.records), "--", str(milk), "serve", "--acp"]
        self.agent.write_text(f"#!/bin/sh\nexec {shlex.join(command)}\n")
        self.agent.chmod(0o755)

    def plan(self, version, steps, step_limit_ms):
        """Writes the plan of a run and returns its path."""
        path = self.root / "plan.json"
        plan = {
            "version": version,
            "agent": [str(self.agent)],
            "cwd": str(self.workspace),
            "stepLimitMs": step_limit_ms,
            "steps": [step.plan() for step in steps],
        }
        path.write_text(json.dumps(plan, indent=1))
        return path

    def record_files(self):
        return sorted(self.records.glob("*.jsonl"))

    def messages(self):
        """For each agent process: its (ms, side, message) in order; lines that are not JSON objects are left out."""
        for file in self.record_files():
            lines = []
            for entry in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
                try:
                    message = json.loads(entry["line"])
                except ValueError:
                    continue
                if isinstance(message, dict):
                    lines.append((entry["ms"], entry["from"], message))
            yield lines

    def left_running(self, grace=3.0):
        """Processes of this world that still run after `grace` seconds, as (pid, command). Linux only; elsewhere none."""
        deadline = time.monotonic() + grace
        while True:
            found = list(self._processes())
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.05)

    def _processes(self):
        mark = f"HOME={self.home}".encode()
        for entry in Path("/proc").glob("[0-9]*") if sys.platform == "linux" else ():
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    yield (
                        int(entry.name),
                        (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"),
                    )
            except OSError:
                pass

    def clean(self):
        """Ends what still runs in this world and removes its folder."""
        for pid, _ in self._processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        shutil.rmtree(self.root, ignore_errors=True)

"""Checks every message that an agent sent in recorded runs against the protocol's schemas.

    python -m harness.transcript SCHEMA_FOLDER RECORD...     (needs the PyPI package jsonschema)

SCHEMA_FOLDER holds schema-v1.json and schema-v2.json. Prints a line for each problem and exits with 1 if there was one.
The schemas leave enums open for extensions and so accept any word; names of updates are therefore compared with the
ones that the schema lists. Beyond the schema: each request is answered once, and nothing is sent for a session that
the client has not been told of.
"""

import json
import sys
from pathlib import Path

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match


class Vocabulary:
    """One protocol version's definitions, found by method and direction."""

    def __init__(self, path):
        self.schema = json.loads(path.read_text(encoding="utf-8"))
        self.definitions = self.schema["$defs"]
        self.names, self.validators = {}, {}
        for name, definition in self.definitions.items():
            if "x-method" in definition:
                kind = "result" if name.endswith("Response") else "params"
                self.names[definition["x-side"], definition["x-method"], kind] = name
        union = self.definitions["SessionUpdate"]
        branches = union.get("oneOf") or union.get("anyOf")
        tags = (branch.get("properties", {}).get("sessionUpdate", {}) for branch in branches)
        self.updates = {tag["const"] for tag in tags if "const" in tag}

    def problems(self, side, method, kind, value):
        """What is wrong with the params or the result of a method that `side` handles."""
        name = self.names.get((side, method, kind))
        if name is None:
            yield f"{method}: the schema knows no such {kind}"
            return
        if name not in self.validators:
            root = {"$schema": self.schema["$schema"], "$defs": self.definitions, "$ref": f"#/$defs/{name}"}
            self.validators[name] = Draft202012Validator(root)
        for error in self.validators[name].iter_errors(value):
            leaf = best_match([error])
            yield f"{method}: {leaf.json_path}: {leaf.message[:300]}"


class Conversation:
    """One agent process's lines, in order."""

    def __init__(self, folder):
        self.folder = folder
        self.vocabulary = None
        self.asked, self.sessions = {}, set()

    def line(self, side, line):
        try:
            message = json.loads(line)
        except ValueError:
            if side == "agent":
                yield "not JSON"
            return
        if side == "client":
            self.client(message)
        else:
            yield from self.agent(message)

    def client(self, message):
        if "method" in message and "id" in message:
            self.asked[json.dumps(message["id"])] = message
        if message.get("method") == "initialize":
            version = 1 if message["params"].get("protocolVersion") == 1 else 2
            self.vocabulary = Vocabulary(self.folder / f"schema-v{version}.json")
        if message.get("method") == "session/resume":
            self.sessions.add(message["params"]["sessionId"])  # its replay comes before the response

    def agent(self, message):
        if message.get("jsonrpc") != "2.0":
            yield "no jsonrpc 2.0"
        if "method" in message:
            yield from self.call(message["method"], message.get("params"))
        else:
            yield from self.response(message)

    def call(self, method, params):
        if method.startswith(("_", "$/")):
            return
        yield from self.vocabulary.problems("client", method, "params", params)
        session = params.get("sessionId")
        if session is not None and session not in self.sessions:
            yield f"{method}: session {session} is not one that the client has been told of"
        update = params.get("update", {}).get("sessionUpdate")
        if update is not None and update not in self.vocabulary.updates:
            yield f"{method}: the schema knows no update {update!r}"

    def response(self, message):
        request = self.asked.pop(json.dumps(message.get("id")), None)
        if request is None:
            yield f"a response to nothing that is open: id {message.get('id')!r}"
        elif "error" in message:
            error = message["error"]
            if not (
                isinstance(error.get("code"), int)
                and isinstance(error.get("message"), str)
                and error["message"]
            ):
                yield f"{request['method']}: an error without code and message"
        else:
            result = message.get("result")
            yield from self.vocabulary.problems("agent", request["method"], "result", result)
            if request["method"] == "session/new" and isinstance(result, dict):
                self.sessions.add(result.get("sessionId"))


def main():
    folder, *records = map(Path, sys.argv[1:])
    count = 0
    for record in records:
        conversation = Conversation(folder)
        for number, entry in enumerate(record.read_text(encoding="utf-8").splitlines(), 1):
            entry = json.loads(entry)
            for problem in conversation.line(entry["from"], entry["line"]):
                count += 1
                print(f"{record.name}:{number}: {problem}")
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()

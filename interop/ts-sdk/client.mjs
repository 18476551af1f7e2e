// One independent client: the official TypeScript SDK, driven by a plan.
//
//     node client.mjs PLAN.json SDK_FOLDER
//
// Starts the plan's agent, plays its steps over ACP v1 or v2 and prints one JSON object a line: what the SDK handed
// over after checking it against its own schemas. It judges nothing; the caller compares the lines with what it
// expects. The exit status is 1 when the SDK refused a message, a request failed, or a step ran out of time.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import path from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [planPath, sdkFolder] = process.argv.slice(2);
const plan = JSON.parse(readFileSync(planPath, "utf8"));
const entry = plan.version === 2 ? "dist/v2/stable/acp.js" : "dist/v1/stable/acp.js";
const acp = await import(pathToFileURL(path.join(sdkFolder, entry)));

const say = (line) => console.log(JSON.stringify(line));
let problems = 0;
function problem(text) {
  problems += 1;
  say({ kind: "problem", text: text.slice(0, 2000) });
}
// The SDK reports a message that it could not take on the console and goes on.
console.error = (...parts) =>
  problem(parts.map((part) => (typeof part === "string" ? part : JSON.stringify(part))).join(" "));

/** What the agent has shown of the current turn. */
class Tally {
  constructor(answer) {
    this.answer = answer;
    this.text = "";
    this.chunks = 0;
    this.permissions = 0;
    this.tools = {};
    this.active = false;
    this.firstText = deferred();
    this.idle = deferred();
  }

  note(update) {
    switch (update.sessionUpdate) {
      case "agent_message_chunk":
        if (update.content.type !== "text") return;
        this.text += update.content.text;
        this.chunks += 1;
        this.firstText.resolve();
        return;
      case "tool_call":
      case "tool_call_update":
        this.tools[update.toolCallId] = update.status ?? this.tools[update.toolCallId] ?? "";
        return;
      case "state_update":
        if (update.state !== "idle") this.active = true;
        else if (this.active) this.idle.resolve(update.stopReason);
        return;
    }
  }
}

function deferred() {
  const parts = {};
  parts.promise = new Promise((resolve, reject) => Object.assign(parts, { resolve, reject }));
  return parts;
}

function inTime(what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: nothing after ${plan.stepLimitMs} ms`)), plan.stepLimitMs);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

let tally = new Tally("reject");
const app = acp
  .client({ name: "interop-ts-sdk" })
  .onNotification("session/update", ({ params }) => tally.note(params.update))
  .onNotification("*", () => {}) // extension notifications are for clients that know them
  .onRequest("session/request_permission", ({ params }) => {
    tally.permissions += 1;
    const kind = tally.answer === "allow" ? "allow_once" : "reject_once";
    const option = params.options.find((each) => each.kind === kind);
    return { outcome: option ? { outcome: "selected", optionId: option.optionId } : { outcome: "cancelled" } };
  });

const self = { name: "interop-ts-sdk", version: "1" };
const hello =
  plan.version === 2
    ? { protocolVersion: 2, info: self, capabilities: {} }
    : { protocolVersion: 1, clientInfo: self, clientCapabilities: {} };

async function turn(agent, sessionId, step) {
  tally = new Tally(step.answer);
  const prompt = agent.request("session/prompt", { sessionId, prompt: [{ type: "text", text: step.prompt }] });
  prompt.catch(() => {}); // awaited below; a failure must not count as unhandled before that
  if (step.cancel === "first-text") await Promise.race([tally.firstText.promise, prompt]);
  if (step.cancel !== "never") await agent.notify("session/cancel", { sessionId });
  const response = await prompt;
  const stop = plan.version === 2 ? await tally.idle.promise : response.stopReason;
  const { text, chunks, permissions, tools } = tally;
  say({ kind: "turn", name: step.name, stop, text, chunks, permissions, tools });
}

const child = spawn(plan.agent[0], plan.agent.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const gone = once(child, "exit");
try {
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  await app.connectWith(stream, async (agent) => {
    const initialized = await inTime("initialize", agent.request("initialize", hello));
    const info = initialized.info ?? initialized.agentInfo;
    say({ kind: "initialized", version: initialized.protocolVersion, agent: info?.name });
    const opened = await inTime("session/new", agent.request("session/new", { cwd: plan.cwd, mcpServers: [] }));
    say({ kind: "session", id: opened.sessionId });
    for (const step of plan.steps) await inTime(step.name, turn(agent, opened.sessionId, step));
    await inTime("session/close", agent.request("session/close", { sessionId: opened.sessionId }));
    say({ kind: "closed" });
  });
} catch (error) {
  problem(`${error?.message ?? error} ${JSON.stringify(error?.data ?? null)}`);
}
child.stdin.end();
await inTime("exit", gone).catch((error) => {
  problem(error.message);
  child.kill("SIGKILL");
});
process.exit(problems ? 1 : 0);

// The Vercel AI SDK under Node.js, speaking the lines of worker.py.
//
// `streamText`: tools with an `execute` of their own, which the SDK calls when it sees fit, one step. `parts`: what an
// application does that acts on the `tool-call` part of `fullStream`, with tools that have no `execute`. `whole`: `generateText`.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { generateText, jsonSchema, streamText, tool } from "ai";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";

const PACKAGES = ["ai", "@ai-sdk/openai", "@ai-sdk/anthropic"];
const write = process.stdout.write.bind(process.stdout);
const tell = (line) => write(JSON.stringify(line) + "\n");
console.log = console.info = console.warn = console.error;

function model(ask) {
  const settings = { apiKey: "none", baseURL: `${ask.origin}/v1` };
  return ask.dialect === "anthropic_messages"
    ? createAnthropic(settings)("demo")
    : createOpenAI(settings).chat("demo");
}

function tools(ask, execute) {
  const declared = (ask.request.tools ?? []).map((each) => each.function ?? each).filter((each) => each.name);
  return Object.fromEntries(
    declared.map((each) => {
      const inputSchema = jsonSchema(each.input_schema ?? each.parameters ?? { type: "object" });
      const run = execute && ((input, { toolCallId }) => execute(toolCallId, each.name, input));
      return [each.name, tool({ inputSchema, ...(run && { execute: run }) })];
    }),
  );
}

const prompt = (ask) => ask.request.messages[0].content;

function call(ask, id, name, input) {
  tell({ ask: ask.ask, call: { id, name, arguments: typeof input === "string" ? input : JSON.stringify(input) } });
  return "done";
}

async function drain(ask, result, onCall) {
  for await (const part of result.fullStream) {
    if (part.type === "text-delta") tell({ ask: ask.ask, text: part.text });
    if (part.type === "tool-call" && onCall && !part.invalid && !part.providerExecuted) onCall(part);
    if (part.type === "error") throw part.error;
  }
}

const quiet = { onError: () => {} };
const WAYS = {
  streamText: (ask) => {
    const execute = (id, name, input) => call(ask, id, name, input);
    return drain(ask, streamText({ model: model(ask), prompt: prompt(ask), tools: tools(ask, execute), ...quiet }));
  },
  parts: (ask) =>
    drain(ask, streamText({ model: model(ask), prompt: prompt(ask), tools: tools(ask), ...quiet }), (part) =>
      call(ask, part.toolCallId, part.toolName, part.input),
    ),
  whole: (ask) => {
    const execute = (id, name, input) => call(ask, id, name, input);
    return generateText({ model: model(ask), prompt: prompt(ask), tools: tools(ask, execute) });
  },
};

function version(name) {
  const here = dirname(fileURLToPath(import.meta.url));
  return JSON.parse(readFileSync(join(here, "node_modules", name, "package.json"), "utf8")).version;
}

async function answer(ask) {
  let error = null;
  try {
    await WAYS[ask.way](ask);
  } catch (raised) {
    error = raised?.name ?? String(raised);
  }
  tell({ ask: ask.ask, end: true, error });
}

tell({
  ways: Object.keys(WAYS),
  dialects: ["openai_chat", "anthropic_messages"],
  versions: { ...Object.fromEntries(PACKAGES.map((name) => [name, version(name)])), "Node.js": process.versions.node },
});
createInterface({ input: process.stdin })
  .on("line", (line) => answer(JSON.parse(line)))
  .on("close", () => process.exit(0));

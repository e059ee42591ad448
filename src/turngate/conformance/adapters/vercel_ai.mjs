// The Vercel AI SDK under Node.js, speaking the lines of worker.py.
//
// `streamText`: tools with an `execute` of their own, which the SDK calls when it sees fit, one step. `parts`: what an
// application does that acts on the `tool-call` part of `fullStream`, with tools that have no `execute`. `whole`: `generateText`.

import { generateText, jsonSchema, streamText, tool } from "ai";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { execute, say, serve } from "./worker.mjs";

function model(ask) {
  const settings = { apiKey: "none", baseURL: `${ask.origin}/v1` };
  return ask.dialect === "anthropic_messages"
    ? createAnthropic(settings)("demo")
    : createOpenAI(settings).chat("demo");
}

function tools(ask, runs) {
  const declared = (ask.request.tools ?? []).map((each) => each.function ?? each).filter((each) => each.name);
  return Object.fromEntries(
    declared.map((each) => {
      const inputSchema = jsonSchema(each.input_schema ?? each.parameters ?? { type: "object" });
      const run = runs && ((input, { toolCallId }) => execute(ask, toolCallId, each.name, input));
      return [each.name, tool({ inputSchema, ...(run && { execute: run }) })];
    }),
  );
}

const prompt = (ask) => ask.request.messages[0].content;

async function drain(ask, result, onCall) {
  for await (const part of result.fullStream) {
    if (part.type === "text-delta") say(ask, part.text);
    if (part.type === "tool-call" && onCall && !part.invalid && !part.providerExecuted) onCall(part);
    if (part.type === "error") throw part.error;
  }
}

const quiet = { onError: () => {} };
const WAYS = {
  streamText: (ask) => drain(ask, streamText({ model: model(ask), prompt: prompt(ask), tools: tools(ask, true), ...quiet })),
  parts: (ask) =>
    drain(ask, streamText({ model: model(ask), prompt: prompt(ask), tools: tools(ask, false), ...quiet }), (part) =>
      execute(ask, part.toolCallId, part.toolName, part.input),
    ),
  whole: (ask) => generateText({ model: model(ask), prompt: prompt(ask), tools: tools(ask, true) }),
};

serve(WAYS, ["openai_chat", "anthropic_messages"], ["ai", "@ai-sdk/openai", "@ai-sdk/anthropic"]);

// `ai`, the Vercel AI SDK, through its official providers: `streamText` and `generateText` with tools that have an `execute`,
// `streamText` with tools that have none and a loop over `fullStream`, and the front end's side of its own UI message stream.

import { createAmazonBedrock } from "@ai-sdk/amazon-bedrock";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createCohere } from "@ai-sdk/cohere";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createMistral } from "@ai-sdk/mistral";
import { createOpenAI } from "@ai-sdk/openai";
import { AbstractChat, DefaultChatTransport, generateText, isToolUIPart, getToolName, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { serve } from "./drive.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;

const apiKey = "none";
const MODELS = {
  openai_chat: ({ origin }) => createOpenAI({ apiKey, baseURL: `${origin}/v1` }).chat("demo"),
  openai_responses: ({ origin }) => createOpenAI({ apiKey, baseURL: `${origin}/v1` }).responses("demo"),
  anthropic_messages: ({ origin }) => createAnthropic({ apiKey, baseURL: `${origin}/v1` })("demo"),
  gemini_generate: ({ origin }) => createGoogleGenerativeAI({ apiKey, baseURL: `${origin}/v1beta` })("demo"),
  mistral_chat: ({ origin }) => createMistral({ apiKey, baseURL: `${origin}/v1` })("demo"),
  bedrock_converse: ({ origin }) => createAmazonBedrock({ apiKey, region: "us-east-1", baseURL: origin })("demo-model"),
  cohere_chat: ({ origin }) => createCohere({ apiKey, baseURL: `${origin}/v2` })("demo"),
};

function asked(job, execute) {
  const tools = Object.entries(job.tools).map(([name, schema]) => {
    const run = execute && ((input, { toolCallId }) => execute(name)(toolCallId, input));
    return [name, tool({ inputSchema: jsonSchema(schema ?? { type: "object" }), ...(run && { execute: run }) })];
  });
  return {
    model: MODELS[job.dialect](job),
    prompt: "Weather?",
    tools: Object.fromEntries(tools),
    stopWhen: stepCountIs(2),
    onError: () => {},
  };
}

async function read(seen, { fullStream }, onCall) {
  for await (const part of fullStream) {
    if (part.type === "text-delta") seen.text += part.text;
    if (part.type === "finish") seen.ending = part.finishReason;
    if (part.type === "tool-call" && !part.invalid && !part.providerExecuted) onCall?.(part);
    if (part.type === "error") throw part.error;
  }
}

/** The state that a front end's framework would keep. */
class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => void this.messages.push(message);
  popMessage = () => void this.messages.pop();
  replaceMessage = (at, message) => void (this.messages[at] = message);
  snapshot = (value) => structuredClone(value);
}

class Chat extends AbstractChat {}

serve({
  streamText: (job, seen) => read(seen, streamText(asked(job, (name) => seen.runs(name)))),
  parts: (job, seen) =>
    read(seen, streamText(asked(job)), ({ toolCallId, toolName, input }) => seen.call(toolCallId, toolCallId, toolName, input)),
  generateText: async (job, seen) => {
    const { text, finishReason } = await generateText(asked(job, (name) => seen.runs(name)));
    Object.assign(seen, { text, ending: finishReason });
  },
  ui: async (job, seen) => {
    let error;
    const chat = new Chat({
      state: new State(),
      transport: new DefaultChatTransport({ api: `${job.origin}/api/chat` }),
      onToolCall: ({ toolCall: { toolCallId, toolName, input, dynamic } }) =>
        void seen.runs(toolName)(toolCallId, input),
      onError: (raised) => (error = raised),
      onFinish: ({ finishReason }) => (seen.ending = finishReason ?? null),
    });
    await chat.sendMessage({ text: "Weather?" });
    for (const part of chat.messages.at(-1)?.parts ?? []) {
      if (part.type === "text") seen.text += part.text;
      if (isToolUIPart(part) && !part.providerExecuted) seen.call(part.toolCallId, part.toolCallId, getToolName(part), part.input);
    }
    if (error) throw error;
  },
});

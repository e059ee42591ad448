// `cohere-ai`: chat v2 and v1, streamed and whole.

import { CohereClient, CohereClientV2 } from "cohere-ai";
import { serve } from "./drive.mjs";

const sdk = (job) => new CohereClientV2({ token: "none", environment: job.origin });
const asked = ({ request: { model, messages, tools } }) => ({ model, messages, tools });

function event(seen, { type, index, delta }) {
  const called = delta?.message?.toolCalls;
  if (type === "content-delta") seen.text += delta.message.content.text ?? "";
  if (type === "tool-call-start") seen.call(index, called.id, called.function.name, called.function.arguments ?? "");
  if (type === "tool-call-delta") seen.call(index).arguments += called.function.arguments;
  if (type !== "message-end") return;
  seen.ending = delta.finishReason;
  seen.told = delta.error ?? null;
}

const sdk1 = (job) => new CohereClient({ token: "none", environment: job.origin });

function asked1({ request: { model, message, tools } }) {
  const named = tools?.map(({ name, description, parameter_definitions: parameterDefinitions }) => ({ name, description, parameterDefinitions }));
  return { model, message, tools: named };
}

const calls1 = (calls) => (calls ?? []).map(({ name, parameters }) => ({ id: null, name, arguments: parameters }));

/** In version 1 calls have no id, and the last event repeats them whole. */
function said1(seen, { eventType, text, toolCalls, finishReason, response }) {
  if (eventType === "text-generation") seen.text += text;
  if (eventType === "tool-calls-generation") seen.settle(calls1(toolCalls));
  if (eventType !== "stream-end") return;
  seen.ending = finishReason;
  seen.settle(calls1(response.toolCalls));
  if (finishReason === "ERROR") seen.told = response.text;
}

serve({
  "chat.stream": async (job, seen) => {
    for await (const each of await sdk(job).chatStream(asked(job))) event(seen, each);
  },
  "chat.whole": async (job, seen) => {
    const { message, finishReason } = await sdk(job).chat(asked(job));
    seen.ending = finishReason;
    for (const { text } of message.content ?? []) seen.text += text ?? "";
    for (const { id, function: called } of message.toolCalls ?? []) seen.call(seen.slots.size, id, called.name, called.arguments);
  },
  "v1.stream": async (job, seen) => {
    for await (const each of await sdk1(job).chatStream(asked1(job))) said1(seen, each);
  },
  "v1.whole": async (job, seen) => {
    const { text, toolCalls, finishReason } = await sdk1(job).chat(asked1(job));
    Object.assign(seen, { text, ending: finishReason });
    seen.settle(calls1(toolCalls));
  },
});

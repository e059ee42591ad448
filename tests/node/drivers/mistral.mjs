// `@mistralai/mistralai`: chat and Conversations, streamed and whole.

import { Mistral } from "@mistralai/mistralai";
import { serve } from "./drive.mjs";

const sdk = (job) => new Mistral({ apiKey: "none", serverURL: job.origin });
const asked = ({ request: { model, messages, tools } }) => ({ model, messages, tools });
const started = ({ request: { model, inputs, tools } }) => ({ model, inputs, tools });
const words = (content) => (typeof content === "string" ? content : (content ?? []).map(({ text }) => text ?? "").join(""));

function chunk(seen, { choices }) {
  for (const { index, delta, finishReason } of choices) {
    seen.text += words(delta.content);
    seen.ending = finishReason ?? seen.ending;
    for (const call of delta.toolCalls ?? []) piece(seen, `${index}/${call.index ?? 0}/`, call);
  }
}

/** Mistral's calls come whole and mostly without an index; a piece that goes on has an index and neither id nor name. */
function piece(seen, place, { id, function: { name, arguments: args } }) {
  const known = id && id !== "null" ? id : null;
  const slot = known || name ? place + (known ?? name) : [...seen.slots.keys()].findLast((each) => each.startsWith(place));
  const call = seen.call(slot ?? place, known, name, typeof args === "string" ? "" : args);
  if (typeof args === "string") call.arguments += args;
}

function entry(seen, { event, data }) {
  if (event === "message.output.delta") seen.text += words(data.content);
  if (event === "conversation.response.done") seen.ending = "done";
  if (event === "conversation.response.error") seen.told = data.message;
  if (event !== "function.call.delta") return;
  seen.call(data.outputIndex ?? data.id, data.toolCallId, data.name).arguments += data.arguments;
}

serve({
  "chat.stream": async (job, seen) => {
    for await (const { data } of await sdk(job).chat.stream(asked(job))) chunk(seen, data);
  },
  "chat.whole": async (job, seen) => {
    const { choices } = await sdk(job).chat.complete(asked(job));
    for (const { message, finishReason } of choices) {
      seen.text += words(message.content);
      seen.ending = finishReason;
      for (const { id, function: called } of message.toolCalls ?? []) seen.call(seen.slots.size, id, called.name, called.arguments);
    }
  },
  "conversations.stream": async (job, seen) => {
    for await (const each of await sdk(job).beta.conversations.startStream(started(job))) entry(seen, each);
  },
  "conversations.whole": async (job, seen) => {
    const { outputs } = await sdk(job).beta.conversations.start(started(job));
    seen.ending = "done";
    for (const each of outputs) {
      if (each.type === "message.output") seen.text += words(each.content);
      if (each.type === "function.call") seen.call(seen.slots.size, each.toolCallId, each.name, each.arguments);
    }
  },
});

// `cohere-ai`: chat v2, streamed and whole.

import { CohereClientV2 } from "cohere-ai";
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
});

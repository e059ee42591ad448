// `@anthropic-ai/sdk`: Messages; the raw stream, the accumulating helper, the tool runner, the whole reply.

import Anthropic from "@anthropic-ai/sdk";
import { serve } from "./drive.mjs";

const sdk = (job) => new Anthropic({ apiKey: "none", baseURL: job.origin });

/** What a loop over the raw events does: join the pieces of an input. */
function event(seen, { type, index, content_block: block, delta }) {
  if (type === "content_block_start" && block.type === "tool_use") {
    seen.call(index, block.id, block.name, Object.keys(block.input ?? {}).length ? block.input : "");
  }
  if (type !== "content_block_delta" && type !== "message_delta") return;
  seen.text += delta.text ?? "";
  seen.ending = delta.stop_reason ?? seen.ending;
  if (delta.type === "input_json_delta" && seen.slots.has(index)) seen.slots.get(index).arguments += delta.partial_json;
}

function message(seen, { content, stop_reason }) {
  seen.text = content.map(({ text }) => text ?? "").join("");
  seen.ending = stop_reason;
  const calls = content.filter(({ type }) => type === "tool_use");
  seen.settle(calls.map(({ id, name, input }) => ({ id, name, arguments: input })));
}

function runner(job, seen, stream) {
  const tools = Object.entries(job.tools).map(([name, schema]) => {
    const run = seen.runs(name);
    return { name, input_schema: schema, parse: (input) => input, run: (input, context) => run(context?.toolUseBlock?.id ?? null, input) };
  });
  return sdk(job).beta.messages.toolRunner({ ...job.request, tools, stream, max_iterations: 2 });
}

serve({
  "messages.raw": async (job, seen) => {
    for await (const each of await sdk(job).messages.create({ ...job.request, stream: true })) event(seen, each);
  },
  "messages.helper": async (job, seen) => {
    const stream = sdk(job).messages.stream(job.request);
    for await (const each of stream) event(seen, each);
    message(seen, await stream.finalMessage());
  },
  "messages.runner": async (job, seen) => {
    for await (const stream of runner(job, seen, true)) {
      for await (const { type, delta } of stream) if (type === "content_block_delta") seen.text += delta.text ?? "";
    }
  },
  "messages.whole": async (job, seen) => message(seen, await sdk(job).messages.create({ ...job.request, stream: false })),
  "messages.whole runner": async (job, seen) => {
    for await (const { content } of runner(job, seen, false)) for (const { text } of content) seen.text += text ?? "";
  },
});

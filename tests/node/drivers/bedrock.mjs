// `@aws-sdk/client-bedrock-runtime`: Converse and InvokeModel, streamed and whole. Its own choice is
// HTTP/2, which the gate does not speak; docs/dialects.md says what to give it.

import {
  BedrockRuntimeClient,
  ConverseCommand,
  ConverseStreamCommand,
  InvokeModelCommand,
  InvokeModelWithResponseStreamCommand,
} from "@aws-sdk/client-bedrock-runtime";
import { NodeHttpHandler } from "@smithy/node-http-handler";
import { serve } from "./drive.mjs";

function sdk({ origin, play }) {
  const credentials = { accessKeyId: "none", secretAccessKey: "none" };
  const requestHandler = new NodeHttpHandler();
  const client = new BedrockRuntimeClient({ region: "us-east-1", endpoint: origin, credentials, requestHandler });
  const mark = (next) => (call) => {
    call.request.headers["x-play"] = play;
    return next(call);
  };
  client.middlewareStack.add(mark, { step: "build" });
  return client;
}

const invoked = ({ request }, modelId = "anthropic.demo") => ({ modelId, body: JSON.stringify(request) });
const parsed = (bytes) => JSON.parse(new TextDecoder().decode(bytes));

function converse(seen, { contentBlockStart, contentBlockDelta, messageStop }) {
  const begun = contentBlockStart?.start?.toolUse;
  if (begun && begun.type !== "server_tool_use") seen.call(contentBlockStart.contentBlockIndex, begun.toolUseId, begun.name);
  const { contentBlockIndex, delta } = contentBlockDelta ?? {};
  seen.text += delta?.text ?? "";
  if (delta?.toolUse && seen.slots.has(contentBlockIndex)) seen.slots.get(contentBlockIndex).arguments += delta.toolUse.input;
  seen.ending = messageStop?.stopReason ?? seen.ending;
}

function event(seen, { type, index, content_block: block, delta }) {
  if (type === "content_block_start" && block.type === "tool_use") {
    seen.call(index, block.id, block.name, Object.keys(block.input ?? {}).length ? block.input : "");
  }
  if (type !== "content_block_delta" && type !== "message_delta") return;
  seen.text += delta.text ?? "";
  seen.ending = delta.stop_reason ?? seen.ending;
  if (delta.type === "input_json_delta" && seen.slots.has(index)) seen.slots.get(index).arguments += delta.partial_json;
}

/** One of the chunks of the models that speak OpenAI's. */
function chunk(seen, { choices: [{ delta, finish_reason }] }) {
  seen.text += delta?.content ?? "";
  seen.ending = finish_reason ?? seen.ending;
  for (const { index, id, function: called } of delta?.tool_calls ?? []) {
    seen.call(index, id ?? null, called.name).arguments += called.arguments ?? "";
  }
}

/** One of Command R's lines; the last repeats the calls whole, and they have no ids. */
function command(seen, { event_type: kind, text, finish_reason, response }) {
  if (kind === "text-generation") seen.text += text;
  if (kind !== "stream-end") return;
  seen.ending = finish_reason;
  for (const { name, parameters } of response.tool_calls ?? []) seen.call(seen.slots.size, null, name, parameters);
}

/** AWS's SDK hands the model's own events on; what they are, the model's family says. */
function inside(seen, said) {
  if (said.choices?.length) chunk(seen, said);
  else if (said.event_type) command(seen, said);
  else if (said.type) event(seen, said);
  else converse(seen, said);
}

serve({
  "converse.stream": async (job, seen) => {
    const { stream } = await sdk(job).send(new ConverseStreamCommand({ modelId: "demo-model", ...job.request }));
    for await (const each of stream) converse(seen, each);
  },
  "converse.whole": async (job, seen) => {
    const { output, stopReason } = await sdk(job).send(new ConverseCommand({ modelId: "demo-model", ...job.request }));
    seen.ending = stopReason;
    for (const { text, toolUse } of output.message.content) {
      seen.text += text ?? "";
      if (toolUse && toolUse.type !== "server_tool_use") seen.call(seen.slots.size, toolUse.toolUseId, toolUse.name, toolUse.input);
    }
  },
  "invoke.stream": async (job, seen) => {
    const { body } = await sdk(job).send(new InvokeModelWithResponseStreamCommand(invoked(job)));
    for await (const { chunk: each } of body) if (each) inside(seen, parsed(each.bytes));
  },
  "invoke.whole": async (job, seen) => {
    const { body } = await sdk(job).send(new InvokeModelCommand(invoked(job)));
    const { content, stop_reason, text, tool_calls, finish_reason } = parsed(body);
    Object.assign(seen, { text: text ?? "", ending: stop_reason ?? finish_reason });
    for (const { type, text: words, id, name, input } of content ?? []) {
      seen.text += words ?? "";
      if (type === "tool_use") seen.call(seen.slots.size, id, name, input);
    }
    for (const { name, parameters } of tool_calls ?? []) seen.call(seen.slots.size, null, name, parameters);
  },
});

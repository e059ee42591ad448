// `openai`: Chat Completions, Responses, runs of the Assistants and legacy Completions; the raw streams, the accumulating helpers,
// the tool runner.

import OpenAI from "openai";
import { serve } from "./drive.mjs";

const sdk = (job) => new OpenAI({ apiKey: "none", baseURL: `${job.origin}/v1` });

/** What README's loop over chunks does: join what stands at one index. */
function chunk(seen, { choices }) {
  for (const { index, delta, finish_reason } of choices ?? []) {
    seen.text += delta?.content ?? "";
    seen.ending = finish_reason ?? seen.ending;
    const legacy = delta?.function_call;
    if (legacy) seen.call(`${index}`, null, legacy.name).arguments += legacy.arguments ?? "";
    for (const call of delta?.tool_calls ?? []) {
      const known = seen.call(`${index}/${call.index}`);
      known.id ||= call.id ?? null;
      known.name ||= call.function?.name || call.custom?.name || null;
      known.arguments += call.function?.arguments ?? call.custom?.input ?? "";
    }
  }
}

function completion(seen, { choices }) {
  seen.text = choices.map(({ message }) => message.content ?? "").join("");
  seen.ending = choices[0]?.finish_reason;
  const legacy = choices.flatMap(({ message: { function_call: call } }) => (call ? [{ id: null, ...call }] : []));
  const calls = choices.flatMap(({ message }) => message.tool_calls ?? []).map((call) => ({
    id: call.id ?? null,
    name: (call.function ?? call.custom)?.name,
    arguments: call.function?.arguments ?? call.custom?.input,
  }));
  seen.settle([...legacy, ...calls]);
}

/** The runner wants a function for each tool, and runs it when it sees fit. */
function runnable(job, seen) {
  return Object.entries(job.tools).map(([name, parameters]) => {
    const run = seen.runs(name);
    return { type: "function", function: { name, parameters, function: (text) => run(null, text) } };
  });
}

const CALLS = ["function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call", "computer_call"];

function item(seen, slot, { type, call_id, name, arguments: args, input, action, operation }) {
  if (!CALLS.includes(type)) return;
  seen.slots.set(slot, { id: call_id ?? null, name: name ?? type, arguments: args ?? input ?? action ?? operation });
}

/** Codex and the documentation's loop run an item when it is done. */
function event(seen, said) {
  if (said.type === "response.output_text.delta") seen.text += said.delta;
  if (said.type === "response.output_item.done") item(seen, said.output_index, said.item);
  if (said.type === "response.completed") seen.ending = said.response.status;
}

function response(seen, { output, output_text, status }) {
  seen.text = output_text ?? "";
  seen.ending = status;
  seen.settle([]);
  output.forEach((each, at) => item(seen, at, each));
}

/** A run that requires action lists the calls; the documentation's loop runs them then. */
function run(seen, { status, required_action: action }) {
  seen.ending = status;
  seen.settle([]);
  if (status !== "requires_action") return;
  for (const { id, function: called } of action?.submit_tool_outputs.tool_calls ?? []) {
    seen.call(seen.slots.size, id, called.name, called.arguments);
  }
}

function ofRun(seen, { event: name, data }) {
  if (name === "thread.message.delta") seen.text += (data.delta.content ?? []).map(({ text }) => text?.value ?? "").join("");
  if (data.object === "thread.run") run(seen, data);
}

serve({
  "chat.raw": async (job, seen) => {
    const stream = await sdk(job).chat.completions.create({ ...job.request, stream: true });
    for await (const each of stream) chunk(seen, each);
  },
  "chat.helper": async (job, seen) => {
    const stream = sdk(job).chat.completions.stream(job.request);
    for await (const each of stream) chunk(seen, each);
    completion(seen, await stream.finalChatCompletion());
  },
  "chat.runner": async (job, seen) => {
    const asked = { ...job.request, stream: true, tools: runnable(job, seen) };
    const stream = sdk(job).chat.completions.runTools(asked, { maxChatCompletions: 2 });
    for await (const { choices } of stream) seen.text += choices?.[0]?.delta?.content ?? "";
    await stream.done();
  },
  "chat.whole": async (job, seen) => completion(seen, await sdk(job).chat.completions.create({ ...job.request, stream: false })),
  "chat.whole runner": async (job, seen) => {
    const asked = { ...job.request, stream: false, tools: runnable(job, seen) };
    await sdk(job).chat.completions.runTools(asked, { maxChatCompletions: 2 }).done();
  },
  "responses.raw": async (job, seen) => {
    const stream = await sdk(job).responses.create({ ...job.request, stream: true });
    for await (const each of stream) event(seen, each);
  },
  "responses.helper": async (job, seen) => {
    const stream = sdk(job).responses.stream(job.request);
    for await (const each of stream) event(seen, each);
    response(seen, await stream.finalResponse());
  },
  "responses.whole": async (job, seen) => response(seen, await sdk(job).responses.create({ ...job.request, stream: false })),
  "assistants.raw": async (job, seen) => {
    const stream = await sdk(job).beta.threads.runs.create("thread_1", { ...job.request, stream: true });
    for await (const each of stream) ofRun(seen, each);
  },
  "assistants.helper": async (job, seen) => {
    const stream = sdk(job).beta.threads.runs.stream("thread_1", job.request);
    for await (const each of stream) ofRun(seen, each);
    run(seen, await stream.finalRun());
  },
  "assistants.whole": async (job, seen) => run(seen, await sdk(job).beta.threads.runs.create("thread_1", { ...job.request, stream: false })),
  "completions.raw": async (job, seen) => {
    const stream = await sdk(job).completions.create({ ...job.request, stream: true });
    for await (const { choices } of stream) {
      seen.text += choices[0]?.text ?? "";
      seen.ending = choices[0]?.finish_reason ?? seen.ending;
    }
  },
  "completions.whole": async (job, seen) => {
    const { choices } = await sdk(job).completions.create({ ...job.request, stream: false });
    seen.text = choices[0].text;
    seen.ending = choices[0].finish_reason;
  },
});

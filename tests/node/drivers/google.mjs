// `@google/genai`: generateContent streamed, whole and with automatic function calling; a chat's stream; Interactions.

import { GoogleGenAI } from "@google/genai";
import { serve } from "./drive.mjs";

const sdk = (job) => new GoogleGenAI({ apiKey: "none", httpOptions: { baseUrl: job.origin } });

const asked = ({ request: { model, contents, tools, toolConfig } }) => ({
  model: model ?? "demo",
  contents,
  config: { tools, toolConfig },
});

/** What the documentation does with a reply or with each piece of a stream. */
function reply(seen, { candidates }) {
  for (const { content, finishReason } of candidates ?? []) {
    seen.ending = finishReason ?? seen.ending;
    for (const { text, thought, functionCall } of content?.parts ?? []) {
      if (!thought) seen.text += text ?? "";
      if (functionCall) seen.call(seen.slots.size, functionCall.id ?? null, functionCall.name, functionCall.args ?? {});
    }
  }
}

/** A tool that the SDK calls itself. */
function callable(job, seen) {
  const functionDeclarations = Object.entries(job.tools).map(([name, schema]) => ({ name, parametersJsonSchema: schema }));
  return {
    tool: async () => ({ functionDeclarations }),
    callTool: async (calls) =>
      calls.map(({ id, name, args }) => {
        seen.runs(name)(id ?? null, args ?? {});
        return { functionResponse: { id, name, response: { output: "done" } } };
      }),
  };
}

function automatic(job, seen) {
  return { ...asked(job), config: { tools: [callable(job, seen)], automaticFunctionCalling: { maximumRemoteCalls: 2 } } };
}

function step(seen, said) {
  switch (said.event_type) {
    case "step.start":
      if (said.step.type === "function_call") seen.call(said.index, said.step.id, said.step.name);
      break;
    case "step.delta":
      if (said.delta.type === "text") seen.text += said.delta.text;
      if (said.delta.type === "arguments_delta") seen.call(said.index).arguments += said.delta.arguments;
      break;
    case "interaction.completed":
      seen.ending = said.interaction.status;
      break;
    case "error":
      seen.told = said.error.message;
  }
}

serve({
  "generate.stream": async (job, seen) => {
    for await (const each of await sdk(job).models.generateContentStream(asked(job))) reply(seen, each);
  },
  "generate.chat": async (job, seen) => {
    const { model, contents, config } = asked(job);
    const chat = sdk(job).chats.create({ model, config });
    for await (const each of await chat.sendMessageStream({ message: contents[0].parts })) reply(seen, each);
  },
  "generate.automatic": async (job, seen) => {
    for await (const { candidates } of await sdk(job).models.generateContentStream(automatic(job, seen))) {
      for (const { text } of candidates?.[0]?.content?.parts ?? []) seen.text += text ?? "";
    }
  },
  "generate.whole": async (job, seen) => reply(seen, await sdk(job).models.generateContent(asked(job))),
  "generate.whole automatic": async (job, seen) => {
    await sdk(job).models.generateContent(automatic(job, seen));
  },
  "interactions.stream": async (job, seen) => {
    const { model, input, tools } = job.request;
    for await (const each of await sdk(job).interactions.create({ model, input, tools, stream: true })) step(seen, each);
  },
  "interactions.whole": async (job, seen) => {
    const { model, input, tools } = job.request;
    const { steps, status, output_text } = await sdk(job).interactions.create({ model, input, tools });
    seen.text = output_text ?? "";
    seen.ending = status;
    for (const { type, id, name, arguments: args } of steps ?? []) {
      if (type === "function_call") seen.call(seen.slots.size, id, name, args);
    }
  },
});

// `ollama`: chat, streamed and whole.

import { Ollama } from "ollama";
import { serve } from "./drive.mjs";

const sdk = (job) => new Ollama({ host: job.origin });

function reply(seen, { message, done_reason }) {
  seen.text += message?.content ?? "";
  seen.ending = done_reason ?? seen.ending;
  for (const { id, function: called } of message?.tool_calls ?? []) {
    seen.call(seen.slots.size, id ?? null, called.name, called.arguments);
  }
}

serve({
  "chat.stream": async (job, seen) => {
    for await (const each of await sdk(job).chat({ ...job.request, stream: true })) reply(seen, each);
  },
  "chat.whole": async (job, seen) => reply(seen, await sdk(job).chat({ ...job.request, stream: false })),
});

// The official client of AG-UI: an HTTP agent with a subscriber.
//
// `subscriber`: a tool is run when the subscriber hears that its call has ended. `messages`: the calls of the agent's messages
// that have no result are run when the run is over. An error that the run tells goes to the subscriber, which throws it here.

import { HttpAgent } from "@ag-ui/client";
import { execute, say, serve } from "./worker.mjs";

async function ran(ask, onCall) {
  let told;
  const agent = new HttpAgent({ url: `${ask.origin}/agent`, threadId: "t1", initialMessages: ask.request.messages });
  await agent.runAgent(
    { runId: "r1", tools: ask.request.tools },
    {
      onTextMessageContentEvent: ({ event }) => void say(ask, event.delta),
      onToolCallEndEvent: ({ event, toolCallName, toolCallArgs }) => void onCall?.(event.toolCallId, toolCallName, toolCallArgs),
      onRunErrorEvent: ({ event }) => void (told = Object.assign(new Error(event.message), { name: "RunError" })),
    },
  );
  if (told) throw told;
  return agent.messages;
}

const WAYS = {
  subscriber: (ask) => ran(ask, (id, name, input) => execute(ask, id, name, input)),
  messages: async (ask) => {
    const messages = await ran(ask);
    const answered = new Set(messages.map(({ toolCallId }) => toolCallId));
    for (const { id, function: called } of messages.flatMap(({ toolCalls }) => toolCalls ?? [])) {
      if (!answered.has(id)) execute(ask, id, called.name, JSON.parse(called.arguments || "{}"));
    }
  },
};

serve(WAYS, ["ag_ui"], ["@ag-ui/client"]);

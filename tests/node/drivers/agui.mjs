// `@ag-ui/client`: the front end's side of AG-UI, an HTTP agent with a subscriber.

import { HttpAgent } from "@ag-ui/client";
import { serve } from "./drive.mjs";

serve({
  agent: async (job, seen) => {
    const agent = new HttpAgent({ url: `${job.origin}/agent`, threadId: "t1" });
    const tools = Object.entries(job.tools).map(([name, parameters]) => ({ name, description: "", parameters }));
    await agent.runAgent(
      { runId: "r1", tools },
      {
        onTextMessageContentEvent: ({ event }) => void (seen.text += event.delta),
        onToolCallEndEvent: ({ event: { toolCallId: id }, toolCallName, toolCallArgs }) =>
          void seen.call(id, id, toolCallName, toolCallArgs),
        onRunFinishedEvent: ({ outcome }) => void (seen.ending = outcome),
        onRunErrorEvent: ({ event }) => void (seen.told = event.message),
      },
    );
    const calls = agent.messages.flatMap(({ toolCalls }) => toolCalls ?? []);
    seen.settle(calls.map(({ id, function: called }) => ({ id, ...called })));
  },
});

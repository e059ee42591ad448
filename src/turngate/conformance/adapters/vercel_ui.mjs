// The front end's side of the Vercel AI SDK: a chat over the UI message stream.
//
// `onToolCall`: the callback in which the documentation runs a tool of the browser's. `messages`: what an application does that
// looks at the parts of the last message when the chat is done.

import { AbstractChat, DefaultChatTransport, getToolName, isToolUIPart } from "ai";
import { execute, say, serve } from "./worker.mjs";

/** The state that a framework would keep. */
class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => void this.messages.push(message);
  popMessage = () => void this.messages.pop();
  replaceMessage = (at, message) => void (this.messages[at] = message);
  snapshot = (value) => structuredClone(value);
}

class Chat extends AbstractChat {}

/** Ask, show the text, and throw what the chat ended with. */
async function ended(ask, onToolCall) {
  let error;
  const transport = new DefaultChatTransport({ api: `${ask.origin}/api/chat` });
  const chat = new Chat({ state: new State(), transport, onToolCall, onError: (raised) => (error = raised) });
  await chat.sendMessage({ text: ask.request.messages[0].parts[0].text });
  const parts = chat.messages.findLast(({ role }) => role === "assistant")?.parts ?? [];
  for (const { type, text } of parts) if (type === "text") say(ask, text);
  if (error) throw error;
  return parts;
}

const WAYS = {
  onToolCall: (ask) => ended(ask, ({ toolCall }) => void execute(ask, toolCall.toolCallId, toolCall.toolName, toolCall.input)),
  messages: async (ask) => {
    for (const part of await ended(ask)) {
      const waiting = isToolUIPart(part) && part.state === "input-available" && !part.providerExecuted;
      if (waiting) execute(ask, part.toolCallId, getToolName(part), part.input);
    }
  },
};

serve(WAYS, ["vercel_ui"], ["ai"]);

// What the drivers share: jobs come in as JSON lines, what one question came to goes out as a JSON line, many at once.
//
// A job names its way, its origin and what is asked; `body`, where it is there, goes out instead of what the SDK would have
// sent, so that the reply to any recorded request can be read. Everything else is the SDK's own default, retries included.

import { AsyncLocalStorage } from "node:async_hooks";
import { createInterface } from "node:readline";

/** What a program that follows the SDK's documentation has seen. */
export class Seen {
  text = "";
  /** Calls by where the SDK keeps them; `arguments` is text where the SDK shows text, else what it parsed. */
  slots = new Map();
  /** Calls that the SDK itself has run, in order. */
  ran = [];
  ending = null;
  /** The provider's words for an error, where the SDK hands them out instead of raising. */
  told = null;

  /** The call in a slot, begun when it is first named. */
  call(slot, id = null, name = null, args = "") {
    if (!this.slots.has(slot)) this.slots.set(slot, { id, name, arguments: args });
    return this.slots.get(slot);
  }

  /** What the SDK has accumulated takes the place of what its pieces said. */
  settle(calls) {
    this.slots = new Map(calls.map((call, at) => [at, call]));
  }

  /** An `execute` for one tool. */
  runs(name) {
    return (id, args) => {
      this.ran.push({ id, name, arguments: args });
      return "done";
    };
  }
}

const jobs = new AsyncLocalStorage();
const plain = globalThis.fetch;

globalThis.fetch = (input, init) => {
  const job = jobs.getStore();
  const request = new Request(input, init);
  const headers = new Headers(request.headers);
  headers.set("x-play", job.play);
  headers.delete("content-length");
  return plain(request, { headers, ...(job.body && { body: job.body }) });
};

function described(error) {
  const seen = new Set();
  const text = JSON.stringify(error, (key, value) => {
    if (typeof value !== "object" || value === null) return typeof value === "bigint" ? `${value}` : value;
    if (seen.has(value) || key === "requestBodyValues") return undefined;
    seen.add(value);
    return value instanceof Error ? { ...value, message: value.message, cause: value.cause } : value;
  });
  const status = error?.status ?? error?.statusCode ?? error?.status_code ?? error?.$metadata?.httpStatusCode ?? null;
  return { type: error?.constructor?.name ?? typeof error, message: error?.message ?? `${error}`, status, whole: text ?? "" };
}

async function answer(ways, job) {
  const seen = new Seen();
  let error = null;
  try {
    await ways[job.way](job, seen);
  } catch (raised) {
    error = described(raised);
  }
  const { text, ran, ending, told } = seen;
  return { play: job.play, text, calls: [...seen.slots.values()], ran, ending: ending ?? null, told, error };
}

/** Answer jobs until standard input ends. Standard output is for answers alone. */
export function serve(ways) {
  const write = process.stdout.write.bind(process.stdout);
  console.log = console.info = console.warn = console.error = () => {};
  const lost = (reason) => process.stderr.write(`nobody waited for: ${reason?.stack ?? reason}\n`);
  process.on("unhandledRejection", lost);
  createInterface({ input: process.stdin })
    .on("line", (line) => {
      const job = JSON.parse(line);
      jobs.run(job, () => answer(ways, job)).then((told) => write(JSON.stringify(told) + "\n"));
    })
    .on("close", () => process.exit(0));
}

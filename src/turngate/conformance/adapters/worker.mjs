// What the adapters for Node.js share: the lines of worker.py. A way says the text that it shows and the calls that it would
// run at the very moment at which it would, and throws what its library throws.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const write = process.stdout.write.bind(process.stdout);
const tell = (line) => write(JSON.stringify(line) + "\n");
// What a library prints must not get between the lines.
console.log = console.info = console.warn = console.error;
// In a browser a promise for which nobody waited ends nothing.
process.on("unhandledRejection", console.error);

/** The adapter shows text. */
export function say({ ask }, text) {
  if (text) tell({ ask, text });
}

/** The adapter would run this call now. */
export function execute({ ask }, id, name, input) {
  tell({ ask, call: { id, name, arguments: typeof input === "string" ? input : JSON.stringify(input) } });
  return "done";
}

function version(name) {
  const here = dirname(fileURLToPath(import.meta.url));
  return JSON.parse(readFileSync(join(here, "node_modules", name, "package.json"), "utf8")).version;
}

async function answer(ways, ask) {
  let error = null;
  try {
    await ways[ask.way](ask);
  } catch (raised) {
    error = raised?.name ?? String(raised);
  }
  tell({ ask: ask.ask, end: true, error });
}

/** Serve asks until standard input ends. */
export function serve(ways, dialects, packages) {
  const versions = Object.fromEntries(packages.map((name) => [name, version(name)]));
  tell({ ways: Object.keys(ways), dialects, versions: { ...versions, "Node.js": process.versions.node } });
  createInterface({ input: process.stdin })
    .on("line", (line) => answer(ways, JSON.parse(line)))
    .on("close", () => process.exit(0));
}

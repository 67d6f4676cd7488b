// Python: one interpreter in a worker of its own, for one run or one strip.
//
// Page -> worker: {boot: {base, interrupts, snapshot, takesSnapshot}} and {module} once, then {id, verb, argument}.
// Worker -> page: {id, result} | {id, error, died} | {event: "boot", done, total, what} |
// {event: "snapshot", snapshot} | {event: "broken", message}, and the events that labkit/browser/verbs.py describes.

import { begin, install, makeRoom, PLACES, restoreFiles, takeSnapshot } from "./runs/boot.js";

let verbs = null;

function say(what, done) {
  postMessage({ event: "boot", what, done, total: 4 });
}

async function download(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url.pathname} could not be loaded: ${response.status}`);
  return response.arrayBuffer();
}

/** The page compiles Python once for all its workers, while this one loads the rest. */
let takeModule;
const compiled = new Promise((resolve) => (takeModule = resolve));

/** Let Pyodide use the page's module instead of its own, with the memory that a snapshot needs. */
function hand(name, snapshot) {
  const { fetch } = self;
  self.fetch = (resource, options) => {
    const isPython = String(resource?.url ?? resource).endsWith(name);
    return isPython ? Promise.resolve(new Response()) : fetch(resource, options);
  };
  WebAssembly.instantiateStreaming = async (_, imports) => {
    const module = await compiled;
    say("Starting Python", 0);
    const instance = await WebAssembly.instantiate(module, imports);
    makeRoom(instance, snapshot);
    return { module, instance };
  };
}

/** Send the page a snapshot; null if none can be taken, which later interpreters then do without. */
function sendSnapshot(python) {
  let snapshot = null;
  try {
    snapshot = takeSnapshot(python);
  } catch (error) {
    console.info(`There is no snapshot of Python: ${error.message}`);
  }
  postMessage({ event: "snapshot", snapshot });
}

async function start({ base, interrupts, snapshot, takesSnapshot }) {
  const folder = new URL("pyodide/", base);
  const options = { indexURL: folder.href };
  const archives = {};
  if (snapshot) options._loadSnapshot = snapshot.memory.arrayBuffer();
  else options._makeSnapshot = takesSnapshot;
  for (const name of snapshot ? [] : Object.keys(PLACES)) archives[name] = download(new URL(name, base));
  hand("pyodide.asm.wasm", snapshot);
  const { loadPyodide } = await import(new URL("pyodide.mjs", folder).href);
  const python = await loadPyodide(options);
  if (snapshot) {
    await restoreFiles(python, snapshot);
  } else {
    await install(python, archives, say);
    if (takesSnapshot) sendSnapshot(python);
  }
  verbs = begin(python, { hear: postMessage, interrupts });
  say("Ready", 4);
}

/** Whether Python raised, and lives; all else means that the interpreter is gone. */
function isRaised(error) {
  return error?.constructor?.name === "PythonError";
}

function answer({ id, verb, argument }) {
  try {
    postMessage({ id, result: JSON.parse(verbs[verb](...argument.map(String))) });
  } catch (error) {
    postMessage({ id, error: String(error?.message ?? error), died: !isRaised(error) });
  }
}

let booted = null;
self.onmessage = async ({ data }) => {
  if (data.module) {
    takeModule(data.module);
    return;
  }
  if (data.boot) booted = start(data.boot);
  try {
    await booted;
  } catch (error) {
    postMessage({ event: "broken", message: String(error?.message ?? error) });
    return;
  }
  if (data.id !== undefined) answer(data);
};

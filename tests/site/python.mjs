// Pyodide in node, as the site's page has it: a worker with Python, and a page that keeps the time.
//
// node python.mjs PYODIDE BENCH [--no-interrupts]
//
// A line of stdin is a request, {verb, argument, fresh}; a line of stdout is its answer,
// {result | error | stopped, events, boot, seconds}. Without `fresh` the interpreter of the request
// before is used again. As in a browser, the worker is ended if Python cannot be interrupted. But
// time is that of the processor.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { begin, install, makeRoom, PLACES, restoreFiles, takeSnapshot } from "../../site/src/runs/boot.js";

const [pyodide, bench, ...options] = process.argv.slice(2);
/** In a worker of Chromium V8 uses 500 kB of stack; of what it is given here, node keeps 192 kB. */
const STACK_MB = (500 + 192) / 1024;

/** The seconds of the processor that all threads have used. */
function used() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

async function work() {
  const { pyodide, bench, interrupts, snapshot } = workerData;
  const { loadPyodide } = await import(pathToFileURL(`${pyodide}/pyodide.mjs`).href);
  const stdLibURL = `${bench}/pyodide/python_stdlib.zip`;
  const quiet = () => {};
  const streams = { stdin: () => null, stdout: quiet, stderr: quiet };
  const memory = snapshot ? { _loadSnapshot: snapshot.memory.arrayBuffer() } : { _makeSnapshot: true };
  const { instantiate } = WebAssembly;
  WebAssembly.instantiate = async (...source) => {
    const result = await instantiate(...source);
    makeRoom(result.instance ?? result, snapshot);
    return result;
  };
  const python = await loadPyodide({ stdLibURL, ...streams, ...memory });
  const hear = (event) => parentPort.postMessage(event);
  if (snapshot) {
    await restoreFiles(python, snapshot);
  } else {
    const archives = {};
    for (const name of Object.keys(PLACES)) archives[name] = new Uint8Array(readFileSync(`${bench}/${name}`));
    await install(python, archives);
    parentPort.postMessage({ snapshot: takeSnapshot(python) });
  }
  const verbs = begin(python, { hear, interrupts });
  parentPort.on("message", ({ verb, argument }) => {
    const began = performance.now();
    const ended = () => ({ seconds: (performance.now() - began) / 1000 });
    try {
      parentPort.postMessage({ answer: JSON.parse(verbs[verb](argument)), ...ended() });
    } catch (error) {
      parentPort.postMessage({ raised: String(error?.message ?? error), ...ended() });
    }
  });
  parentPort.postMessage({ ready: true });
}

/** The first interpreter, when it had the course; later ones begin from it, as those of a page do. */
let snapshot = null;

/** The page's side of one worker. */
class Page {
  constructor() {
    this.began = performance.now();
    this.interrupts = options.includes("--no-interrupts") ? null : new SharedArrayBuffer(1);
    this.buffer = this.interrupts && new Uint8Array(this.interrupts);
    this.worker = new Worker(new URL(import.meta.url), {
      workerData: { pyodide, bench, interrupts: this.interrupts, snapshot },
      resourceLimits: { stackSizeMb: STACK_MB },
    });
    this.timers = { limit: null, watch: null };
    this.isOver = false;
    this.told = {};
    this.settle = () => {};
    this.ready = new Promise((resolve) => (this.isReady = resolve));
    this.worker.on("message", (data) => this.#hear(data));
    this.worker.on("error", (error) => this.#answer({ stopped: this.#gone(error.message) }));
    this.worker.on("exit", () => this.#answer({ stopped: this.#gone("the worker ended") }));
  }

  async call(request) {
    this.events = [];
    const answer = new Promise((resolve) => (this.settle = resolve));
    const boot = await Promise.race([this.ready, answer]);
    if (boot.stopped) return boot;
    this.worker.postMessage(request);
    return { ...(await answer), events: this.events, boot };
  }

  end() {
    this.isOver = true;
    return this.worker.terminate();
  }

  #hear(data) {
    if (data.snapshot) snapshot = data.snapshot;
    else if (data.ready) this.isReady((performance.now() - this.began) / 1000);
    else if (data.event === "limit") this.#limit(data);
    else if (data.event === "watch") this.#watch(data);
    else if (data.event) this.events.push(data);
    else if (data.raised !== undefined) this.#answer({ stopped: this.#gone(data.raised) });
    else if (data.answer.error) this.#answer({ error: data.answer.error });
    else this.#answer({ result: data.answer, seconds: data.seconds });
  }

  #answer(answer) {
    this.#clear("limit");
    this.#clear("watch");
    if (answer.stopped) {
      this.isOver = true;
      this.worker.terminate();
    }
    this.settle(answer);
  }

  #gone(how) {
    return `${this.told.gone ?? ""} (${how.split("\n")[0]})`;
  }

  #watch({ seconds, told }) {
    this.told = told;
    this.#set("watch", seconds, () => this.#answer({ stopped: told.late }));
  }

  #clear(name) {
    clearTimeout(this.timers[name]);
  }

  /** Act after so many seconds of the processor, so that a busy machine makes nothing late. */
  #set(name, seconds, act) {
    this.#clear(name);
    if (!seconds) return;
    const end = used() + seconds;
    const look = () => {
      const left = end - used();
      if (left <= 0) act();
      else this.timers[name] = setTimeout(look, left * 1000);
    };
    this.timers[name] = setTimeout(look, seconds * 1000);
  }

  #limit({ seconds, again }) {
    const strike = () => {
      Atomics.store(this.buffer, 0, 14);
      this.#set("limit", again, strike);
    };
    this.#set("limit", seconds, strike);
  }
}

async function serve() {
  let page = null;
  for await (const line of createInterface({ input: process.stdin })) {
    const { fresh, ...request } = JSON.parse(line);
    if (page && (fresh || page.isOver)) {
      await page.end();
      page = null;
    }
    page ??= new Page();
    const answer = await page.call(request).catch((error) => ({ stopped: String(error) }));
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
  await page?.end();
  process.exit(0);
}

if (isMainThread) await serve();
else await work();

// The page's side of a worker with Python: calls its verbs, keeps its time limits, and ends it.
//
// A call to the worker cannot be interrupted from within while Python runs, so the page has the
// clock. Where it is cross-origin isolated it writes SIGALRM into memory that both see, and Python
// raises in that one test; if that has no effect, or elsewhere, the worker is ended.

const SIGALRM = 14;
/** Python may discard an exception that strikes in a destructor, so it is sent again. */
const AGAIN_MS = 500;
/** How long after its limit a test that still runs counts as one that cannot be interrupted. */
const GRACE_MS = 3000;
/** For what comes before the first test. */
const START_SECONDS = 60;
/** What to look at, in the words of the terminal's watchdog. */
const LOOP = "Is there an endless loop, or an `except` that catches everything, in starter.py?";
const EXIT = "Is there a call of os._exit, or a recursion without end, in starter.py?";

/** Why a call has no result: "stopped", "overdue", "died", "raised" or "broken" (no Python). */
export class CallError extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

/** The compiled Python, shared by all workers of this page, and what is told while it loads. */
let compiling = null;
const watchers = new Set();

/** Fetch and compile Python once; `watch` hears how many bytes of how many are here. */
async function compile(base) {
  const url = new URL("pyodide/pyodide.asm.wasm", base);
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url.pathname}: ${response.status} ${response.statusText}`);
  const counted = tally(response.clone().body);
  const isWasm = response.headers.get("Content-Type") === "application/wasm";
  const module = isWasm
    ? await WebAssembly.compileStreaming(response)
    : await WebAssembly.compile(await response.arrayBuffer());
  await counted;
  return module;
}

async function tally(stream) {
  const total = PYTHON_SIZES["pyodide.asm.wasm"];
  let done = 0;
  for (const reader = stream.getReader(); ; ) {
    const { done: ended, value } = await reader.read();
    if (ended) return;
    done += value.length;
    for (const watch of watchers) watch({ what: "Loading Python", done, total });
  }
}

/** One interpreter. It can be called again and again until it is ended. */
export class Interpreter {
  #worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  #interrupts = globalThis.crossOriginIsolated ? new Uint8Array(new SharedArrayBuffer(1)) : null;
  #calls = new Map();
  #count = 0;
  #timers = [];
  /** The test that runs, and what was heard of it. */
  #test = "the start";
  #hear = () => {};
  #settle;
  /** Resolves when it can be called; rejects if Python cannot be loaded. */
  ready;
  isEnded = false;

  /**
   * @param {string | URL} base the folder with pyodide/ and the archives
   * @param {(part: {what: string, done: number, total: number}) => void} [onBoot]
   */
  constructor(base, onBoot = () => {}) {
    this.ready = new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
    this.ready.catch(() => {});
    this.#worker.onmessage = ({ data }) => this.#receive(data, onBoot);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#end(new CallError("died", died(this.#test, event.message)));
    };
    this.#boot(base, onBoot);
  }

  /** Whether Python can be interrupted within a run. */
  get isInterruptible() {
    return this.#interrupts !== null;
  }

  /**
   * Call a verb of `labkit.browser.verbs`.
   *
   * @param {string} verb
   * @param {unknown[]} argument texts, or data to be sent as JSON
   * @param {(event: object) => void} [hear] gets the events of tests, limits and prints
   * @returns {Promise<any>} its result; rejects with a CallError
   */
  async call(verb, argument = [], hear = () => {}) {
    await this.ready;
    if (this.isEnded) throw new CallError("stopped", "This interpreter has ended.");
    this.#hear = hear;
    this.#test = "the start";
    this.#limit(START_SECONDS);
    const id = ++this.#count;
    const texts = argument.map((one) => (typeof one === "string" ? one : JSON.stringify(one)));
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject });
      this.#worker.postMessage({ id, verb, argument: texts });
    });
  }

  /** End the worker and whatever runs in it. */
  end() {
    this.#end(new CallError("stopped", "The run was stopped."));
  }

  async #boot(base, onBoot) {
    watchers.add(onBoot);
    try {
      compiling ??= compile(base);
      const module = await compiling;
      if (this.isEnded) return;
      const interrupts = this.#interrupts?.buffer ?? null;
      this.#worker.postMessage({ boot: { base: String(base), module, interrupts } });
    } catch (error) {
      compiling = null;
      this.#broken(error.message);
    } finally {
      watchers.delete(onBoot);
    }
  }

  #broken(message) {
    const text = `Python could not be loaded (${message}). Your code is kept; try again.`;
    this.#end(new CallError("broken", text));
  }

  #receive(data, onBoot) {
    if (data.event === "boot") {
      onBoot(data);
      if (data.done === data.total) this.#settle.resolve();
    } else if (data.event === "broken") {
      this.#broken(data.message);
    } else if (data.event === "limit") {
      this.#test = data.name || this.#test;
      this.#limit(data.seconds);
      this.#hear(data);
    } else if (data.event) {
      this.#hear(data);
    } else if (data.died) {
      this.#end(new CallError("died", died(this.#test, data.error)));
    } else {
      this.#limit(null);
      const call = this.#calls.get(data.id);
      this.#calls.delete(data.id);
      if (data.error === undefined) call.resolve(data.result);
      else call.reject(new CallError("raised", data.error));
    }
  }

  /** Start the clock of what runs now; null: it may take its time. */
  #limit(seconds) {
    for (const timer of this.#timers.splice(0)) clearTimeout(timer);
    if (this.#interrupts) Atomics.store(this.#interrupts, 0, 0);
    if (!seconds) return;
    const limit = seconds * 1000;
    if (this.#interrupts) this.#later(limit, () => this.#interrupt());
    this.#later(limit + GRACE_MS, () => {
      const words = `${this.#test} did not end and could not be interrupted.`;
      this.#end(new CallError("overdue", `The run was stopped: ${words} ${LOOP}`));
    });
  }

  #later(ms, act) {
    this.#timers.push(setTimeout(act, ms));
  }

  #interrupt() {
    Atomics.store(this.#interrupts, 0, SIGALRM);
    this.#later(AGAIN_MS, () => this.#interrupt());
  }

  #end(error) {
    if (this.isEnded) return;
    this.isEnded = true;
    this.#limit(null);
    this.#worker.terminate();
    this.#settle.reject(error);
    for (const call of this.#calls.values()) call.reject(error);
    this.#calls.clear();
  }
}

/** What is said of an interpreter that is gone. */
function died(test, how) {
  if (/memory/i.test(how)) return `Python ran out of memory during ${test}: ${how}.`;
  if (/stack|recursion/i.test(how)) return `Python crashed during ${test}: ${how}. ${EXIT}`;
  return `The run was stopped: Python ended during ${test}, before the report. ${EXIT}`;
}

/** The interpreters of a page. Each call gets a fresh one; the next is begun when it is over. */
export class Interpreters {
  #base;
  #onBoot;
  #spare = null;

  constructor(base, onBoot) {
    this.#base = base;
    this.#onBoot = onBoot;
  }

  /** Begin an interpreter, unless one is there; resolves when it is ready. */
  prepare() {
    if (!this.#spare || this.#spare.isEnded) {
      this.#spare = new Interpreter(this.#base, this.#onBoot);
    }
    return this.#spare.ready;
  }

  /**
   * Call a verb in a fresh interpreter, which nothing else will use.
   *
   * @param {string} verb
   * @param {unknown[]} argument
   * @param {object} [options]
   * @param {(event: object) => void} [options.hear]
   * @param {AbortSignal} [options.signal] ends it
   */
  async call(verb, argument, { hear, signal } = {}) {
    this.prepare();
    const mine = this.#spare;
    this.#spare = null;
    const stop = () => mine.end();
    signal?.addEventListener("abort", stop);
    try {
      return await mine.call(verb, argument, hear);
    } finally {
      signal?.removeEventListener("abort", stop);
      mine.end();
      this.prepare().catch(() => {});
    }
  }
}

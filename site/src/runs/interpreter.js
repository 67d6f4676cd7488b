// The page's side of a worker with Python: calls its verbs, keeps its time limits, and ends it.
//
// A call to the worker cannot be interrupted from within while Python runs, so the page has the
// clock. Where it is cross-origin isolated it writes SIGALRM into memory that both see, and Python
// raises in that one test; if that has no effect, or elsewhere, the worker is ended.

const SIGALRM = 14;
/**
 * Code in C that does not let Python look for so long is taken for endless, in a test whose limit is
 * not long.
 */
const UNHEARD_SECONDS = 6;
const LONG_SECONDS = 20;
/** For what comes before Python's first word: how long it may take, and what is said then. */
const START_SECONDS = 60;
const START = {
  late: "The run was stopped: Python did not start the tests within a minute. Run it again.",
  gone: "The run was stopped: Python ended before the first test. Run it again.",
};

/** Why a call has no result: "stopped", "late", "died", "refused", "raised" or "broken" (no Python). */
export class CallError extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

/** The compiled Python, shared by all workers of this page, and what is told while it loads. */
let compiling = null;
const watchers = new Set();
/**
 * What the first interpreter of this page was when it had the course; later ones begin from it.
 * Undefined until it is there; null once taking or loading it failed: then all begin without.
 */
let snapshot;

/** Let the memory of the snapshot go; the next interpreter begins as a whole, and takes another. */
export function forgetSnapshot() {
  snapshot &&= undefined;
}

/** Fetch and compile Python once; `watch` hears how many bytes of how many are here. */
async function compile(base) {
  const url = new URL("pyodide/pyodide.asm.wasm.packed", base);
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url.pathname}: ${response.status} ${response.statusText}`);
  const stream = response.body.pipeThrough(tally()).pipeThrough(new DecompressionStream("gzip"));
  const headers = { "Content-Type": "application/wasm" };
  return WebAssembly.compileStreaming(new Response(stream, { headers }));
}

/** Pass bytes on, and tell the watchers of them. */
function tally() {
  let done = 0;
  return new TransformStream({
    transform(bytes, controller) {
      done += bytes.length;
      for (const watch of watchers) watch({ what: "Loading Python", done, total: PACKED_BYTES });
      controller.enqueue(bytes);
    },
  });
}

/** One interpreter. It can be called again and again until it is ended. */
export class Interpreter {
  #base;
  #onBoot;
  #worker = null;
  #interrupts = globalThis.crossOriginIsolated ? new Uint8Array(new SharedArrayBuffer(1)) : null;
  #calls = new Map();
  #count = 0;
  /** The clock of the test that runs, and that of the worker as a whole. */
  #limit = null;
  #watch = null;
  /** In how many seconds that ends it. */
  #watched = null;
  /** What is said if the worker is late, or gone. */
  #told = START;
  #hear = () => {};
  #settle;
  /** Resolves when it can be called; rejects if Python cannot be loaded. */
  ready;
  isEnded = false;
  isReady = false;
  /** Whether it begins from a snapshot. */
  #isRestored = false;

  /**
   * @param {string | URL} base the folder with pyodide/ and the archives
   * @param {(part: {what: string, done: number, total: number}) => void} [onBoot]
   */
  constructor(base, onBoot = () => {}) {
    this.ready = new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
    this.ready.catch(() => {});
    this.#base = base;
    this.#onBoot = onBoot;
    this.#boot();
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
    this.#watchFor(START_SECONDS, START);
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

  async #boot() {
    const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    this.#worker = worker;
    worker.onmessage = ({ data }) => this.#receive(data);
    worker.onerror = (event) => {
      event.preventDefault();
      if (this.isReady) this.#die(event.message);
      else this.#broken(event.message || "worker.js did not load");
    };
    const interrupts = this.#interrupts?.buffer ?? null;
    this.#isRestored = Boolean(snapshot);
    const boot = { base: String(this.#base), interrupts, snapshot, takesSnapshot: snapshot === undefined };
    worker.postMessage({ boot });
    watchers.add(this.#onBoot);
    try {
      compiling ??= compile(this.#base);
      const module = await compiling.finally(() => watchers.delete(this.#onBoot));
      worker.postMessage({ module });
    } catch (error) {
      compiling = null;
      this.#broken(error.message);
    }
  }

  /** It did not begin: once more without the snapshot, if there was one. */
  #broken(message) {
    if (this.isEnded) return;
    if (this.#isRestored) {
      console.info(`Python did not begin from the page's snapshot: ${message}`);
      snapshot = null;
      this.#worker.onmessage = this.#worker.onerror = null;
      this.#worker.terminate();
      this.#boot();
      return;
    }
    const text = `Python could not be loaded (${message}). Your code is kept; try again.`;
    this.#end(new CallError("broken", text));
  }

  #receive(data) {
    if (data.event === "boot") {
      this.#onBoot(data);
      if (data.done < data.total) return;
      this.isReady = true;
      this.#settle.resolve();
    } else if (data.event === "snapshot") {
      if (snapshot !== null) snapshot = data.snapshot;
    } else if (data.event === "broken") {
      this.#broken(data.message);
    } else if (data.event === "limit") {
      this.#limitTo(data.seconds, data.again);
    } else if (data.event === "watch") {
      this.#watchFor(data.seconds, data.told);
      this.#hear({ event: "clock", seconds: data.seconds });
    } else if (data.event) {
      this.#hear(data);
    } else if (data.died) {
      this.#die(data.error);
    } else {
      this.#answer(data);
    }
  }

  #answer({ id, result, error }) {
    this.#limitTo(null);
    this.#watchFor(null, START);
    const { resolve, reject } = this.#calls.get(id);
    this.#calls.delete(id);
    if (error !== undefined) reject(new CallError("raised", error));
    else if (result.error) reject(new CallError("refused", result.error));
    else resolve(result);
  }

  /** Interrupt Python in so many seconds, and then again and again; null: it may take its time. */
  #limitTo(seconds, again) {
    clearTimeout(this.#limit);
    if (!this.#interrupts) return;
    Atomics.store(this.#interrupts, 0, 0);
    if (!seconds) return;
    let unheard = 0;
    const strike = () => {
      // Python takes the signal out between two instructions.
      unheard = Atomics.exchange(this.#interrupts, 0, SIGALRM) === SIGALRM ? unheard + again : 0;
      if (unheard >= UNHEARD_SECONDS && this.#watched < LONG_SECONDS) this.#late();
    };
    this.#limit = setTimeout(() => {
      strike();
      // Python may discard an exception that strikes in a destructor.
      if (again) this.#limit = setInterval(strike, again * 1000);
    }, seconds * 1000);
  }

  /** End the worker in so many seconds, unless it says something else before. */
  #watchFor(seconds, told) {
    clearTimeout(this.#watch);
    this.#told = { ...START, ...told };
    this.#watched = seconds;
    if (!seconds) return;
    this.#watch = setTimeout(() => this.#late(), seconds * 1000);
  }

  #late() {
    this.#end(new CallError("late", this.#told.late));
  }

  #die(how) {
    const words = /memory|allocat/i.test(how) ? `${this.#told.gone} (${how})` : this.#told.gone;
    this.#end(new CallError("died", words));
  }

  #end(error) {
    if (this.isEnded) return;
    this.isEnded = true;
    clearTimeout(this.#limit);
    clearTimeout(this.#watch);
    this.#worker.terminate();
    this.#settle.reject(error);
    for (const call of this.#calls.values()) call.reject(error);
    this.#calls.clear();
  }
}

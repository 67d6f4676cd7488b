// The interpreters of a page. Each call gets a fresh one; while nothing runs, the page holds others ready.

import { forgetSnapshot, Interpreter } from "./interpreter.js";

/** How many wait: a run takes the first, and a run that follows at once takes the second. */
const SPARES = 2;
/** A start beside a run makes both slow, so the second is begun when the page has been idle so long. */
const IDLE_MS = 1000;
/** The gigabytes of memory, if the browser says them, from which a page holds a second one. */
const LEAST_MEMORY = 4;

export class Interpreters {
  #base;
  #onBoot;
  #most = navigator.deviceMemory < LEAST_MEMORY ? 1 : SPARES;
  /** Those that nothing has called yet; the next call takes the first. */
  #spares = [];
  /** Those that a call has. */
  #running = new Set();
  #idle = null;
  /** Whether the reader has left the page, and whether an interpreter ended then. */
  #isLeft = false;
  #hasEnded = false;

  /**
   * @param {string | URL} base the folder with pyodide/ and the archives
   * @param {(part: {what: string, done: number, total: number}) => void} onBoot hears of the start of
   *   the one for which the page waits
   */
  constructor(base, onBoot) {
    this.#base = base;
    this.#onBoot = onBoot;
    addEventListener("pagehide", () => this.#leave());
    addEventListener("pageshow", () => this.#return());
  }

  /** Begin an interpreter, unless one is there; resolves when it is ready. */
  prepare() {
    this.#spares = this.#spares.filter(({ isEnded }) => !isEnded);
    if (this.#spares.length === 0) this.#begin();
    this.#wait();
    return this.#spares[0].ready;
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
    const mine = this.#take();
    const stop = () => mine.end();
    let isBroken = false;
    signal?.addEventListener("abort", stop);
    this.#running.add(mine);
    try {
      return await mine.call(verb, argument, hear);
    } catch (error) {
      isBroken = error.kind === "broken";
      throw error;
    } finally {
      this.#running.delete(mine);
      signal?.removeEventListener("abort", stop);
      mine.end();
      // What could not be loaded is tried again when somebody asks for it.
      if (!isBroken && !this.#isLeft) this.prepare().catch(() => {});
    }
  }

  /** A browser may keep a page that was left, with all of its memory. */
  #leave() {
    const all = [...this.#spares, ...this.#running];
    this.#isLeft = true;
    this.#hasEnded = all.length > 0;
    clearTimeout(this.#idle);
    for (const one of all) one.end();
    forgetSnapshot();
  }

  /** The page is shown, perhaps again. */
  #return() {
    this.#isLeft = false;
    if (this.#hasEnded) this.prepare().catch(() => {});
    this.#hasEnded = false;
  }

  #begin() {
    const spare = new Interpreter(this.#base, (part) => {
      if (this.#spares.indexOf(spare) < 1) this.#onBoot(part);
    });
    this.#spares.push(spare);
    spare.ready.then(
      () => this.#wait(),
      ({ kind }) => {
        // Perhaps two are too much.
        if (kind === "broken") this.#most = 1;
      },
    );
  }

  /** Wait until the page has been idle for some time. */
  #wait() {
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => this.#holdAnother(), IDLE_MS);
  }

  /** Take the next interpreter out; one that still begins behind it would slow the call down. */
  #take() {
    this.prepare();
    const [mine, ...others] = this.#spares;
    for (const other of others) if (!other.isReady) other.end();
    this.#spares = others;
    return mine;
  }

  /** Begin another interpreter if the page is idle, and has a ready one. */
  #holdAnother() {
    const isIdle = this.#running.size === 0 && this.#spares.every(({ isReady, isEnded }) => isReady && !isEnded);
    if (isIdle && this.#spares.length < this.#most) this.#begin();
  }
}

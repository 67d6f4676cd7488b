import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { gzipSync } from "node:zlib";

import { Interpreters } from "../src/runs/interpreters.js";

const MODULE = gzipSync(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0));
const SNAPSHOT = { memory: "", bytes: "", files: [] };

/** The workers of the test, oldest first, and the timers that are set. */
let workers;
let timers;
let memory;
/** What a worker says when it has its module. */
let start;
/** What hears of the page, by event. */
let listeners;

globalThis.PACKED_BYTES = MODULE.length;
globalThis.fetch = async () => new Response(MODULE);
Object.defineProperty(globalThis, "navigator", { configurable: true, get: () => ({ deviceMemory: memory }) });
globalThis.setTimeout = (act, milliseconds) => {
  timers.push({ act, milliseconds });
  return timers.at(-1);
};
globalThis.addEventListener = (event, act) => (listeners[event] = act);
globalThis.clearTimeout = (timer) => (timers = timers.filter((one) => one !== timer));

globalThis.Worker = class {
  isEnded = false;
  calls = [];

  constructor() {
    workers.push(this);
  }

  postMessage(data) {
    if (data.boot) this.boot = data.boot;
    else if (data.module) start(this);
    else this.calls.push(data);
  }

  terminate() {
    this.isEnded = true;
  }

  say(data) {
    this.onmessage?.({ data });
  }

  answer(result) {
    this.say({ id: this.calls.at(-1).id, result });
  }
};

function isReady(worker) {
  worker.say({ event: "boot", what: "Ready", done: 4, total: 4 });
}

/** Let promises settle; the module is compiled by another thread. */
async function settle() {
  for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
}

/** Nothing happens on the page for a second. */
async function idle() {
  const due = timers.filter(({ milliseconds }) => milliseconds === 1000);
  timers = timers.filter((timer) => !due.includes(timer));
  for (const { act } of due) act();
  await settle();
}

/** A page whose first interpreter is ready. */
async function open(onBoot = () => {}) {
  const page = new Interpreters("https://course.example/bench/", onBoot);
  await page.prepare();
  await settle();
  return page;
}

/** A verb is called, and the call has come to a worker. */
async function call(page) {
  const answer = page.call("run");
  answer.catch(() => {});
  await settle();
  return { answer, worker: workers.find(({ calls, isEnded }) => calls.length && !isEnded) };
}

const alive = () => workers.filter(({ isEnded }) => !isEnded);

beforeEach(() => {
  [workers, timers, memory, start, listeners] = [[], [], undefined, isReady, {}];
});

test("a second interpreter begins once the page is idle, and no third", async () => {
  await open();
  assert.equal(workers.length, 1);
  await idle();
  assert.equal(workers.length, 2);
  await idle();
  assert.equal(workers.length, 2);
});

test("a run that follows at once takes the second, and nothing begins beside it", async () => {
  const page = await open();
  await idle();
  const first = await call(page);
  await idle();
  assert.equal(first.worker, workers[0]);
  assert.equal(workers.length, 2);
  first.worker.answer({});
  await first.answer;
  const second = await call(page);
  await idle();
  assert.equal(second.worker, workers[1]);
  assert.equal(workers.length, 2);
  second.worker.answer({});
  await second.answer;
  await settle();
  // None is left, so the next one begins at once; the one after it does not.
  assert.equal(workers.length, 3);
  await idle();
  assert.equal(alive().length, 2);
});

test("a run ends an interpreter that begins behind it, and the page begins it again", async () => {
  const page = await open();
  start = () => {};
  await idle();
  assert.equal(workers.length, 2);
  const { answer, worker } = await call(page);
  assert.equal(worker, workers[0]);
  assert.deepEqual(alive(), [worker]);
  start = isReady;
  worker.answer({});
  await answer;
  await settle();
  await idle();
  assert.equal(alive().length, 2);
});

test("the second waits until the first is ready", async () => {
  start = () => {};
  const page = new Interpreters("https://course.example/bench/", () => {});
  const first = page.prepare();
  await idle();
  assert.equal(workers.length, 1);
  isReady(workers[0]);
  await first;
  await settle();
  await idle();
  assert.equal(workers.length, 2);
});

test("nothing is told of the start of the second", async () => {
  const told = [];
  await open(({ what }) => told.push(what));
  await idle();
  assert.equal(alive().length, 2);
  assert.deepEqual(told.filter((what) => what === "Ready"), ["Ready"]);
});

test("a browser with little memory holds one", async () => {
  for (const [gigabytes, most] of [[2, 1], [4, 2], [undefined, 2]]) {
    workers = [];
    memory = gigabytes;
    await open();
    await idle();
    assert.equal(workers.length, most, String(gigabytes));
  }
});

test("a second that cannot be loaded is not tried again", async () => {
  const page = await open();
  start = (worker) => worker.say({ event: "broken", message: "no memory" });
  await idle();
  assert.equal(workers.length, 2);
  await page.prepare();
  await idle();
  assert.equal(workers.length, 2);
});

test("a page that is left ends all of its interpreters, and begins another when it is shown again", async () => {
  start = (worker) => {
    if (worker.boot.takesSnapshot) worker.say({ event: "snapshot", snapshot: SNAPSHOT });
    isReady(worker);
  };
  const page = await open();
  await idle();
  const { answer } = await call(page);
  await idle();
  assert.equal(alive().length, 2);
  listeners.pagehide();
  await assert.rejects(answer, { kind: "stopped" });
  await idle();
  assert.deepEqual(alive(), []);
  listeners.pageshow();
  await settle();
  assert.equal(alive().length, 1);
  assert.equal(alive()[0].boot.snapshot, undefined);
  await idle();
  assert.equal(alive().length, 2);
  assert.equal(alive()[1].boot.snapshot, SNAPSHOT);
});

test("a page that has not begun to load Python does not when it is shown again", async () => {
  new Interpreters("https://course.example/bench/", () => {});
  listeners.pagehide();
  listeners.pageshow();
  await settle();
  assert.equal(workers.length, 0);
});

let pages = 0;
/** An interpreter of a page that had none before. */
async function openPage() {
  pages += 1;
  const { Interpreter } = await import(`../src/runs/interpreter.js?${pages}`);
  return () => new Interpreter("https://course.example/bench/");
}

test("a snapshot that cannot be loaded is given up, and Python begins as a whole", async () => {
  const begin = await openPage();
  start = (worker) => {
    if (worker.boot.snapshot) worker.say({ event: "broken", message: "invalid magic number" });
    else {
      worker.say({ event: "snapshot", snapshot: SNAPSHOT });
      isReady(worker);
    }
  };
  await begin().ready;
  await begin().ready;
  await begin().ready;
  assert.deepEqual(workers.map(({ boot }) => [boot.snapshot, boot.takesSnapshot]),
    [[undefined, true], [SNAPSHOT, false], [null, false], [null, false]]);
  assert.deepEqual(workers.map(({ isEnded }) => isEnded), [false, true, false, false]);
});

test("where no snapshot can be taken each Python begins as a whole", async () => {
  const begin = await openPage();
  start = (worker) => {
    if (worker.boot.takesSnapshot) worker.say({ event: "snapshot", snapshot: null });
    isReady(worker);
  };
  await begin().ready;
  await begin().ready;
  assert.deepEqual(workers.map(({ boot }) => boot.takesSnapshot), [true, false]);
});

test("a Python that cannot begin as a whole is told", async () => {
  const begin = await openPage();
  start = (worker) => worker.say({ event: "broken", message: "course.zip could not be loaded: 404" });
  await assert.rejects(begin().ready, { kind: "broken", message: /course\.zip could not be loaded: 404/ });
  assert.equal(workers.length, 1);
});

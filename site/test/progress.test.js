import assert from "node:assert/strict";
import { test } from "node:test";
import { placeOf, wordsOf } from "../src/progress.js";

const LADDER = ["02", "03", "04", "01"];

test("before the first run there is no place to continue at", () => {
  assert.equal(placeOf(LADDER, { "03": { turn: 0, unfinished: [1] } }), null);
});

test("the place is the first open task of the last run", () => {
  const records = { "02": { turn: 3, solved: false, unfinished: [2, 3] }, "03": { turn: 2, unfinished: [1] } };
  assert.deepEqual(placeOf(LADDER, records), { lab: "02", task: 2 });
});

test("after a passed lab the place is the next one that is not passed", () => {
  const records = { "03": { turn: 2, solved: true, unfinished: [] }, "04": { turn: 1, solved: true } };
  assert.deepEqual(placeOf(LADDER, records), { lab: "01", task: null });
});

test("after the last lab the place is an earlier one that was skipped", () => {
  assert.deepEqual(placeOf(LADDER, { "01": { turn: 9, solved: true } }), { lab: "02", task: null });
  const all = Object.fromEntries(LADDER.map((lab, turn) => [lab, { turn: turn + 1, solved: true }]));
  assert.equal(placeOf(LADDER, all), null);
});

test("a passed lab has a tick, another its points, and one that never ran nothing", () => {
  assert.deepEqual(wordsOf({ score: 100, solved: true }), { sign: "✓", words: "passed" });
  assert.deepEqual(wordsOf({ score: 0 }), { sign: "0", words: "0 points" });
  assert.equal(wordsOf({ score: null, solved: false }), null);
});

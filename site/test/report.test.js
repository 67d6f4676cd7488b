import assert from "node:assert/strict";
import { test } from "node:test";
import { faultOf, summary } from "../src/runs/report.js";

const task = (number, status) => ({ number, status });
const report = (more) => ({ score: 52, most: 100, complete: true, failures: [], tasks: [], ...more });

test("a passed lab says so, out of what a browser can give", () => {
  assert.equal(summary(report({ score: 94, most: 94 })), "94 of 94 points: every test passes.");
});

test("the task to go on with is the first that fails, also if only a later one has failures", () => {
  const tasks = [task(1, "PASS"), task(2, "FAIL"), task(3, "FAIL")];
  for (const number of [2, 3]) {
    const failures = [{ task: null }, { task: number }];
    assert.equal(summary(report({ tasks, failures })), "52 of 100 points. Task 2 is next.");
  }
});

test("the line of a later task's failure is not marked before its time", () => {
  const tasks = [task(2, "FAIL"), task(4, "FAIL")];
  const failure = { line: 7, labels: [{ label: "raised", text: "KeyError: 259\n" }] };
  const of = (number) => faultOf(report({ tasks, failures: [{ ...failure, task: number }] }));
  assert.deepEqual(of(2), { line: 7, words: "KeyError: 259" });
  assert.equal(of(4), null);
});

test("what is not written yet has no failure, but a task", () => {
  const tasks = [task(1, "PASS"), task(2, "FAIL"), task(3, "BLOCKED by task 2")];
  assert.equal(summary(report({ tasks })), "52 of 100 points. Task 2 is next.");
});

test("a lab whose parts do not pass yet waits for their lab", () => {
  const given = task(null, "needs lab-03");
  const words = summary(report({ tasks: [task(1, "FAIL")], given }));
  assert.equal(words, "52 of 100 points. lab-03 comes first.");
});

test("all points with a failing test to look at is not every test", () => {
  const failures = [{ task: null }];
  assert.equal(summary(report({ score: 100, failures })), "100 of 100 points.");
});

test("a run of one task has no score", () => {
  const tasks = [task(1, "not run"), task(2, "PASS")];
  assert.equal(summary(report({ complete: false, tasks })), "task 2: PASS.");
  assert.equal(summary(report({ complete: false, tasks: tasks.slice(0, 1) })), "No test ran.");
});

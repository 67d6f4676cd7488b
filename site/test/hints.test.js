import assert from "node:assert/strict";
import { test } from "node:test";
import { subjectsOf } from "../src/desk/hints.js";

const hint = (task, ...looks_like) => ({ task, symptom_html: "s", text_html: "t", looks_like });
const lab = {
  pool: [],
  tasks: [
    { number: 1, title: "feed" },
    { number: 2, title: "flush" },
  ],
  hints: [hint(1), hint(1, "eager"), hint(2), hint(2, "eager", "late")],
};

const about = (record) =>
  subjectsOf(lab, record).map(({ about, title, levels }) => [about, title, levels.length]);

test("without a diagnosis, each task has its hints", () => {
  const tasks = [
    ["1", "1 feed", 2],
    ["2", "2 flush", 2],
  ];
  assert.deepEqual(about({}), tasks);
  assert.deepEqual(about({ looks_like: null }), tasks);
});

test("after a diagnosis, its hint and those of its symptom precede the hints of the task", () => {
  const looks_like = { name: "late", task: 2, symptom: "It is `late`.", hint: "Look." };
  assert.deepEqual(about({ looks_like }), [
    ["1", "1 feed", 2],
    ["late", "2 flush, from the last report", 2],
    ["2", "2 flush", 2],
  ]);
});

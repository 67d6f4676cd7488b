import assert from "node:assert/strict";
import { test } from "node:test";
import { partsOf } from "../src/runs/commands.js";

const README = "phase-16/labs/lab-04-stop-strings/README.md";

test("a command of this lab becomes what it stands for", () => {
  const text = "write task 2, then make lab N=03 T=2 (stuck? make hint N=03 T=2)";
  assert.deepEqual(partsOf(text, "03"), [
    { kind: "text", text: "write task 2, then " },
    { kind: "run", text: "run task 2", task: 2 },
    { kind: "text", text: " (stuck? " },
    { kind: "hint", text: "a hint", task: 2 },
    { kind: "text", text: ")" },
  ]);
});

test("a run without a task is one of the whole lab", () => {
  assert.deepEqual(partsOf("the whole lab: make lab N=03", "03").at(-1), {
    kind: "run",
    text: "run the lab",
    task: null,
  });
});

test("a command alone is one part", () => {
  assert.deepEqual(partsOf("make demo", "03"), [{ kind: "code", text: "make demo" }]);
});

test("another lab is a page", () => {
  assert.deepEqual(partsOf(`lab-04: read ${README}, then make lab N=04`, "03"), [
    { kind: "text", text: "lab-04: " },
    { kind: "page", text: "open its page", lab: "04" },
  ]);
  assert.deepEqual(partsOf(`${README}; make lab N=05`, "03"), [
    { kind: "page", text: "its page", lab: "04" },
    { kind: "text", text: "; " },
    { kind: "page", text: "open lab 05", lab: "05" },
  ]);
});

test("the text of this lab is on this page", () => {
  assert.deepEqual(partsOf(`read ${README}`, "04").at(-1), { kind: "text", text: "the text of this page" });
});

test("any other command stays one", () => {
  assert.deepEqual(partsOf("see it: make demo, then LAB_IMPL=starter make serve", "05"), [
    { kind: "text", text: "see it: " },
    { kind: "code", text: "make demo" },
    { kind: "text", text: ", then " },
    { kind: "code", text: "LAB_IMPL=starter make serve" },
  ]);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { stepsOf } from "../src/byte_steps.js";

const shown = (text, way) => stepsOf(text).map((step) => step[way]);

test("alone each byte of a rocket is broken; by the rule the last one shows it", () => {
  assert.deepEqual(shown("🚀", "naive"), ["�", "�", "�", "�"]);
  assert.deepEqual(shown("🚀", "right"), ["", "", "", "🚀"]);
});

test("by the rule every text comes out as it went in", () => {
  for (const text of ["", "Grüße", "日本語 👩‍💻", "\ufeffx"]) {
    assert.equal(shown(text, "right").join(""), text);
  }
});

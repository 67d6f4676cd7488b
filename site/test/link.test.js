import assert from "node:assert/strict";
import { test } from "node:test";

import { isLink, linkTo, numberOf, readLink, TooLongError } from "../src/show/link.js";

const HERE = new URL("https://course.example/labs/03/?q=1#old");
const LINK = { lab: "03", test: "test_a", code: "print('🚀')\n".repeat(300), step: 4, line: 2 };

test("a link holds code, test and step, in the fragment alone", async () => {
  const address = new URL(await linkTo(HERE, LINK));
  assert.equal(address.search, "");
  assert.ok(isLink(address.hash));
  assert.ok(address.hash.length < 300);
  assert.deepEqual(await readLink(address.hash), LINK);
});

test("code that is too long is refused with its size", async () => {
  const code = Array.from({ length: 40_000 }, () => String.fromCharCode(32 + Math.random() * 90)).join("");
  await assert.rejects(linkTo(HERE, { ...LINK, code }), (error) => error instanceof TooLongError && /would have [\d,]+ char/.test(error.message));
});

test("a damaged link, a gigabyte and other values are no link", async () => {
  const { hash } = new URL(await linkTo(HERE, LINK));
  assert.equal(await readLink(hash.slice(0, -9)), null);
  assert.equal(await readLink("#step=!!!"), null);
  for (const odd of [{ code: "x".repeat(300_000) }, { step: -1 }, { line: "2" }, { test: "a b" }, { lab: 3 }]) {
    const made = new URL(await linkTo(HERE, { ...LINK, ...odd }));
    assert.equal(await readLink(made.hash), null, Object.keys(odd)[0]);
  }
});

test("the step of a link is found beside steps of other files, and in a recording that begins elsewhere", () => {
  const steps = [{ line: 7 }, { line: 9, part: 1 }, { line: 8 }, { line: 9, part: 2 }, { line: 9 }, { line: 8 }];
  assert.equal(numberOf({ steps }, { step: 2, line: 9 }), 4);
  assert.equal(numberOf({ steps }, { step: 0, line: 8 }), 2);
  assert.equal(numberOf({ steps }, { step: 90, line: 8 }), 5);
  assert.equal(numberOf({ steps, opens: 3 }, { step: 1, line: 6 }), 3);
  assert.equal(numberOf({ steps: [], opens: null }, { step: 1, line: 6 }), 0);
});

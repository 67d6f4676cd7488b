import assert from "node:assert/strict";
import { test } from "node:test";
import { backupOf, readBackup } from "../src/store/backup.js";

const everything = { code: { "03": "x = 1\n" }, progress: { "lab-03": { solved: true } } };

test("an export is read back", () => {
  assert.deepEqual(readBackup(backupOf(everything)), everything);
});

test("anything else is refused", () => {
  const wrong = [
    "",
    "x = 1",
    "null",
    "[]",
    '{"code": {}, "progress": {}}',
    backupOf({ ...everything, code: { "03": 1 } }),
    backupOf({ ...everything, progress: { "lab-03": null } }),
  ];
  for (const text of wrong) assert.throws(() => readBackup(text), /not an export/);
});

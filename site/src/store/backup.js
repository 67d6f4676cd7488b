// Everything that the browser keeps of a reader, as the text of one file.

const KIND = "course-backup";

/** @param {{code: Record<string, string | null>, progress: Record<string, object>}} everything */
export function backupOf({ code, progress }) {
  return JSON.stringify({ kind: KIND, code, progress }, null, 1);
}

/**
 * Read the text of an export.
 *
 * @param {string} text
 * @returns {{code: Record<string, string>, progress: Record<string, object>}}
 * @throws {Error} it is something else
 */
export function readBackup(text) {
  const { kind, code, progress } = parsed(text) ?? {};
  const isWhole =
    kind === KIND &&
    isRecordOf(code, (value) => typeof value === "string") &&
    isRecordOf(progress, (value) => isRecordOf(value, () => true));
  if (!isWhole) throw new Error("it is not an export of this course");
  return { code, progress };
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function isRecordOf(value, isItem) {
  const isRecord = typeof value === "object" && value !== null && !Array.isArray(value);
  return isRecord && Object.values(value).every(isItem);
}

// How Python begins: the course unpacked and imported, ready for one verb. The worker of a page boots
// so, and what stands for it elsewhere.

const COURSE = "/course";
/** Where each archive is unpacked, in this order. */
export const PLACES = { "python.zip": `${COURSE}/.python`, "course.zip": COURSE };
const IMPORTS = `
import os, sys
sys.path[:0] = ["${COURSE}", "${COURSE}/.python"]
os.chdir("${COURSE}")
import labkit.browser.verbs
labkit.browser.verbs
`;

/** From here on Pyodide takes some addresses for negative numbers, and one text for another. */
const MOST_BYTES = 2 ** 31;
const PAGE_BYTES = 2 ** 16;
/** Only the course may use the last part of it, to report what the reader's code has used up. */
const RESERVED_BYTES = 2 ** 28;

/**
 * Have what takes more memory raise MemoryError in Python.
 *
 * @param {number} flag the address of a byte, which is 1 while the reader's code runs
 */
function limitMemory(flag) {
  const { grow } = WebAssembly.Memory.prototype;
  WebAssembly.Memory.prototype.grow = function (pages) {
    const isReaders = new Uint8Array(this.buffer, flag, 1)[0];
    const most = isReaders ? MOST_BYTES - RESERVED_BYTES : MOST_BYTES;
    if (this.buffer.byteLength + pages * PAGE_BYTES >= most) throw new RangeError(`Python may use ${most} bytes`);
    return grow.call(this, pages);
  };
}

/**
 * @param {object} python from loadPyodide
 * @param {Record<string, ArrayBuffer | Uint8Array | Promise<ArrayBuffer>>} archives
 * @param {object} page
 * @param {(event: object) => void} page.hear gets what verbs tell
 * @param {SharedArrayBuffer | null} page.interrupts where the page writes a signal's number
 * @param {(what: string, done: number) => void} [say] is told how far it is
 * @returns {Promise<Record<string, (asked: string) => string>>} `labkit.browser.verbs`
 */
export async function boot(python, archives, { hear, interrupts }, say = () => {}) {
  say("Unpacking the course", 1);
  for (const [name, place] of Object.entries(PLACES)) {
    python.FS.mkdirTree(place);
    python.unpackArchive(await archives[name], "zip", { extractDir: place });
  }
  say("Importing pytest and the course", 2);
  const verbs = python.runPython(IMPORTS);
  limitMemory(verbs.platform.READERS_CODE_RUNS.getBuffer("u8").data.byteOffset);
  verbs.begin((text) => hear(JSON.parse(text)), interrupts !== null);
  if (interrupts) python.setInterruptBuffer(new Uint8Array(interrupts));
  return verbs;
}

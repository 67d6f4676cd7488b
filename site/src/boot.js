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

/** Have what takes more memory raise MemoryError in Python. */
function limitMemory() {
  const { grow } = WebAssembly.Memory.prototype;
  WebAssembly.Memory.prototype.grow = function (pages) {
    if (this.buffer.byteLength + pages * PAGE_BYTES >= MOST_BYTES) throw new RangeError("Python may use at most 2 GB");
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
  limitMemory();
  say("Unpacking the course", 1);
  for (const [name, place] of Object.entries(PLACES)) {
    python.FS.mkdirTree(place);
    python.unpackArchive(await archives[name], "zip", { extractDir: place });
  }
  say("Importing pytest and the course", 2);
  const verbs = python.runPython(IMPORTS);
  verbs.begin((text) => hear(JSON.parse(text)), interrupts !== null);
  if (interrupts) python.setInterruptBuffer(new Uint8Array(interrupts));
  return verbs;
}

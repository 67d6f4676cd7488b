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
labkit.browser.verbs.prepare()
`;
const VERBS = `
import os
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
 * Unpack and import the course: most of the time of a start goes there.
 *
 * @param {object} python from loadPyodide
 * @param {Record<string, ArrayBuffer | Uint8Array | Promise<ArrayBuffer>>} archives
 * @param {(what: string, done: number) => void} [say] is told how far it is
 */
export async function install(python, archives, say = () => {}) {
  say("Unpacking the course", 1);
  for (const [name, place] of Object.entries(PLACES)) {
    python.FS.mkdirTree(place);
    python.unpackArchive(await archives[name], "zip", { extractDir: place });
  }
  say("Importing pytest and the course", 2);
  python.runPython(IMPORTS);
}

/**
 * @typedef {object} Snapshot an interpreter after `install`, from which others begin in a quarter of the time
 * @property {Blob} memory
 * @property {Blob} bytes of all files of the course, one after another
 * @property {[path: string, size: number][]} files
 */

/**
 * Take a snapshot, before the interpreter knows anything of its page.
 *
 * @param {object} python from loadPyodide, with `_makeSnapshot`
 * @returns {Snapshot}
 */
export function takeSnapshot({ FS, makeMemorySnapshot }) {
  const files = [];
  const bytes = [];
  const visit = (folder) => {
    for (const name of FS.readdir(folder).filter((name) => name !== "." && name !== "..")) {
      const path = `${folder}/${name}`;
      if (FS.isDir(FS.stat(path).mode)) {
        visit(path);
      } else {
        const data = FS.readFile(path);
        files.push([path, data.length]);
        bytes.push(data);
      }
    }
  };
  visit(COURSE);
  return { memory: new Blob([makeMemorySnapshot()]), bytes: new Blob(bytes), files };
}

/** Give an instance of Pyodide, right after its start, the memory that a snapshot needs. */
export function makeRoom({ exports: { memory } }, snapshot) {
  const missing = (snapshot?.memory.size ?? 0) - memory.buffer.byteLength;
  if (missing > 0) memory.grow(Math.ceil(missing / PAGE_BYTES));
}

/**
 * Begin from a snapshot; its files are written here, its memory is an option of loadPyodide.
 *
 * @param {object} python from loadPyodide, with `_loadSnapshot`
 * @param {Snapshot} snapshot
 */
export async function restoreFiles({ FS }, { bytes, files }) {
  const all = new Uint8Array(await bytes.arrayBuffer());
  const folders = new Set(files.map(([path]) => path.slice(0, path.lastIndexOf("/"))));
  for (const folder of folders) FS.mkdirTree(folder);
  let start = 0;
  for (const [path, size] of files) {
    FS.writeFile(path, all.subarray(start, start + size), { canOwn: true });
    start += size;
  }
}

/**
 * Make an interpreter with the course ready for one verb.
 *
 * @param {object} python from loadPyodide
 * @param {object} page
 * @param {(event: object) => void} page.hear gets what verbs tell
 * @param {SharedArrayBuffer | null} page.interrupts where the page writes a signal's number
 * @returns {Record<string, (asked: string) => string>} `labkit.browser.verbs`
 */
export function begin(python, { hear, interrupts }) {
  const verbs = python.runPython(VERBS);
  limitMemory(verbs.platform.READERS_CODE_RUNS.getBuffer("u8").data.byteOffset);
  verbs.begin((text) => hear(JSON.parse(text)), interrupts !== null);
  if (interrupts) python.setInterruptBuffer(new Uint8Array(interrupts));
  return verbs;
}

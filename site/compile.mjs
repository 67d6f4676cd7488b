// Adds bytecode to the archives that a page's Python imports from: `node compile.mjs FOLDER`, where
// python.zip and course.zip are. The standard library is written into FOLDER/pyodide/.
//
// Without it each boot would compile some 400 modules, and most of its time would go there.

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { loadPyodide } from "pyodide";
import { install, PLACES } from "./src/runs/boot.js";

const LIBRARY = "python_stdlib.zip";

async function main(folder) {
  const archives = {};
  for (const name of Object.keys(PLACES)) archives[name] = await read(join(folder, name));
  const python = await loadPyodide();
  await install(python, archives);
  const program = await readFile(new URL("compile.py", import.meta.url), "utf8");
  const addBytecode = python.runPython(`${program}\nadd_bytecode`);

  /** Return an archive with the bytecode of those of its modules that the boot has imported. */
  function compiled(archive, place) {
    python.FS.writeFile("/archive.zip", archive);
    addBytecode("/archive.zip", place);
    return python.FS.readFile("/archive.zip");
  }

  for (const [name, place] of Object.entries(PLACES)) {
    await writeFile(join(folder, name), compiled(archives[name], place));
  }
  const library = await read(new URL(import.meta.resolve(`pyodide/${LIBRARY}`)));
  const place = python.runPython("import os; os.path.dirname(os.__file__)");
  await mkdir(join(folder, "pyodide"), { recursive: true });
  await writeFile(join(folder, "pyodide", LIBRARY), compiled(library, place));
}

/** Return the bytes of a file, as an array that Pyodide takes. */
async function read(path) {
  return new Uint8Array(await readFile(path));
}

const [folder] = process.argv.slice(2);
if (!folder) {
  console.error("Where are the archives? node compile.mjs FOLDER");
  process.exit(2);
}
try {
  await main(folder);
} catch (error) {
  // The stack would come with the line of Pyodide, which is a megabyte.
  console.error(String(error.message ?? error));
  process.exit(1);
}

// Writes the front end into a site's folder: `node build.mjs FOLDER`. In FOLDER/bench/ are then
// bench.js with its pieces, worker.js, site.css and pyodide/. `seal.mjs` comes last, when all other
// files of the site are there.

import { copyFile, mkdir, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const PYODIDE = join(here, "node_modules", "pyodide");
/** What Pyodide loads. Its consoles, types and maps stay behind. */
const PYTHON = [
  "pyodide.mjs",
  "pyodide.asm.mjs",
  "pyodide.asm.wasm",
  "pyodide-lock.json",
  "python_stdlib.zip",
];

const [folder] = process.argv.slice(2);
if (!folder) {
  console.error("Which folder is to be written? node build.mjs FOLDER");
  process.exit(2);
}
const bench = join(folder, "bench");

const sizes = {};
for (const name of PYTHON) sizes[name] = (await stat(join(PYODIDE, name))).size;

const options = {
  absWorkingDir: here,
  outdir: bench,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  legalComments: "linked",
  define: { PYTHON_SIZES: JSON.stringify(sizes) },
  logLevel: "warning",
};

await mkdir(join(bench, "pyodide"), { recursive: true });
for (const name of await readdir(bench)) {
  if (/^(?:[a-z]+-[A-Z0-9]{8}\.js|.*\.LEGAL\.txt)$/.test(name)) await rm(join(bench, name));
}
await build({
  ...options,
  entryPoints: ["src/bench.js", "src/page.js", "src/site.css"],
  chunkNames: "[name]-[hash]",
  splitting: true,
});
await build({ ...options, entryPoints: ["src/worker.js"] });
for (const name of PYTHON) await copyFile(join(PYODIDE, name), join(bench, "pyodide", name));

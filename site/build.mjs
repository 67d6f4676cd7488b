// Writes the front end into a site's folder: `node build.mjs FOLDER`. In FOLDER/bench/ are then
// bench.js and demo.js with their pieces, worker.js, site.css, pyodide/ and licenses.txt. `seal.mjs` comes last, when
// all other files of the site are there.

import { copyFile, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const PYODIDE = join(here, "node_modules", "pyodide");
/** What Pyodide loads. Its consoles, types and maps stay behind. */
const PYTHON = ["pyodide.mjs", "pyodide.asm.mjs", "pyodide-lock.json", "python_stdlib.zip"];
/** Python itself, which the page unpacks: not every host compresses what it sends. */
const WASM = "pyodide.asm.wasm";

const [folder] = process.argv.slice(2);
if (!folder) {
  console.error("Which folder is to be written? node build.mjs FOLDER");
  process.exit(2);
}
const bench = join(folder, "bench");

const packed = gzipSync(await readFile(join(PYODIDE, WASM)), { level: 9 });

const options = {
  absWorkingDir: here,
  outdir: bench,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  define: { PACKED_BYTES: JSON.stringify(packed.length) },
  logLevel: "warning",
};

await mkdir(join(bench, "pyodide"), { recursive: true });
for (const name of await readdir(bench)) {
  if (/^[a-z]+-[A-Z0-9]{8}\.js$/.test(name)) await rm(join(bench, name));
}
const { metafile } = await build({
  ...options,
  entryPoints: ["src/bench.js", "src/page.js", "src/demo.js", "src/site.css"],
  chunkNames: "[name]-[hash]",
  splitting: true,
  metafile: true,
});
await build({ ...options, entryPoints: ["src/worker.js"] });
for (const name of PYTHON) await copyFile(join(PYODIDE, name), join(bench, "pyodide", name));
// A host that knows the ending `.gz` may say that it has packed the file itself.
await writeFile(join(bench, "pyodide", `${WASM}.packed`), packed);
await writeFile(join(bench, "licenses.txt"), await licenses(Object.keys(metafile.inputs)));

/** The licenses of the packages that some bundled files are from, and of Pyodide. */
async function licenses(inputs) {
  const found = inputs.map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]);
  const names = [...new Set([...found.filter(Boolean), "pyodide"])].sort();
  return (await Promise.all(names.map(license))).join(`\n${"-".repeat(72)}\n\n`);
}

async function license(name) {
  const folder = join(here, "node_modules", name);
  const { version, license: kind } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  const text = await readFile(join(folder, "LICENSE"), "utf8").catch(() => "");
  return `${name} ${version} (${kind})\n\n${text}`;
}

// Writes the service worker of a finished site: `node seal.mjs FOLDER` makes FOLDER/offline.js. It
// carries the lists of the bench's files and of the search's, and the site's version, a hash of every
// file, so that a browser notices any change.

import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const OFFLINE = "offline.js";
/** The index and what reads it. */
const SEARCH = /^search\.json$|\/workers\/search\./;

const [folder] = process.argv.slice(2);
if (!folder) {
  console.error("Which folder is to be sealed? node seal.mjs FOLDER");
  process.exit(2);
}

const entries = await readdir(folder, { recursive: true, withFileTypes: true });
const files = entries
  .filter((entry) => entry.isFile())
  .map((entry) => relative(folder, join(entry.parentPath ?? entry.path, entry.name)).split(sep).join("/"))
  .filter((name) => name !== OFFLINE)
  .sort();
const version = createHash("sha256");
/** The address of each file below the site's root, and its size. */
const course = [];
for (const name of files) {
  const data = await readFile(join(folder, name));
  course.push([name.replace(/(^|\/)index\.html$/, "$1"), data.length]);
  const hash = createHash("sha256").update(data).digest("hex");
  version.update(`${hash} ${name}\n`);
}

await build({
  absWorkingDir: fileURLToPath(new URL(".", import.meta.url)),
  entryPoints: [`src/${OFFLINE}`],
  outfile: join(folder, OFFLINE),
  bundle: true,
  minify: true,
  target: "es2022",
  define: {
    VERSION: JSON.stringify(version.digest("hex").slice(0, 16)),
    BENCH_FILES: JSON.stringify(files.filter((name) => name.startsWith("bench/"))),
    COURSE_FILES: JSON.stringify(course),
    SEARCH_FILES: JSON.stringify(files.filter((name) => SEARCH.test(name))),
  },
  logLevel: "warning",
});

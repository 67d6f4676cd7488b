// The site's service worker. It keeps what was read, and the bench's files once the bench was used,
// for when there is no connection; with one, everything comes from the host, so nothing is stale.
// To pages of hosts that do not send them it adds the headers that isolate them, without which they
// share no memory with Python.
//
// `seal.mjs` writes the version and the list of files in, so each build has a worker of its own,
// which takes the place of the older one and of all that was kept by it.

const PREFIX = "course-";
const CACHE = PREFIX + VERSION;
const ROOT = new URL("./", self.location.href).href;
/** What a page can ask to be kept, besides single files. */
const BENCH = BENCH_FILES.map((name) => ROOT + name);
/** All files of the site, by address, with their sizes. */
const COURSE = COURSE_FILES.map(([name, bytes]) => [ROOT + name, bytes]);
/** Kept if the reader has asked for the whole course: it is not a file of the site. */
const WISH = `${ROOT}keep-the-course`;
/** What a search needs. Pages load it late, so it is kept with the first of them. */
const SEARCH = SEARCH_FILES.map((name) => ROOT + name);

const ISOLATED = {
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Embedder-Policy": "require-corp",
};
/** Only these need the headers; others are passed on untouched. */
const ISOLATE = ["document", "worker"];

const NOT_KEPT = `<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Not here yet</title>
<h1>This page is not here yet</h1>
<p>There is no connection, and this page was not read before. What was read still opens.</p>`;

self.addEventListener("install", () => self.skipWaiting());

self.addEventListener("activate", (event) => {
  event.waitUntil(dropOlder().then(() => self.clients.claim()));
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET" || !request.url.startsWith(ROOT)) return;
  event.respondWith(answer(request, event));
});

self.addEventListener("message", (event) => {
  const { keep } = event.data ?? {};
  const [port] = event.ports;
  if (keep === "measure" || keep === "course") event.waitUntil(keepCourse(keep === "course", port));
  else if (keep === "new") event.waitUntil(keepNew());
  else if (keep === "bench") event.waitUntil(keepAll(BENCH));
  else if (Array.isArray(keep)) event.waitUntil(keepAll([...keep.filter(isOurs), ...SEARCH]));
});

const isOurs = (url) => typeof url === "string" && url.startsWith(ROOT);

async function dropOlder() {
  const names = await caches.keys();
  const older = names.filter((name) => name.startsWith(PREFIX) && name !== CACHE);
  const wishes = await Promise.all(older.map(async (name) => (await caches.open(name)).match(WISH)));
  if (wishes.some(Boolean)) await keep(WISH, new Response());
  await Promise.all(older.map((name) => caches.delete(name)));
}

async function answer(request, event) {
  const response = await fetched(request, event);
  return ISOLATE.includes(request.destination) ? isolated(response) : response;
}

async function fetched(request, event) {
  try {
    const response = await fetch(request);
    if (isKeepable(response)) event.waitUntil(keep(request.url, response.clone()));
    return response;
  } catch (error) {
    const cache = await caches.open(CACHE);
    const kept = await cache.match(plain(request.url));
    if (kept) return kept;
    if (request.mode !== "navigate") throw error;
    const page = plain(request.url).replace(/\/?(index\.html)?$/, "/");
    if (await cache.match(page)) return Response.redirect(page);
    const headers = { "Content-Type": "text/html; charset=utf-8" };
    return new Response(NOT_KEPT, { status: 503, headers });
  }
}

/** Whether a response is a whole file of this site. */
function isKeepable(response) {
  return response.status === 200 && response.type === "basic";
}

async function keep(url, response) {
  try {
    await (await caches.open(CACHE)).put(plain(url), response);
  } catch (error) {
    console.info(`${url} is not kept for offline use: ${error.message}`);
  }
}

/** Keep files that are not kept yet. */
async function keepAll(urls) {
  const cache = await caches.open(CACHE);
  for (const url of urls) {
    if (await cache.match(plain(url))) continue;
    const response = await fetch(url).catch(() => null);
    if (response && isKeepable(response)) await keep(url, response);
  }
}

/** Keep the whole course, or only measure; tell the port how many bytes are not kept. */
async function keepCourse(isAsked, port) {
  if (isAsked) await keep(WISH, new Response());
  const cache = await caches.open(CACHE);
  const kept = new Set((await cache.keys()).map(({ url }) => url));
  const missing = COURSE.filter(([url]) => !kept.has(url));
  let left = missing.reduce((sum, [, bytes]) => sum + bytes, 0);
  for (const [url, bytes] of isAsked ? missing : []) {
    port?.postMessage({ left });
    await keepAll([url]);
    if (await cache.match(url)) left -= bytes;
  }
  port?.postMessage({ left, isLast: true });
}

async function keepNew() {
  if (await (await caches.open(CACHE)).match(WISH)) await keepCourse(true);
}

/** An address without what only the page looks at. */
function plain(url) {
  const address = new URL(url);
  address.hash = address.search = "";
  return address.href;
}

/** The same response, with the headers that isolate a page. */
function isolated(response) {
  if (response.type === "opaqueredirect") return response;
  const headers = new Headers(response.headers);
  for (const [name, value] of Object.entries(ISOLATED)) headers.set(name, value);
  const { status, statusText } = response;
  return new Response(response.body, { status, statusText, headers });
}

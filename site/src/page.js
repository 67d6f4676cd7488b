// Runs on every page of the site: shows progress, and starts the service worker, which keeps what was
// read for offline.

import { showProgress } from "./progress.js";

/** Ask the service worker to keep files; it may not be there, in a private window for one. */
export async function keepOffline(what) {
  if (!("serviceWorker" in navigator)) return;
  const { active } = await navigator.serviceWorker.ready;
  // None is there if the reader has cleared the site's data.
  active?.postMessage({ keep: what });
}

/**
 * Ask the service worker about the whole course.
 *
 * @param {"measure" | "course"} what
 * @param {(state: {left: number}) => void} [say] hears how many bytes are not kept yet
 * @returns {Promise<{left: number}>} the last state; nothing is left where nothing can be kept
 */
async function askOfCourse(what, say = () => {}) {
  if (!navigator.serviceWorker) return { left: 0 };
  const { active } = await navigator.serviceWorker.ready;
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve) => {
    port1.onmessage = ({ data }) => (data.isLast ? resolve(data) : say(data));
    active.postMessage({ keep: what }, [port2]);
  });
}

/** How much of the course is not kept. */
export function sizeOfCourse() {
  return askOfCourse("measure");
}

/** Keep all of the course. */
export async function keepCourse(say) {
  // The browser then clears the site only when the reader wants it.
  await navigator.storage?.persist?.();
  return askOfCourse("course", say);
}

/** What this page has loaded so far: a service worker that is new came too late to see it. */
function loaded() {
  const files = performance.getEntriesByType("resource").map(({ name }) => name);
  return [location.href, ...files];
}

if ("serviceWorker" in navigator) {
  // This file is one folder below the site's root, where the service worker is.
  const url = new URL("../offline.js", import.meta.url);
  navigator.serviceWorker.addEventListener("controllerchange", () => keepOffline(loaded()));
  // If the reader has asked for the whole course, what is new in it is kept.
  keepOffline("new");
  navigator.serviceWorker
    .register(url)
    .catch((error) => console.info(`The site is not kept for offline use: ${error.message}`));
}

/** The keyboard scrolls what it can focus: a code or a table that is wider than its column. */
function fit(box) {
  const isWide = box.scrollWidth > box.clientWidth;
  if (isWide && box.tabIndex !== 0) box.tabIndex = 0;
  else if (!isWide && box.tabIndex === 0) box.removeAttribute("tabindex");
}

// The width of a column may change, and the generator looks only once whether code fits.
const fitAll = (entries) => entries.forEach(({ target }) => fit(target));
const sizes = new ResizeObserver(fitAll);
const marks = new MutationObserver(fitAll);
for (const code of document.querySelectorAll("article pre > code")) {
  sizes.observe(code);
  marks.observe(code, { attributes: true, attributeFilter: ["tabindex"] });
}

/** How many columns of a fixed width a text takes: emoji and East Asian characters take two. */
function columnsOf(text) {
  const widths = text.split("\n").map((line) => line.replace(/\p{Emoji_Presentation}|\p{Script=Han}/gu, "  ").length);
  return Math.max(...widths);
}

// The style sheet makes a diagram's letters as large as its column allows.
for (const code of document.querySelectorAll(".highlight:not(:has(code [class])) pre > code")) {
  code.style.setProperty("--columns", columnsOf(code.textContent));
}

/** The generator draws a copy button into a `nav` without a name, and a box around each table. */
addEventListener("load", () => {
  for (const nav of document.querySelectorAll(".md-code__nav")) nav.ariaLabel = "Code";
  for (const box of document.querySelectorAll("article .md-typeset__scrollwrap")) sizes.observe(box);
});

/** The generator's search hears its key only once a click has opened it. */
const searchButton = document.querySelector(".md-search__button");
let wasSearched = false;
searchButton?.addEventListener("click", () => (wasSearched = true));
addEventListener("keydown", (event) => {
  if (wasSearched || event.defaultPrevented || event.key !== "k" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  searchButton?.click();
});

showProgress();
// A browser may show a page again as it was left.
addEventListener("pageshow", ({ persisted }) => persisted && showProgress());

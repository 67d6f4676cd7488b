// How far the reader is, on every page: points beside the links to labs, and where to continue.

import { openCourse, PROGRESS, readProgress } from "./store/database.js";
import { byId, make } from "./dom.js";

const LAB = /\/labs\/(\d\d)\/$/;

/**
 * The lab and the task to continue with: those of the last run, or the next lab after it.
 *
 * @param {string[]} order numbers of the labs, in the order of the ladder
 * @param {Record<string, object>} records by the lab's number
 * @returns {{lab: string, task: number | null} | null} null before the first run, and after the last lab
 */
export function placeOf(order, records) {
  const isOpen = (lab) => !records[lab]?.solved;
  const turn = (lab) => records[lab]?.turn ?? 0;
  const last = order.reduce((best, lab) => (turn(lab) > turn(best) ? lab : best), order[0]);
  if (!turn(last)) return null;
  const after = order.slice(order.indexOf(last));
  const lab = after.find(isOpen) ?? order.find(isOpen);
  return lab ? { lab, task: records[lab]?.unfinished?.[0] ?? null } : null;
}

/** The words of a record, as signs and for screen readers. */
export function wordsOf({ score = null, solved = false }) {
  if (solved) return { sign: "✓", words: "passed" };
  return score === null ? null : { sign: String(score), words: `${score} points` };
}

function byNumber(progress) {
  const numbers = Object.entries(progress).map(([name, record]) => [/^lab-(\d\d)/.exec(name)?.[1], record]);
  return Object.fromEntries(numbers);
}

const labOf = (link) => LAB.exec(link.pathname)?.[1];

function mark(link, record) {
  const words = wordsOf(record);
  link.querySelector(".lab-points")?.remove();
  if (!words) return;
  const sign = make("span", { "aria-hidden": "true" }, words.sign);
  const said = make("span", "md-visually-hidden", ` (${words.words})`);
  link.append(make("span", record.solved ? "lab-points solved" : "lab-points", sign, said));
}

/**
 * Draw progress on the page.
 *
 * @param {Record<string, object>} progress by the lab's name
 */
export function drawProgress(progress) {
  const records = byNumber(progress);
  const links = [...document.querySelectorAll(".md-nav--primary a, article :is(td, li) a")];
  const labs = links.filter(labOf);
  for (const link of labs) mark(link, records[labOf(link)] ?? {});
  const navigation = labs.filter((link) => link.closest(".md-nav--primary"));
  const order = [...new Set(navigation.map(labOf))];
  const start = byId("start");
  const place = order.length ? placeOf(order, records) : null;
  if (!start || !place) return;
  start.href = navigation.find((link) => labOf(link) === place.lab).href;
  start.textContent = `Continue: lab ${place.lab}${place.task ? `, task ${place.task}` : ""}`;
}

/** Draw what the browser keeps; a browser that keeps nothing has no progress. */
export async function showProgress() {
  try {
    const database = await openCourse();
    drawProgress(await readProgress(database.transaction(PROGRESS).objectStore(PROGRESS)));
  } catch (error) {
    console.info(`No progress is shown: ${error.message}`);
  }
}

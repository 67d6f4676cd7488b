// The report's texts name commands of a checkout. On the page each becomes what it stands for.

/**
 * @typedef {{kind: "text" | "code", text: string}
 *   | {kind: "run" | "hint", text: string, task: number | null}
 *   | {kind: "page", text: string, lab: string}} Part
 */

const COMMAND = /make (?<verb>lab|hint) N=(?<number>\d\d)(?: T=(?<task>\d+))?/;
const FOLDER = "[\\w./-]*labs/lab-";
const README = new RegExp(`${FOLDER}(?<readme>\\d\\d)-[\\w-]+/README\\.md`);
/** Both lead to one page. */
const BOTH = new RegExp(`read ${FOLDER}(?<both>\\d\\d)-[\\w-]+/README\\.md, then make lab N=\\k<both>`);
const OTHER = /(?:LAB_IMPL=\w+ )?make [a-z][a-z-]*(?: [A-Z]+=[\w-]+)*/;
const FOUND = new RegExp(`${BOTH.source}|${COMMAND.source}|${README.source}|${OTHER.source}`, "g");

/**
 * Cut a text into parts.
 *
 * @param {string} text
 * @param {string} here the number of the lab whose page it is
 * @returns {Part[]}
 */
export function partsOf(text, here) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(FOUND)) {
    if (found.index > end) parts.push({ kind: "text", text: text.slice(end, found.index) });
    parts.push(partOf(found, here));
    end = found.index + found[0].length;
  }
  if (end < text.length) parts.push({ kind: "text", text: text.slice(end) });
  return parts;
}

function partOf({ 0: whole, groups: { both, verb, number, task, readme } }, here) {
  if (both) return { kind: "page", text: "open its page", lab: both };
  if (readme) {
    if (readme === here) return { kind: "text", text: "the text of this page" };
    return { kind: "page", text: "its page", lab: readme };
  }
  if (!verb) return { kind: "code", text: whole };
  if (number !== here) return { kind: "page", text: `open lab ${number}`, lab: number };
  const about = task === undefined ? null : Number(task);
  if (verb === "hint") return { kind: "hint", text: "a hint", task: about };
  return { kind: "run", text: about === null ? "run the lab" : `run task ${about}`, task: about };
}

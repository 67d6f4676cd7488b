// A run's report as page content: the same data that `make lab` prints in a terminal.

import { partsOf } from "./commands.js";
import { breakable, button, count, make, withCode } from "../dom.js";

const SIGNS = { PASS: "✓", FAIL: "✗" };
/** Labels whose text is prose; all others are code. */
const PROSE = new Set(["in short", "at", "but", "now"]);
/** A code of more characters or lines may be too high for its place, on a phone at the latest. */
const MOST_BESIDE_LABEL = { characters: 300, lines: 8 };
const LINE = { className: "line" };
const MARK = "first difference";
/** So many failures are shown at once. */
const IN_FULL = 2;
/** So many characters that a test printed are shown. */
const MOST_PRINTED = 2000;

/** One sentence for screen readers and for the line above the report. */
export function summary(report) {
  if (!report.complete) {
    const ran = report.tasks.filter((task) => task.status !== "not run");
    const words = ran.map((task) => `task ${task.number}: ${task.status}`);
    return words.length ? `${words.join(", ")}.` : "No test ran.";
  }
  const score = `${report.score} of ${report.most} points`;
  if (report.score === report.most && !report.failures.length) return `${score}: every test passes.`;
  const needs = /^needs (.+)/.exec(report.given?.status ?? "");
  if (needs) return `${score}. ${needs[1]} comes first.`;
  const where = openTask(report);
  return where ? `${score}. Task ${where} is next.` : `${score}.`;
}

/** The number of the task that the report says to go on with, undefined if none fails. */
function openTask({ tasks }) {
  return tasks.find((task) => task.status === "FAIL")?.number;
}

/** Whether the failures are of a later task than the open one, which is not written yet. */
function isAhead(report) {
  const [first] = report.failures;
  return Boolean(first?.task) && first.task !== openTask(report);
}

/**
 * The line of the reader's code at which the first failure is, and its words; null if there is none.
 *
 * @returns {{line: number, words: string} | null}
 */
export function faultOf(report) {
  if (report.line) return { line: report.line, words: errorOf(report.waiting[0] ?? "") };
  const failure = report.failures.find(({ line }) => line);
  if (!failure || isAhead(report)) return null;
  const text = failure.labels.find(({ label }) => label === "raised")?.text ?? "";
  return { line: failure.line, words: firstLine(text) };
}

const firstLine = (text) => text.split("\n", 1)[0];

/** The exception in the reason why tests wait. */
function errorOf(text) {
  return /\b\w+(?:Error|Exception|Exit|Interrupt)\b.*/.exec(firstLine(text))?.[0] ?? firstLine(text).replace(/^.*line \d+ /, "");
}

function statusClass(status) {
  if (status === "PASS") return "pass";
  return status === "FAIL" ? "fail" : "wait";
}

/** A row of a task, or of the tests that are only to look at, which have no number. */
function taskRow({ number, title, tests, points, max, status }, runTask) {
  const sign = make("span", { className: "sign", "aria-hidden": "true" }, SIGNS[status] ?? "·");
  const named = { className: "quiet", "aria-label": `Run task ${number}` };
  return make(
    "tr",
    statusClass(status),
    make("th", { scope: "row" }, number ? `${number} ${title}` : title),
    make("td", "number", tests),
    make("td", "number", number ? `${points}/${max}` : "–"),
    make("td", "status", sign, ` ${status}`),
    make("td", "act", number && button("Run", () => runTask(number), named)),
  );
}

function tasksTable(report, runTask) {
  const heads = ["Task", "Tests", "Points", "Status"].map((text, place) =>
    make("th", { scope: "col", className: place === 1 || place === 2 ? "number" : "" }, text),
  );
  const shown = report.given ? [...report.tasks, report.given] : report.tasks;
  const rows = shown.map((task) => taskRow(task, runTask));
  const caption = make("caption", "hidden", "Points by task");
  const head = make("thead", "", make("tr", "", ...heads, make("td")));
  return wide(make("table", "tasks", caption, head, make("tbody", "", ...rows)), "Points by task");
}

/** What is wider than the page scrolls in a box of its own, which the keyboard reaches. */
function wide(content, label) {
  return make("div", { className: "wide", tabindex: "0", role: "group", "aria-label": label }, content);
}

/** A text; each `line 34 of starter.py` in it leads to the editor. */
function withLines(text, goTo) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(/\b(?:starter\.py:|line )(\d+)( of starter\.py)?/g)) {
    parts.push(text.slice(end, found.index));
    parts.push(button(found[0], () => goTo(Number(found[1])), LINE));
    end = found.index + found[0].length;
  }
  return [...parts, text.slice(end)];
}

function labels(failure, goTo) {
  const list = make("dl", "labels");
  for (const { label, text } of failure.labels) {
    const value = PROSE.has(label) ? "" : codeBox(text);
    const parts = label === "at" ? withLines(text, goTo) : value ? [text] : withCode(text);
    list.append(make("dt", "", label), make("dd", value, ...parts));
  }
  return list;
}

/** The place of a code, which scrolls if it is long, and then is reached by keyboard. */
function codeBox(text) {
  const { characters, lines } = MOST_BESIDE_LABEL;
  const isLong = text.length > characters || text.split("\n").length > lines;
  return isLong ? { className: "code", tabindex: "0" } : "code";
}

function traceRow(row, width) {
  if (row.gap) {
    const cell = make("td", "", row.gap);
    cell.colSpan = width + 1;
    return make("tr", "gap", cell);
  }
  const cells = row.cells.map((text) => make("td", "", text));
  while (cells.length < width) cells.push(make("td"));
  const mark = row.mark ? make("span", { title: MARK }, "▶") : "";
  if (row.mark) mark.append(make("span", "hidden", MARK));
  return make("tr", row.mark ? "marked" : "", make("td", "mark", mark), ...cells);
}

function traceTable(trace) {
  const heads = trace.columns.map((text) => make("th", { scope: "col" }, text));
  const rows = trace.rows.map((row) => traceRow(row, trace.columns.length));
  const caption = make("caption", "", "Trace");
  const marked = trace.rows.some((row) => row.mark);
  if (marked) caption.append(make("span", "note", ` ▶ ${MARK}`));
  const head = make("thead", "", make("tr", "", make("td"), ...heads));
  return wide(make("table", "trace", caption, head, make("tbody", "", ...rows)), "Trace");
}

function worth({ task, worth: points }) {
  return task ? `task ${task}, ${count(points, "point")}` : "demonstration";
}

function failureTitle(failure) {
  return [
    make("span", { className: "sign", "aria-hidden": "true" }, "✗"),
    " ",
    make("code", "", ...breakable(failure.tests[0])),
    " ",
    make("small", "", `(${worth(failure)})`),
  ];
}

function failureCard(failure, { goTo, show }) {
  const nodes = [
    failure.rule && make("p", "rule", ...withCode(failure.rule)),
    labels(failure, goTo),
    failure.shrunk && make("p", "note", "Shrunk to the smallest input that fails."),
    failure.trace && traceTable(failure.trace),
    failure.line && goToLine(failure.line, goTo),
    show && make("p", "", button("Show me", () => show(failure.tests[0]), { className: "show-me" })),
    failure.tests.length > 1 && sameReason(failure, failure.tests.slice(1)),
  ].filter(Boolean);
  return make("article", "failure", make("h4", "", ...failureTitle(failure)), ...nodes);
}

function goToLine(line, goTo) {
  return make("p", "", button(`Go to line ${line}`, () => goTo(line), { className: "quiet" }));
}

/** The first failures in full; the others behind their names, not to drown them. */
function failures(report, acts) {
  const show = report.hunted ? null : acts.show;
  const cards = report.failures.map((failure) => failureCard(failure, { ...acts, show }));
  const now = cards.slice(0, IN_FULL);
  const more = cards.slice(IN_FULL);
  if (isAhead(report)) {
    const title = `Task ${report.failures[0].task}, for later: ${count(cards.length, "failure")}`;
    return [make("details", "more", make("summary", "", title), ...cards)];
  }
  if (!more.length) return now;
  const title = `${count(more.length, "more failure")} of this task`;
  return [...now, make("details", "more", make("summary", "", title), ...more)];
}

function sameReason(failure, others) {
  const points = Math.max(0, failure.points - failure.worth);
  const title = `${others.length} more for the same reason (${count(points, "point")})`;
  const names = others.map((name) => make("li", "", make("code", "", ...breakable(name))));
  return make("details", "more", make("summary", "", title), make("ul", "", ...names));
}

/** What the tests showed, after a run without a failure. */
function shownRules(rules) {
  const items = rules.map((rule) => make("li", "", ...withCode(rule)));
  return make("section", "shown", make("h4", "", "What the tests showed"), make("ul", "", ...items));
}

function looksLike({ symptom, hint }) {
  return make(
    "div",
    "callout",
    make("p", "", make("b", "", "Looks like: "), ...withCode(symptom)),
    hint && make("p", "", make("b", "", "Hint: "), ...withCode(hint)),
  );
}

/** A text in which commands are what they stand for on this page. */
function spoken(text, here, { runTask, showHint, pageOf }) {
  return partsOf(text, here).flatMap((part) => {
    if (part.kind === "run") return button(part.text, () => runTask(part.task), LINE);
    if (part.kind === "hint") return button(part.text, () => showHint(part.task), LINE);
    if (part.kind === "page") return make("a", { href: pageOf(part.lab) }, part.text);
    return part.kind === "code" ? make("code", "", part.text) : withCode(part.text);
  });
}

function hunted({ tests, enough }) {
  const rows = tests.map(({ test, told, why }) => {
    const name = make("th", { scope: "row" }, make("code", "", ...breakable(test)));
    return make("tr", "", name, make("td", "", told, why && make("p", "note", why)));
  });
  const caption = make("caption", "", "What your tests do");
  const body = make("tbody", "", ...rows);
  const table = rows.length > 0 && wide(make("table", "hunted", caption, body), "What your tests do");
  const names = enough.flatMap((name) => [make("code", "", ...breakable(name)), ", "]).slice(0, -1);
  const more =
    " are enough here: the others kill nothing more of the published part. Keep them: the grader's" +
    " pool is larger.";
  const few = names.length > 0 && make("p", "", ...names, more);
  const provisional = make(
    "p",
    "note",
    "This score is provisional: the grader runs your tests in processes of their own, on more" +
      " implementations.",
  );
  return [table, few, provisional];
}

/** What tests wait for; what stands below it is code, with a mark under a place of it. */
function waiting(text, say) {
  const [words, ...code] = text.split("\n");
  const shown = { tabindex: "0", "aria-label": "The line" };
  return [say("waiting", words), code.length > 0 && make("pre", shown, code.join("\n"))];
}

function later(report, runTask) {
  if (!report.later.length) return null;
  const parts = report.later.flatMap(({ task, count: number }) => {
    const run = button(`Run task ${task}`, () => runTask(task), { className: "quiet" });
    return [make("span", "", `${number} of task ${task} `, run), " "];
  });
  return make("p", "later", make("b", "", "Also failing: "), ...parts);
}

function leftOut(tests) {
  const rows = tests.map(({ name, points, why }) =>
    make("li", "", make("code", "", name), ` (${count(points, "point")}): ${why}`),
  );
  const points = tests.reduce((sum, test) => sum + test.points, 0);
  const those = tests.length === 1 ? "1 test runs" : `${tests.length} tests run`;
  const title = `${those} only in a checkout, with ${count(points, "point")}`;
  return make("details", "more", make("summary", "", title), make("ul", "", ...rows));
}

function underTest({ hash, seed, parts }) {
  return make("p", "note", [`starter.py ${hash}, seed ${seed}`, ...parts].join(" · "));
}

/** What tests printed, below the name of each: of long texts, the beginning. */
function printedText(printed) {
  const begin = (text) => {
    const left = text.length - MOST_PRINTED;
    return left > 0 ? `${text.slice(0, MOST_PRINTED)} … ${left} more characters` : text;
  };
  const texts = printed.flatMap(({ name, text }) => [make("b", "", name), `\n${begin(text.trimEnd())}\n`]);
  const box = make("pre", { tabindex: "0", "aria-label": "Printed" }, ...texts);
  return make("details", { className: "more", open: true }, make("summary", "", "Printed"), box);
}

function plainText(text) {
  const box = make("pre", { tabindex: "0" }, text);
  return make("details", "more", make("summary", "", "The same report as text"), box);
}

function scoreLine(report) {
  const all = report.score === report.most;
  const line = make(
    "p",
    all ? "score all" : "score",
    make("strong", "", String(report.score)),
    make("span", "", ` of ${report.most} points`),
  );
  const meter = make("progress", { value: report.score, max: report.most, "aria-label": "Points" });
  return [line, meter];
}

/**
 * The nodes of what stands for a report: why there is none, and what was printed until then.
 *
 * @param {string} message
 * @param {string} more
 * @param {{name: string, text: string}[]} printed
 */
export function noReportNodes(message, more, printed) {
  const words = [make("p", "", message), more && make("p", "", more)].filter(Boolean);
  const box = make("div", { className: "stopped", role: "alert" }, ...words);
  return printed.length ? [box, printedText(printed)] : [box];
}

/**
 * The nodes of a report.
 *
 * @param {object} report of `labkit.browser.verbs.run`
 * @param {{name: string, text: string}[]} printed what each test printed
 * @param {object} acts
 * @param {(line: number) => void} acts.goTo
 * @param {(test: string) => void} acts.show shows the steps of a failing test
 * @param {(task: number | null) => void} acts.runTask
 * @param {(task: number | null) => void} acts.showHint
 * @param {(lab: string) => string} acts.pageOf
 * @returns {(Node | string)[]}
 */
export function reportNodes(report, printed, acts) {
  const here = report.header.lab;
  const say = (className, text) => make("p", className, ...spoken(text, here, acts));
  const cards = failures(report, acts);
  const ahead = isAhead(report);
  return [
    ...(report.complete ? scoreLine(report) : []),
    ...(ahead ? [] : cards),
    ...report.waiting.flatMap((text) => waiting(text, say)),
    ...(ahead ? cards : []),
    report.line && goToLine(report.line, acts.goTo),
    later(report, acts.runTask),
    report.looks_like && looksLike(report.looks_like),
    ...(report.hunted ? hunted(report.hunted) : []),
    report.next && say("next", `Next: ${report.next}`),
    report.shown.length > 0 && shownRules(report.shown),
    tasksTable(report, acts.runTask),
    underTest(report.header),
    ...report.notes.map((text) => say("note", text)),
    report.left_out.length > 0 && leftOut(report.left_out),
    printed.length > 0 && printedText(printed),
    report.text && plainText(report.text),
  ].filter(Boolean);
}

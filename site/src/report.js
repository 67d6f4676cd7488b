// A run's report as page content: the same data that `make lab` prints in a terminal.

import { button, count, make } from "./dom.js";

const SIGNS = { PASS: "✓", FAIL: "✗" };
/** Labels whose text is prose; all others are code. */
const PROSE = new Set(["in short", "at"]);
const MARK = "first difference";

/** One sentence for screen readers and for the line above the report. */
export function summary(report) {
  if (!report.complete) {
    const ran = report.tasks.filter((task) => task.status !== "not run");
    const words = ran.map((task) => `task ${task.number}: ${task.status}`);
    return words.length ? `${words.join(", ")}.` : "No test ran.";
  }
  const score = `${report.score} of ${report.most} points`;
  if (report.score === report.most && !report.failures.length) return `${score}: every test passes.`;
  const first = report.failures.find((failure) => failure.task)?.task;
  const open = report.tasks.find((task) => task.status === "FAIL");
  const where = first ?? open?.number;
  return where ? `${score}. Task ${where} is next.` : `${score}.`;
}

function statusClass(status) {
  if (status === "PASS") return "pass";
  return status === "FAIL" ? "fail" : "wait";
}

function taskRow(task, runTask) {
  const sign = make("span", { className: "sign", "aria-hidden": "true" }, SIGNS[task.status] ?? "·");
  const run = button("Run", () => runTask(task.number), {
    className: "quiet",
    "aria-label": `Run task ${task.number}`,
  });
  const { tests } = task;
  return make(
    "tr",
    statusClass(task.status),
    make("th", { scope: "row" }, `${task.number} ${task.title}`),
    make("td", "number", String(tests)),
    make("td", "number", `${task.points}/${task.max}`),
    make("td", "status", sign, ` ${task.status}`),
    make("td", "act", run),
  );
}

function tasksTable(report, runTask) {
  const heads = ["Task", "Tests", "Points", "Status"].map((text, place) =>
    make("th", { scope: "col", className: place === 1 || place === 2 ? "number" : "" }, text),
  );
  const rows = report.tasks.map((task) => taskRow(task, runTask));
  if (report.given) rows.push(givenRow(report.given));
  const caption = make("caption", "hidden", "Points by task");
  const head = make("thead", "", make("tr", "", ...heads, make("td")));
  return wide(make("table", "tasks", caption, head, make("tbody", "", ...rows)), "Points by task");
}

function givenRow(given) {
  const sign = make("span", { className: "sign", "aria-hidden": "true" }, SIGNS[given.status] ?? "·");
  return make(
    "tr",
    statusClass(given.status),
    make("th", { scope: "row" }, given.title ?? "given, to look at"),
    make("td", "number", String(given.tests)),
    make("td", "number", "–"),
    make("td", "status", sign, ` ${given.status}`),
    make("td"),
  );
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
    parts.push(button(found[0], () => goTo(Number(found[1])), { className: "line" }));
    end = found.index + found[0].length;
  }
  return [...parts, text.slice(end)];
}

function labels(failure, goTo) {
  const list = make("dl", "labels");
  for (const { label, text } of failure.labels) {
    const value = PROSE.has(label) ? "" : "code";
    const parts = label === "at" ? withLines(text, goTo) : [text];
    list.append(make("dt", "", label), make("dd", value, ...parts));
  }
  return list;
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
  return task ? `task ${task}, ${count(points, "point")}` : "given";
}

function failureCard(failure, goTo) {
  const [name, ...others] = failure.tests;
  const title = make(
    "h4",
    "",
    make("span", { className: "sign", "aria-hidden": "true" }, "✗"),
    " ",
    make("code", "", name),
    " ",
    make("small", "", `(${worth(failure)})`),
  );
  const card = make("article", "failure", title);
  if (failure.rule) card.append(make("p", "rule", failure.rule));
  card.append(labels(failure, goTo));
  if (failure.shrunk) card.append(make("p", "note", "Shrunk to the smallest input that fails."));
  if (failure.trace) card.append(traceTable(failure.trace));
  if (failure.line) {
    const act = button(`Go to line ${failure.line}`, () => goTo(failure.line), { className: "quiet" });
    card.append(make("p", "", act));
  }
  if (others.length) card.append(sameReason(failure, others));
  return card;
}

function sameReason(failure, others) {
  const points = Math.max(0, failure.points - failure.worth);
  const title = `${others.length} more for the same reason (${count(points, "point")})`;
  const names = others.map((name) => make("li", "", make("code", "", name)));
  return make("details", "more", make("summary", "", title), make("ul", "", ...names));
}

function looksLike({ symptom, hint }) {
  return make(
    "div",
    "callout",
    make("p", "", make("b", "", "Looks like: "), symptom),
    hint && make("p", "", make("b", "", "Hint: "), hint),
  );
}

function paragraphs(texts, className) {
  return texts.map((text) => make("p", className, text));
}

function later(report, runTask) {
  if (!report.later.length) return null;
  const parts = report.later.flatMap(({ task, count: number }) => [
    `${number} of task ${task} `,
    button(`Run task ${task}`, () => runTask(task), { className: "quiet" }),
    " ",
  ]);
  return make("p", "later", make("b", "", "Also failing: "), ...parts);
}

function leftOut(tests) {
  const rows = tests.map((test) => {
    const [name, why] = typeof test === "string" ? [test, ""] : [test.name, test.why];
    return make("li", "", make("code", "", name), why && `: ${why}`);
  });
  const title = `${count(tests.length, "test")} cannot run in a browser: run them in a checkout`;
  return make("details", "more", make("summary", "", title), make("ul", "", ...rows));
}

function plainText(text) {
  const box = make("pre", { tabindex: "0" }, text);
  return make("details", "more", make("summary", "", "The same as the terminal prints it"), box);
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
 * The nodes of a report.
 *
 * @param {object} report of `labkit.browser.verbs.run`
 * @param {{goTo: (line: number) => void, runTask: (task: number) => void}} acts
 * @returns {(Node | string)[]}
 */
export function reportNodes(report, { goTo, runTask }) {
  const nodes = report.complete ? scoreLine(report) : [];
  nodes.push(tasksTable(report, runTask));
  for (const failure of report.failures) nodes.push(failureCard(failure, goTo));
  nodes.push(...paragraphs(report.waiting, "waiting"));
  nodes.push(later(report, runTask));
  if (report.looks_like) nodes.push(looksLike(report.looks_like));
  nodes.push(...paragraphs(report.notes ?? [], "note"));
  if (report.left_out.length) nodes.push(leftOut(report.left_out));
  if (report.next) nodes.push(make("p", "next", make("b", "", "Next: "), report.next));
  if (report.text) nodes.push(plainText(report.text));
  return nodes.filter(Boolean);
}

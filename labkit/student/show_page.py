"""A recording as one HTML page, which needs neither a network nor other files."""

import base64
import hashlib
import html
import json

from labkit.running.recording.recording import Recording

_STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1b1b1b; --soft: #5a5a5a; --line: #d0d0d0;
  --mark: #fff0b8; --change: #0b5d1e; --fault: #9b1c1c; }
@media (prefers-color-scheme: dark) { :root { --back: #16181c; --text: #e8e8e8; --soft: #a8adb5;
  --line: #3c4048; --mark: #4a4010; --change: #7fd391; --fault: #ff9a9a; } }
body { margin: 0 auto; max-width: 78rem; padding: 1rem; background: var(--back);
  color: var(--text); font: 1rem/1.45 system-ui, sans-serif; }
h1 { font-size: 1.2rem; } h2 { font-size: 1rem; margin: 1rem 0 .3rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
pre, code, td { font: .85rem/1.5 ui-monospace, monospace; }
.columns { display: grid; gap: 1.5rem; grid-template-columns: minmax(0, 1fr); }
@media (min-width: 60rem) { .columns { grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); } }
.code, .wide { overflow: auto; border: 1px solid var(--line); border-radius: .3rem; }
.code { height: 26rem; position: relative; font: .85rem/1.5 ui-monospace, monospace; }
 .code div { white-space: pre; padding: 0 .5rem; width: max-content;
  min-width: 100%; box-sizing: border-box; }
.code .number { display: inline-block; width: 9ch; color: var(--soft); }
.here, tr.here td { background: var(--mark); } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .1rem .6rem; vertical-align: top; overflow-wrap: anywhere; }
th { color: var(--soft); font-weight: normal; } .after { color: var(--change); }
.fault { color: var(--fault); } nav { display: flex; flex-wrap: wrap; gap: .4rem; margin: 1rem 0; }
button { font: inherit; padding: .35rem .7rem; min-height: 2.5rem; } #slider { width: 100%; }
#event { font-weight: 600; min-height: 1.5em; overflow-wrap: anywhere; }
"""

_SCRIPT = """
"use strict";
const data = JSON.parse(document.getElementById("recording").textContent);
const byId = (id) => document.getElementById(id);
const make = (name, text, kind) => {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  return element;
};
const steps = data.steps;
let at = data.opens ?? 0;

function move(key) {
  const here = steps[at];
  const seek = (by, fits) => {
    for (let n = at + by; n >= 0 && n < steps.length; n += by) if (fits(steps[n])) return n;
    return at;
  };
  if (key === "ArrowRight") at = Math.min(at + 1, steps.length - 1);
  else if (key === "ArrowLeft") at = Math.max(at - 1, 0);
  else if (key === "ArrowDown") at = seek(1, (step) => step.frame !== here.frame);
  else if (key === "ArrowUp") at = seek(-1, (step) => step.frame !== here.frame);
  else if (key === "n") at = seek(1, (step) => step.call !== here.call);
  else if (key === "p") {
    at = seek(-1, (step) => step.call !== here.call);
    while (at > 0 && steps[at - 1].call === steps[at].call) at -= 1;
  } else if (key === "o") at = data.opens;
  else return false;
  show();
  return true;
}

function valuesAt(number) {
  const values = new Map();
  const add = (named) => Object.entries(named ?? {}).forEach(([name, text]) =>
    values.set(name, Array.isArray(text) ? text[1] : text));
  for (let n = 0; n < number; n += 1) {
    if (steps[n].frame === steps[number].frame) { add(steps[n].values); add(steps[n].changes); }
  }
  add(steps[number].values);
  return values;
}

function words(step) {
  const verb = { line: "runs", return: "returns", yield: "yields", exception: "raises" };
  return `line ${step.line} ${verb[step.event]} ${step.value ?? ""}`.trim();
}

function row(cells, kind) {
  const line = make("tr", undefined, kind);
  cells.forEach((cell) => line.append(cell instanceof Node ? cell : make("td", cell)));
  return line;
}

function showValues(step) {
  const values = valuesAt(at);
  const changes = step.changes ?? {};
  const names = [...Object.keys(changes), ...[...values.keys()].filter((key) => !(key in changes))];
  byId("values").replaceChildren(...names.map((name) => {
    const [before, after] = changes[name] ?? [values.get(name), ""];
    return row([name, before || "(new)", make("td", after, "after")]);
  }));
}

function showCalls(step) {
  const here = step.call - data.first_call;
  const compares = data.calls.some((call) => call.expected);
  const heads = ["call", "emitted", ...data.columns, "lines", ...(compares ? ["expected"] : [])];
  byId("heads").replaceChildren(...heads.map((name) => {
    const head = make("th", name);
    head.scope = "col";
    return head;
  }));
  byId("calls").replaceChildren(...data.calls.map((call, number) => {
    const held = data.columns.map((_, layer) => call.held[layer] ?? "");
    const done = number <= here ? [call.emitted, ...held] : ["", ...held.map(() => "")];
    const last = compares ? [call.expected] : [];
    return row([call.call, ...done, String(call.lines), ...last], number === here ? "here" : "");
  }));
  byId("calls").querySelector(".here")?.scrollIntoView({ block: "nearest" });
}

function show() {
  const step = steps[at];
  byId("slider").value = at;
  const thread = steps.some((other) => other.thread) ? `, thread ${step.thread + 1}` : "";
  byId("event").textContent =
    `Step ${at + 1} of ${steps.length}${thread}, in ${step.function}: ${words(step)}`;
  document.querySelector(".code .here")?.classList.remove("here");
  const line = byId(`L${step.line}`);
  line?.classList.add("here");
  if (line) byId("code").scrollTop = line.offsetTop - byId("code").clientHeight / 2;
  showValues(step);
  showCalls(step);
  byId("printed").textContent = step.printed ?? "";
}

byId("code").replaceChildren(...data.source.map((text, index) => {
  const line = make("div");
  line.id = `L${index + 1}`;
  const count = data.counts[index + 1];
  const number = `${index + 1}${count ? ` ${count}x` : ""}`;
  line.append(make("span", number, "number"), text);
  return line;
}));
if (steps.length) {
  byId("slider").max = steps.length - 1;
  byId("slider").addEventListener("input", () => { at = Number(byId("slider").value); show(); });
  document.querySelectorAll("button").forEach((button) =>
    button.addEventListener("click", () => move(button.dataset.key)));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target === byId("slider")) return;
    if (move(event.key)) event.preventDefault();
  });
  show();
} else {
  byId("steps").hidden = true;
}
"""

_BUTTONS = [
    ("ArrowLeft", "Line before"), ("ArrowRight", "Next line"), ("ArrowUp", "Call before"),
    ("ArrowDown", "Next call"), ("p", "Feed before"), ("n", "Next feed"), ("o", "Where it opened"),
]  # fmt: skip


def page_of(recording: Recording) -> str:
    """Return the page of a recording."""
    data = json.dumps(recording.as_dict(), ensure_ascii=True, separators=(",", ":"))
    rows = [
        ("rule", recording.rule),
        ("expected", recording.expected),
        ("actual", recording.actual),
        ("opens at" if recording.opens is not None else "no steps", recording.why),
    ]
    facts = "".join(f"<dt>{name}<dd>{html.escape(text)}" for name, text in rows if text)
    buttons = "".join(
        f'<button type="button" data-key="{key}">{words}</button>' for key, words in _BUTTONS
    )
    title = html.escape(f"lab-{recording.lab} {recording.test}: {recording.file}")
    policy = f"default-src 'none'; style-src {_digest(_STYLE)}; script-src {_digest(_SCRIPT)}"
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{_STYLE}</style>
<main>
<h1>{title}</h1>
<dl>{facts}</dl>
<div id="steps">
<nav aria-label="Steps">{buttons}</nav>
<p>Keys: left and right for lines, up and down for calls, n and p for feeds, o for where it opened.
<input id="slider" type="range" min="0" value="0" aria-label="Step">
<p id="event" role="status">
</div>
<div class="columns">
<section aria-labelledby="h-code"><h2 id="h-code">Code, with how often each line ran</h2>
<div id="code" class="code" tabindex="0" role="region" aria-labelledby="h-code"></div></section>
<div>
<section><h2>Values before and after the line</h2>
<div class="wide"><table><thead><tr><th scope="col">name<th scope="col">before<th scope="col">after
<tbody id="values"></table></div></section>
<section><h2 id="h-calls">Calls of the test</h2>
<div class="wide" tabindex="0" role="region" aria-labelledby="h-calls">
<table><thead><tr id="heads"><tbody id="calls"></table></div></section>
<section><h2>Printed at this step</h2><pre id="printed"></pre></section>
</div>
</div>
</main>
<script type="application/json" id="recording">{data.replace("<", chr(92) + "u003c")}</script>
<script>{_SCRIPT}</script>
</html>
"""


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

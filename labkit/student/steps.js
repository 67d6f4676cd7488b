// Draws a recording, and moves through its steps: in the page of `make show`, in feedback, and on
// the site. `recording.schema.json` describes the data, of which only texts are drawn.

/** A key, the name of its button, and the sign and the word that a narrow page shows instead. */
const BUTTONS = [
  ["ArrowLeft", "Line before", "←", "line"], ["ArrowRight", "Next line", "→", "line"],
  ["ArrowUp", "Call before", "↑", "call"], ["ArrowDown", "Next call", "↓", "call"],
  ["p", "Feed before", "⇤", "feed"], ["n", "Next feed", "⇥", "feed"], ["o", "Where it opened", "◎", "opened"],
];
const KEYS = "Keys: left and right for lines, up and down for calls, n and p for feeds, o for where it opened.";
const VERBS = { line: "runs", return: "returns", yield: "yields", exception: "raises" };
const IN_FULL = 12;
let count = 0;

function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "className") element.className = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

const row = (cells, className = "") =>
  make("tr", { className }, ...cells.map((cell) => (cell instanceof Node ? cell : make("td", {}, cell))));

/** The nodes of a text in which `backticks` hold code. */
const withCode = (text) =>
  text.split(/`([^`]+)`/).map((part, place) => (place % 2 ? make("code", {}, part) : part));

/** Number 0 is the file under test; the others are the reader's own parts. */
const fileOf = (data, part) => (part ? data.parts[part - 1] : data);

/** A recording as an element, `node`; it opens at the step that the recording names. */
export class Steps {
  #data;
  #onStep;
  #at;
  /** The number of the drawn file. */
  #part = -1;
  #id = `steps-${(count += 1)}`;
  #event = make("p", { className: "event", role: "status" });
  #file = make("p", { className: "title", id: `${this.#id}-file` });
  #code = make("div", { className: "code", tabindex: "0", role: "region", "aria-labelledby": `${this.#id}-file` });
  #values = make("tbody");
  #heads = make("tr");
  #calls = make("tbody");
  #printed = make("pre", { tabindex: "0", "aria-label": "Printed at this step" });
  #slider = make("input", { type: "range", min: "0", value: "0", "aria-label": "Step" });
  node;

  /**
   * @param {object} data a recording
   * @param {(step: object, at: number) => void} [onStep] hears of each step that is shown
   */
  constructor(data, onStep = () => {}) {
    this.#data = data;
    this.#onStep = onStep;
    this.#at = data.opens ?? 0;
    this.node = make("div", { className: "steps" }, ...this.#facts());
    if (!data.steps.length) return;
    this.#slider.max = String(data.steps.length - 1);
    this.#slider.addEventListener("input", () => this.show(Number(this.#slider.value)));
    new ResizeObserver(() => this.#scrollToLine()).observe(this.#code);
    this.node.append(this.#buttons(), make("p", { className: "keys" }, KEYS), this.#slider, this.#event, this.#columns());
    this.show(this.#at);
  }

  /** The number of the shown step. */
  get at() {
    return this.#at;
  }

  /** The number of the shown step among those of the file under test. */
  get ownAt() {
    return this.#data.steps.slice(0, this.#at).filter(({ part }) => !part).length;
  }

  /** The shown step. */
  get step() {
    return this.#data.steps[this.#at];
  }

  /** Move as a key says; return whether it is one of the keys. */
  press(key) {
    const { steps, opens } = this.#data;
    const here = steps[this.#at];
    if (!here) return false;
    const seek = (by, fits) => {
      for (let n = this.#at + by; n >= 0 && n < steps.length; n += by) if (fits(steps[n])) return n;
      return this.#at;
    };
    let to = this.#at;
    if (key === "ArrowRight") to = Math.min(to + 1, steps.length - 1);
    else if (key === "ArrowLeft") to = Math.max(to - 1, 0);
    else if (key === "ArrowDown") to = seek(1, (step) => step.frame !== here.frame);
    else if (key === "ArrowUp") to = seek(-1, (step) => step.frame !== here.frame);
    else if (key === "n") to = seek(1, (step) => step.call !== here.call);
    else if (key === "p") {
      to = seek(-1, (step) => step.call !== here.call);
      while (to > 0 && steps[to - 1].call === steps[to].call) to -= 1;
    } else if (key === "o") to = opens ?? 0;
    else return false;
    this.show(to);
    return true;
  }

  /** Hear the keys of an element; those of the slider stay its own. */
  listenTo(element) {
    element.addEventListener("keydown", (event) => {
      const { target, key } = event;
      if (event.ctrlKey || event.metaKey || event.altKey || target === this.#slider) return;
      // A region that can be scrolled by keys stays so.
      if (key.startsWith("Arrow") && target.closest?.(".code, .wide")) return;
      if (!this.press(key)) return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  /** Show the step with a number. */
  show(number) {
    const { steps, dropped } = this.#data;
    this.#at = Math.max(0, Math.min(number, steps.length - 1));
    const step = steps[this.#at];
    const thread = steps.some((other) => other.thread) ? `, thread ${step.thread + 1}` : "";
    const more = dropped ? ` (the last of ${(dropped + steps.length).toLocaleString("en")})` : "";
    const file = step.part ? ` of ${fileOf(this.#data, step.part).file}` : "";
    this.#slider.value = String(this.#at);
    const words = `line ${step.line} ${VERBS[step.event]} ${step.value ?? ""}`.trim();
    this.#event.textContent =
      `Step ${this.#at + 1} of ${steps.length}${more}${thread}, in ${step.function}${file}: ${words}`;
    this.#drawCode(step);
    this.#drawValues(step);
    this.#drawCalls(step);
    this.#printed.parentElement.hidden = !step.printed;
    this.#printed.textContent = step.printed ?? "";
    this.#onStep(step, this.#at);
  }

  #facts() {
    const { rule, case: inputs, objects, expected, actual, why, opens } = this.#data;
    const list = (className, ...rows) =>
      make("dl", { className }, ...rows.filter(([, text]) => text).flatMap(([name, ...words]) =>
        [make("dt", {}, name), make("dd", { className: name }, ...words)]));
    return [
      list("facts", ["rule", ...withCode(rule)], ["call", inputs], ["made", objects.join(", ")],
        ["expected", expected], ["actual", actual]),
      list("opening", [opens === null ? "no steps" : "opens at", why]),
    ];
  }

  #buttons() {
    const buttons = BUTTONS.map(([key, words, sign, word]) => {
      const short = make("span", { className: "short", "aria-hidden": "true" }, make("span", {}, sign), word);
      const button = make("button", { type: "button", "data-key": key, "aria-label": words }, make("span", { className: "long" }, words), short);
      button.addEventListener("click", () => this.press(key));
      return button;
    });
    return make("div", { className: "moves", role: "group", "aria-label": "Steps" }, ...buttons);
  }

  #columns() {
    const { columns, calls } = this.#data;
    const heads = ["call", "emitted", ...columns, "lines", ...(this.#compares ? ["expected"] : [])];
    this.#heads.append(...heads.map((name) => make("th", { scope: "col" }, name)));
    const names = ["name", "before", "after"].map((name) => make("th", { scope: "col" }, name));
    const table = (label, head, body) =>
      make("div", { className: "wide", tabindex: "0", role: "region", "aria-label": label },
        make("table", {}, make("thead", {}, head), body));
    return make("div", { className: "columns" },
      make("section", {}, this.#file, this.#code),
      make("div", {},
        make("section", {}, make("p", { className: "title" }, "Values before and after the line"),
          table("Values before and after the line", make("tr", {}, ...names), this.#values)),
        make("section", {}, make("p", { className: "title" }, "Printed at this step"), this.#printed),
        ...(calls.length ? [make("section", {}, make("p", { className: "title" }, "Calls of the test"),
          table("Calls of the test", this.#heads, this.#calls))] : [])));
  }

  get #compares() {
    return this.#data.calls.some(({ expected }) => expected);
  }

  #drawCode(step) {
    const part = step.part ?? 0;
    if (part !== this.#part) {
      const { file, source, counts } = fileOf(this.#data, part);
      this.#part = part;
      this.#file.textContent = `${file}, with how often each line ran`;
      this.#code.replaceChildren(...source.map((text, index) => {
        const runs = counts[index + 1];
        const number = make("span", { className: "number" }, `${index + 1}${runs ? ` ${runs}x` : ""}`);
        return make("div", {}, number, text);
      }));
    }
    this.#code.querySelector(".here")?.classList.remove("here");
    this.#code.children[step.line - 1]?.classList.add("here");
    this.#scrollToLine();
  }

  #scrollToLine() {
    const line = this.#code.querySelector(".here");
    if (line) this.#code.scrollTop = line.offsetTop - this.#code.clientHeight / 2;
  }

  #valuesAt(number) {
    const { steps } = this.#data;
    const values = new Map();
    const add = (named) => Object.entries(named ?? {}).forEach(([name, text]) =>
      values.set(name, Array.isArray(text) ? text[1] : text));
    for (let n = 0; n < number; n += 1) {
      if (steps[n].frame !== steps[number].frame) continue;
      add(steps[n].values);
      add(steps[n].changes);
    }
    add(steps[number].values);
    return values;
  }

  #drawValues(step) {
    const values = this.#valuesAt(this.#at);
    const changes = step.changes ?? {};
    const names = [...Object.keys(changes), ...[...values.keys()].filter((key) => !(key in changes))];
    this.#values.replaceChildren(...names.map((name) => {
      const [before, after] = changes[name] ?? [values.get(name), ""];
      return row([name, before || "(new)", make("td", { className: "after" }, after)]);
    }));
  }

  #drawCalls(step) {
    const { calls, columns, first_call: first } = this.#data;
    const here = step.call - first;
    const from = Math.max(0, Math.min(here - IN_FULL + 3, calls.length - IN_FULL));
    const shown = calls.slice(from, from + IN_FULL).map((call, place) => {
      const number = from + place;
      const held = columns.map((_, layer) => call.held[layer] ?? "");
      const done = number <= here ? [call.emitted, ...held] : ["", ...held.map(() => "")];
      const last = this.#compares ? [call.expected] : [];
      return row([call.call, ...done, String(call.lines), ...last], number === here ? "here" : "");
    });
    const gap = (number) => (number ? [row([`… ${number} more`])] : []);
    this.#calls.replaceChildren(...gap(from), ...shown, ...gap(calls.length - from - shown.length));
  }
}

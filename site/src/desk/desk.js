// The bench of a lab: editor, runs, hints, predictions, and what is kept. It puts them together.

import { button, make } from "../dom.js";
import { keepOffline } from "../page.js";
import { Interpreters } from "../runs/interpreters.js";
import { Runs } from "../runs/runs.js";
import { Keeping } from "../store/keeping.js";
import { keepReport, lastReport } from "../store/reports.js";
import { isLink, readLink } from "../show/link.js";
import { Show } from "../show/show.js";
import { Autosave } from "./autosave.js";
import { Editor } from "./editor.js";
import { Hints } from "./hints.js";
import { offerPlugin } from "./plugin.js";
import { predictionsNode } from "./predictions.js";
import { Records } from "./records.js";
import { Shelf } from "./shelf.js";

const KEYS = "Escape, then Tab, leaves the editor.";
const LEAVING = "Tab leaves the editor now.";

async function read(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url.pathname}: ${response.status} ${response.statusText}`);
  return response.json();
}

/**
 * Put the bench of a lab into an element.
 *
 * @param {HTMLElement} root with the lab's number in `data-lab`, and `data-base`
 * @param {import("./layout.js").Layout} layout
 * @returns {Promise<Desk>}
 */
export async function openDesk(root, layout) {
  const base = new URL(root.dataset.base, document.baseURI);
  const labs = await read(new URL("labs.json", base));
  const lab = labs.find(({ number }) => number === root.dataset.lab);
  if (!lab) throw new Error(`labs.json has no lab ${root.dataset.lab}`);
  const desk = new Desk(lab, labs, base, layout);
  await desk.fill(root);
  return desk;
}

export class Desk {
  #base;
  #labs;
  #layout;
  #keeping = new Keeping();
  #autosave = new Autosave(this, this.#keeping);
  #records;
  #editor;
  #runs;
  #interpreters;
  #listeners = [];
  #notices = make("div", {
    className: "notices",
    role: "status",
    "aria-label": "Messages",
    tabindex: "-1",
  });
  #keys = make("span", { className: "keys", "aria-live": "polite" }, KEYS);
  #run = button("Run", () => this.run(null), { className: "main" });
  #task = make("select", { "aria-label": "Task" });
  #runTask = button("Run this task", () => this.run(Number(this.#task.value)));
  #stop = button("Stop", () => this.#runs.stop(), { "aria-disabled": "true" });
  #shelf;
  #hints;
  #show;
  /** The line that the report points at, and the code that has it. */
  #fault = null;
  #faulty = "";
  /** Whether a run is about to begin: what it needs is being read. */
  #isAsking = false;
  #isKept = false;
  /** The lab, as labs.json has it. */
  lab;

  constructor(lab, labs, base, layout) {
    this.lab = lab;
    this.#labs = labs;
    this.#base = base;
    this.#layout = layout;
    this.#records = new Records(this.#keeping, lab.name, () => this.#autosave.draw());
    this.#interpreters = new Interpreters(base, (part) => this.#runs.boot(part));
    this.#runs = new Runs(this.#interpreters, {
      goTo: (line) => this.#editor.goTo(line),
      mark: (fault) => this.#mark(fault),
      isCurrent: (code) => code === this.text,
      show: (test) => this.#showSteps(test),
      runTask: (task) => this.run(task),
      showHint: (task) => this.showHint(task),
      pageOf: (number) => new URL(`../labs/${number}/`, this.#base).href,
      onReport: () => {
        if (this.#show.isShown) this.#show.close();
        this.#layout.showSide(true);
        // A new report is read from its beginning, wherever the last one was left.
        this.#runs.box.parentElement.scrollTop = 0;
      },
      onState: (isRunning) => this.#drawState(isRunning),
    });
    this.#show = new Show(this, {
      onShown: (isShown) => this.#drawShow(isShown),
      mark: (step) => (step ? this.#editor.mark({ ...step, isStep: true }) : this.#mark(this.#fault)),
    });
    this.#shelf = new Shelf(this);
  }

  /** Build everything, with what is kept. */
  async fill(root) {
    await this.#keeping.open((number) => this.#autosave.onForeign(number));
    await this.#records.read();
    const text = (await this.#keeping.code(this.lab.number)) ?? this.lab.starter;
    const frame = make("div", "editor");
    this.#task.append(...this.lab.tasks.map(({ number, title }) => new Option(`${number} ${title}`, number)));
    this.#task.value = String(this.#records.own.unfinished?.[0] ?? this.lab.tasks[0].number);
    const predictions = predictionsNode(this.lab, this.#records.own.predictions ?? {}, (answers) =>
      this.#records.remember({ predictions: answers }),
    );
    this.#hints = new Hints(this.lab, this.#records.own, (about, level) =>
      this.#records.remember({ hints: { ...this.#records.own.hints, [about]: level } }),
    );
    // Asked only now: it may have come to the button while all this was loading.
    const hadFocus = root.contains(document.activeElement);
    root.replaceChildren(
      ...[predictions, this.#desk(frame), this.#side()].filter(Boolean),
    );
    this.#editor = new Editor(frame, {
      text,
      label: `Your starter.py of lab ${this.lab.number}. ${KEYS}`,
      onChange: (text) => this.#onChange(text),
      onLeaving: (isLeaving) => (this.#keys.textContent = isLeaving ? LEAVING : KEYS),
      keys: [
        { key: "Mod-Enter", run: () => this.run(null) || true },
        { key: "Mod-Shift-Enter", run: () => this.run(Number(this.#task.value)) || true },
      ],
    });
    addEventListener("beforeunload", (event) => {
      if (this.#keeping.fault && this.text !== this.lab.starter) event.preventDefault();
    });
    this.#autosave.draw();
    this.#shelf.draw();
    this.#shelf.offerOffline();
    if (hadFocus) this.focus();
    const left = this.#keeping.left(this.lab.number);
    if (left !== null) this.text = left;
    const last = await lastReport(this.lab.number);
    if (last && !this.#runs.isRunning) {
      this.#runs.restore(last);
      offerPlugin(this, this.#runs.box);
    }
    await this.openLink();
    addEventListener("hashchange", () => this.openLink());
  }

  /** Show the step that the address names, if it names one; the reader's code stays as it is. */
  async openLink() {
    if (!isLink(location.hash)) return;
    const link = await readLink(location.hash);
    if (!link) this.say("The link to a step is damaged: ask for it again, and copy it as a whole.");
    else if (link.lab !== this.lab.number) this.say(`The link to a step belongs to lab ${link.lab}: open that lab's page with it.`);
    else this.#show.openLink(link);
  }

  focus() {
    this.#editor.focus();
  }

  // What the strip and the shelf need.

  get text() {
    return this.#editor.text;
  }

  set text(text) {
    this.#editor.text = text;
  }

  /** The folder of the bench's files, a URL. */
  get base() {
    return this.#base;
  }

  /** Whether some run reached all points. */
  get isSolved() {
    return Boolean(this.#records.own.solved);
  }

  /** What is known of all labs, as in `.labkit/progress.json`. */
  get progress() {
    return this.#records.all;
  }

  /** The reader's code of every lab that has some, by number; other tabs may have added to it. */
  async sources() {
    await this.#records.read();
    const code = this.#known(await this.#keeping.allCode());
    return { ...code, [this.lab.number]: this.text };
  }

  /** The part of some code that is of labs that this course has: an export may be of another edition. */
  #known(code) {
    return Object.fromEntries(this.#labs.flatMap(({ number }) => (number in code ? [[number, code[number]]] : [])));
  }

  /** Hear of every change of the code. */
  onCode(listener) {
    this.#listeners.push(listener);
  }

  /** Call a verb in a fresh Python. */
  call(verb, argument, options) {
    return this.#interpreters.call(verb, [argument], options);
  }

  /** Begin to load Python. */
  prepare() {
    this.#interpreters
      .prepare()
      .then(() => this.#keepBench())
      .catch((error) => {
        if (error.kind === "broken") this.#runs.broken(error, () => this.prepare());
      });
  }

  /**
   * Take over code, of this lab or others.
   *
   * @param {Record<string, string>} files by the lab's number
   * @returns {Promise<Record<string, string | null>>} what was there before
   */
  async replace(files) {
    const before = {};
    const kept = await this.sources();
    for (const [number, text] of Object.entries(files)) {
      before[number] = kept[number] ?? null;
      if (number === this.lab.number) this.text = text;
      else await this.#keeping.saveCode(number, text ?? this.#starter(number), true);
    }
    await this.save();
    return before;
  }

  /** All that the browser keeps of this reader: code and progress. */
  async everything() {
    await this.save();
    return { code: await this.#keeping.allCode(), progress: await this.#keeping.progress() };
  }

  /**
   * Take over what `everything` returned.
   *
   * @returns {Promise<object>} what was there before, for the same labs
   */
  async restore({ code, progress }) {
    const known = Object.fromEntries(Object.keys(progress).map((name) => [name, this.#records.all[name] ?? {}]));
    const before = { code: await this.replace(this.#known(code)), progress: known };
    await this.#records.keep(progress);
    this.#hints.draw(this.#records.own);
    this.#shelf.draw();
    return before;
  }

  /** Show a message with buttons; the next one takes its place. */
  say(text, ...buttons) {
    const lines = text ? [make("p", "notice", text, ...buttons.flatMap((one) => [" ", one]))] : [];
    // One of its buttons may have asked for this.
    const hadFocus = this.#notices.contains(document.activeElement);
    this.#notices.replaceChildren(...lines);
    if (hadFocus) this.#notices.focus({ preventScroll: true });
  }

  /** Store the code; resolves when the last change is stored, or cannot be. */
  save() {
    return this.#autosave.save();
  }

  /**
   * Run the lab's tests on the code.
   *
   * @param {number | null} task or null for all
   */
  async run(task) {
    if (this.#isAsking || this.#runs.isRunning) return;
    if (task !== null) this.#task.value = String(task);
    this.prepare();
    const files = await this.#sourcesToRun();
    const code = files[this.lab.number];
    const progress = this.#records.all;
    const answer = await this.#runs.run({ lab: this.lab.number, task, files, progress });
    if (answer) {
      offerPlugin(this, this.#runs.box);
      await this.#records.keepRun(answer.progress, progress);
      await keepReport(this.lab.number, { report: answer, printed: this.#runs.printed, code });
    }
    const open = answer?.tasks.find(({ status }) => status === "FAIL");
    if (open && task === null) this.#task.value = String(open.number);
    this.#hints.draw(this.#records.own);
    this.#shelf.draw();
  }

  /** The sources of a run; a second run does not begin in the meantime. */
  async #sourcesToRun() {
    this.#isAsking = true;
    try {
      await this.save();
      return await this.sources();
    } finally {
      this.#isAsking = false;
    }
  }

  /** Show the hints of a task; null: of the task that is chosen, or of a hunt's first survivor. */
  showHint(task) {
    if (this.#show.isShown) this.#show.close();
    this.#layout.showSide(true);
    this.#hints.show(task, Number(this.#task.value));
  }

  /** All files of the bench are kept once Python is here. */
  #keepBench() {
    if (this.#isKept) return;
    this.#isKept = true;
    keepOffline("bench");
  }

  #starter(number) {
    return this.#labs.find((lab) => lab.number === number)?.starter ?? "";
  }

  #onChange(text) {
    this.#autosave.change(text);
    this.prepare();
    for (const listener of this.#listeners) listener(text);
  }

  #drawState(isRunning) {
    // Not `disabled`: that would take the focus from it.
    this.#stop.setAttribute("aria-disabled", String(!isRunning));
    for (const one of [this.#run, this.#runTask]) one.setAttribute("aria-disabled", String(isRunning));
  }

  /** Mark the line that the report points at; null: none. */
  #mark(fault) {
    if (fault !== this.#fault) [this.#fault, this.#faulty] = [fault, this.text];
    this.#editor.mark(fault && this.#faulty === this.text ? fault : null);
  }

  async #showSteps(test) {
    this.prepare();
    await this.save();
    await this.#show.open(test);
  }

  /** The steps take the place of the report and the hints. */
  #drawShow(isShown) {
    this.#runs.cover(isShown);
    this.#hints.box.hidden = isShown;
    if (isShown) this.#layout.showSide(true);
  }

  /** What is shown beside the code in place of the text, or below it. */
  #side() {
    const close = button("Close", () => this.#closeSide(), { className: "quiet" });
    const top = make("div", "close", make("strong", { "aria-hidden": "true" }, "Report and hints"), close);
    const label = { className: "side", role: "region", "aria-label": "Report and hints", tabindex: "0" };
    const none = make("p", "none", "No report yet: Run tests your code.");
    return make("div", label, top, this.#show.box, this.#runs.box, none, this.#hints.box);
  }

  #closeSide() {
    this.#layout.showSide(false);
    this.#layout.reportButton.focus();
  }

  #desk(frame) {
    this.#run.append(make("kbd", { "aria-hidden": "true" }, "Ctrl+Enter"));
    this.#run.setAttribute("aria-keyshortcuts", "Control+Enter");
    const task = make("span", "group", this.#runTask, this.#task);
    const { reportButton, textButton } = this.#layout;
    this.#runs.head.append(make("span", "views", reportButton, textButton));
    const bar = make("div", "bar", this.#run, task, this.#stop);
    const top = make("div", "top", bar, this.#runs.head);
    const foot = make("div", "foot", this.#keys, this.#autosave.label);
    return make(
      "div",
      "desk",
      top,
      frame,
      foot,
      this.#shelf.bar,
      this.#notices,
      this.#shelf.box,
    );
  }
}

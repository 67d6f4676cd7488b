// The bench of a lab: editor, runs, hints, predictions, and what is kept. It puts them together.

import { button, make } from "./dom.js";
import { Editor } from "./editor.js";
import { Hints } from "./hints.js";
import { Interpreters } from "./interpreter.js";
import { ConflictError, Keeping } from "./keeping.js";
import { keepOffline } from "./page.js";
import { predictionsNode } from "./predictions.js";
import { drawProgress } from "./progress.js";
import { keepReport, lastReport } from "./reports.js";
import { Runs } from "./runs.js";
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
  #editor;
  #runs;
  #interpreters;
  #progress = {};
  /** Whether the store lacks the last change. */
  #isChanged = false;
  /** Whether the change is that of another tab, which has stored it. */
  #isTaking = false;
  #saving = null;
  #listeners = [];
  #notices = make("div", {
    className: "notices",
    role: "status",
    "aria-label": "Messages",
    tabindex: "-1",
  });
  #keys = make("span", { className: "keys", "aria-live": "polite" }, KEYS);
  #kept = make("span", { className: "kept" });
  #run = button("Run", () => this.run(null), { className: "main" });
  #task = make("select", { "aria-label": "Task" });
  #runTask = button("Run this task", () => this.run(Number(this.#task.value)));
  #stop = button("Stop", () => this.#runs.stop(), { "aria-disabled": "true" });
  #shelf;
  #hints;
  #isKept = false;
  /** The lab, as labs.json has it. */
  lab;

  constructor(lab, labs, base, layout) {
    this.lab = lab;
    this.#labs = labs;
    this.#base = base;
    this.#layout = layout;
    this.#interpreters = new Interpreters(base, (part) => this.#runs.boot(part));
    this.#runs = new Runs(this.#interpreters, {
      goTo: (line) => this.#editor.goTo(line),
      mark: (fault) => this.#editor.mark(fault),
      runTask: (task) => this.run(task),
      showHint: (task) => this.#showHint(task),
      pageOf: (number) => new URL(`../labs/${number}/`, this.#base).href,
      onReport: () => this.#layout.showSide(true),
      onState: (isRunning) => this.#drawState(isRunning),
    });
    this.#shelf = new Shelf(this);
  }

  /** Build everything, with what is kept. */
  async fill(root) {
    await this.#keeping.open((number) => this.#onForeign(number));
    this.#progress = await this.#keeping.progress();
    const text = (await this.#keeping.code(this.lab.number)) ?? this.lab.starter;
    const frame = make("div", "editor");
    this.#task.append(...this.lab.tasks.map(({ number, title }) => new Option(`${number} ${title}`, number)));
    this.#task.value = String(this.#record().unfinished?.[0] ?? this.lab.tasks[0].number);
    const predictions = predictionsNode(this.lab, this.#record().predictions ?? {}, (answers) =>
      this.#remember({ predictions: answers }),
    );
    this.#hints = new Hints(this.lab, this.#record(), (about, level) =>
      this.#remember({ hints: { ...this.#record().hints, [about]: level } }),
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
    this.#drawKept();
    this.#shelf.draw();
    this.#shelf.offerOffline();
    if (hadFocus) this.focus();
    const left = this.#keeping.left(this.lab.number);
    if (left !== null) this.text = left;
    const last = await lastReport(this.lab.number);
    if (last && !this.#runs.isRunning) this.#runs.restore(last, last.code === this.text);
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
    return Boolean(this.#record().solved);
  }

  /** What is known of all labs, as in `.labkit/progress.json`. */
  get progress() {
    return this.#progress;
  }

  /** The reader's code of every lab that has some, by number; other tabs may have added to it. */
  async sources() {
    this.#progress = await this.#keeping.progress();
    const code = await this.#keeping.allCode();
    return { ...code, [this.lab.number]: this.text };
  }

  /** Hear of every change of the code. */
  onCode(listener) {
    this.#listeners.push(listener);
  }

  /** Call a verb in a fresh Python. */
  call(verb, ...argument) {
    return this.#interpreters.call(verb, argument);
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
    const known = Object.fromEntries(Object.keys(progress).map((name) => [name, this.#progress[name] ?? {}]));
    const before = { code: await this.replace(code), progress: known };
    await this.#keepProgress(progress);
    this.#hints.draw(this.#record());
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
    if (this.#isChanged) this.#saving ??= this.#store();
    return this.#saving;
  }

  async #store() {
    this.#kept.ariaBusy = "true";
    try {
      do {
        this.#isChanged = false;
        await this.#keeping.saveCode(this.lab.number, this.text);
        this.#drawKept();
      } while (this.#isChanged && !this.#keeping.fault);
      this.#isChanged ||= Boolean(this.#keeping.fault);
    } catch (error) {
      this.#isChanged = true;
      if (!(error instanceof ConflictError)) throw error;
      this.#conflict(error.theirs);
    } finally {
      this.#saving = null;
      this.#kept.ariaBusy = null;
    }
  }

  /**
   * Run the lab's tests on the code.
   *
   * @param {number | null} task or null for all
   */
  async run(task) {
    if (this.#runs.isRunning) return;
    if (task !== null) this.#task.value = String(task);
    this.prepare();
    await this.save();
    const files = await this.sources();
    const code = files[this.lab.number];
    const asked = { lab: this.lab.number, task, files, progress: this.#progress };
    const answer = await this.#runs.run(asked);
    if (answer) {
      await this.#keepProgress(this.#withRead(answer.progress));
      await keepReport(this.lab.number, { report: answer, printed: this.#runs.printed, code });
    }
    const open = answer?.tasks.find(({ status }) => status === "FAIL");
    if (open && task === null) this.#task.value = String(open.number);
    this.#hints.draw(this.#record());
    this.#shelf.draw();
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

  #record() {
    return this.#progress[this.lab.name] ?? {};
  }

  async #remember(change) {
    // Another tab may have added to the record of this lab since.
    this.#progress = await this.#keeping.progress();
    await this.#keepProgress({ [this.lab.name]: { ...this.#record(), ...change } });
  }

  /** The records after a run, with the hints and predictions that came in while tests ran. */
  #withRead(records) {
    const name = this.lab.name;
    const { hints, predictions } = this.#record();
    const mine = { ...records[name] };
    if (hints) mine.hints = hints;
    if (predictions) mine.predictions = predictions;
    return { ...records, [name]: mine };
  }

  /** Keep the records that changed. */
  async #keepProgress(records) {
    const changed = Object.entries(records).filter(
      ([name, record]) => JSON.stringify(record) !== JSON.stringify(this.#progress[name]),
    );
    Object.assign(this.#progress, Object.fromEntries(changed));
    await this.#keeping.saveProgress(Object.fromEntries(changed));
    drawProgress(this.#progress);
    this.#drawKept();
  }

  #onChange(text) {
    if (!this.#isTaking) {
      this.#isChanged = true;
      this.#keeping.note(this.lab.number, text);
      this.save();
    }
    this.prepare();
    for (const listener of this.#listeners) listener(text);
  }

  async #onForeign(number) {
    if (number !== this.lab.number) return;
    if (this.#isChanged || this.#saving) return; // Saving will tell of the conflict.
    const theirs = await this.#keeping.code(number);
    if (theirs === null || theirs === this.text) return;
    this.#take(theirs);
    this.say("Another tab changed this lab; its version is now shown here. Undo restores yours.");
  }

  /** Show code that is stored. */
  #take(text) {
    this.#isTaking = true;
    this.text = text;
    this.#isTaking = this.#isChanged = false;
    this.#keeping.forget(this.lab.number);
    this.#drawKept();
  }

  #conflict(theirs) {
    this.#kept.textContent = "Not kept yet";
    this.say(
      "This lab was changed in another tab, so yours is not kept yet. Which version do you keep?",
      button("This one", async () => {
        // Its version has been seen now.
        await this.#keeping.code(this.lab.number);
        await this.save();
        this.say("");
      }),
      button("The other tab's", async () => {
        this.#take((await this.#keeping.code(this.lab.number)) ?? theirs);
        this.say("This is the other tab's version. Undo restores yours.");
      }),
    );
  }

  #drawKept() {
    const { fault } = this.#keeping;
    this.#kept.textContent = fault
      ? `Not kept: ${fault}. Download your code before you leave.`
      : "Kept in this browser";
    this.#kept.classList.toggle("fault", Boolean(fault));
  }

  #drawState(isRunning) {
    // Not `disabled`: that would take the focus from it.
    this.#stop.setAttribute("aria-disabled", String(!isRunning));
    for (const one of [this.#run, this.#runTask]) one.setAttribute("aria-disabled", String(isRunning));
  }

  #showHint(task) {
    this.#layout.showSide(true);
    this.#hints.show(task);
  }

  /** What is shown beside the code in place of the text, or below it. */
  #side() {
    const close = button("Close", () => this.#closeSide(), { className: "quiet close" });
    const label = { className: "side", role: "region", "aria-label": "Report and hints", tabindex: "0" };
    return make("div", label, close, this.#runs.box, this.#hints.box);
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
    const foot = make("div", "foot", this.#keys, this.#kept);
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

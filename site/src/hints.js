// Hints: a few levels for each task, one at a time. How far somebody has read is kept. A hunt has
// hints of its own for each wrong implementation that survives.

import { button, make, withCode } from "./dom.js";
import { prose } from "./prose.js";

/** What hints are about, with its levels: each makes a list of nodes. */
function subjectsOf(lab, alive, read) {
  return lab.tasks.flatMap(({ number, title }) => {
    const hints = lab.hints.filter((hint) => hint.task === number);
    const levels = hints.map(taskLevel);
    const task = { about: String(number), task: number, title: `${number} ${title}`, levels };
    const living = lab.pool.filter((code) => code.task === number && alive.includes(code.name));
    const left = living.find((code) => (read[code.name] ?? 0) < code.hints_html.length);
    const code = left ?? living[0];
    return [...(code ? [livingSubject(code)] : []), ...(levels.length ? [task] : [])];
  });
}

function livingSubject({ name, task, symptom, hints_html: texts }) {
  const levels = texts.map((html) => () => [
    make("p", "symptom", ...withCode(symptom)),
    ...prose(html),
  ]);
  return { about: name, task, title: `${task} ${name}`, levels, survives: true };
}

function taskLevel(hint) {
  return () => [make("p", "symptom", ...prose(hint.symptom_html)), ...prose(hint.text_html)];
}

/** One subject: the levels that were read, and a button for the next one. */
class Subject {
  #list = make("ol", { "aria-live": "polite" });
  #more = button("", () => this.next());
  #level = 0;
  #subject;
  #onRead;
  node;

  constructor(subject, read, onRead) {
    this.#subject = subject;
    this.#onRead = onRead;
    this.node = make("section", "task", make("h4", "", subject.title), this.#list, this.#more);
    while (this.#level < Math.min(read, subject.levels.length)) this.#add();
    this.#draw();
  }

  get task() {
    return this.#subject.task;
  }

  get survives() {
    return this.#subject.survives ?? false;
  }

  next() {
    if (this.#level === this.#subject.levels.length) return;
    const item = this.#add();
    this.#draw();
    this.#onRead(this.#subject.about, this.#level);
    if (this.#more.hidden) item.focus();
  }

  focus() {
    (this.#more.hidden ? this.#list.lastElementChild : this.#more).focus();
  }

  #add() {
    const item = make("li", { tabindex: "-1" }, ...this.#subject.levels[this.#level]());
    this.#list.append(item);
    this.#level += 1;
    return item;
  }

  #draw() {
    const { title, levels } = this.#subject;
    this.#more.hidden = this.#level === levels.length;
    this.#more.textContent = this.#level
      ? `Hint ${this.#level + 1} of ${levels.length}`
      : `A first hint of ${levels.length}`;
    this.#more.setAttribute("aria-label", `${this.#more.textContent} for ${title}`);
  }
}

export class Hints {
  #lab;
  #onRead;
  #subjects = [];
  #list = make("div");
  box = make(
    "details",
    "fold hints",
    make("summary", "", "Hints", make("small", "", " one at a time, mildest first")),
    this.#list,
  );

  /**
   * @param {object} lab of labs.json
   * @param {{hints?: Record<string, number>, alive?: string[]}} record what is known of the lab
   * @param {(about: string, level: number) => void} onRead
   */
  constructor(lab, record, onRead) {
    this.#lab = lab;
    this.#onRead = onRead;
    this.#fill(record);
  }

  /** Show what a run has changed: which wrong implementations survive. */
  draw(record) {
    if (this.#lab.pool.length && !this.box.contains(document.activeElement)) this.#fill(record);
  }

  /** Open the hints of a task; without one, those about the first survivor of a hunt. */
  show(task) {
    this.box.open = true;
    const fits = ({ task: own, survives }) => (task === null ? survives : own === task);
    const subject = this.#subjects.find(fits) ?? this.#subjects[0];
    subject?.node.scrollIntoView({ block: "nearest" });
    subject?.focus();
  }

  #fill({ hints = {}, alive = [] }) {
    this.#subjects = subjectsOf(this.#lab, alive, hints).map(
      (subject) => new Subject(subject, hints[subject.about] ?? 0, this.#onRead),
    );
    this.#list.replaceChildren(...this.#subjects.map(({ node }) => node));
  }
}

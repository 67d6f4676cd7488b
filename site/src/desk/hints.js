// Hints: a few levels for each task, one at a time. How far somebody has read is kept. A hunt has
// hints of its own for each wrong implementation that survives. After a diagnosis, its own hint is
// first, and then the hints of the same symptom.

import { button, make, withCode } from "../dom.js";
import { prose } from "../prose.js";

/** What hints are about, with its levels: each makes a list of nodes. */
export function subjectsOf(lab, { alive = [], hints: read = {}, looks_like: diagnosis = null }) {
  return lab.tasks.flatMap(({ number, title }) => {
    const hints = lab.hints.filter((hint) => hint.task === number);
    const levels = hints.map(taskLevel);
    const task = { about: String(number), task: number, title: `${number} ${title}`, levels };
    const living = lab.pool.filter((code) => code.task === number && alive.includes(code.name));
    const left = living.find((code) => (read[code.name] ?? 0) < code.hints_html.length);
    const code = left ?? living[0];
    return [
      ...(code ? [livingSubject(code)] : []),
      ...(diagnosis?.task === number ? [diagnosisSubject(diagnosis, lab, title)] : []),
      ...(levels.length ? [task] : []),
    ];
  });
}

function livingSubject({ name, task, symptom, hints_html: texts }) {
  const levels = texts.map((html) => () => [
    make("p", "symptom", ...withCode(symptom)),
    ...prose(html),
  ]);
  return { about: name, task, title: `${task} ${name}`, levels, survives: true };
}

function diagnosisSubject({ name, task, symptom, hint }, lab, title) {
  const own = () => [make("p", "symptom", ...withCode(symptom)), make("p", "", ...withCode(hint))];
  const same = lab.hints.filter((each) => each.looks_like.includes(name)).map(taskLevel);
  const about = { about: name, task, title: `${task} ${title}, from the last report` };
  return { ...about, levels: [own, ...same] };
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
   * @param {{hints?: Record<string, number>, alive?: string[], looks_like?: object | null}} record
   *   what is known of the lab
   * @param {(about: string, level: number) => void} onRead
   */
  constructor(lab, record, onRead) {
    this.#lab = lab;
    this.#onRead = onRead;
    this.#fill(record);
  }

  /** Show what a run has changed: which wrong implementations survive, or the diagnosis. */
  draw(record) {
    if (!this.box.contains(document.activeElement)) this.#fill(record);
  }

  /** Open the hints of a task; for null, those about the first survivor of a hunt, or of `other`. */
  show(task, other = null) {
    this.box.open = true;
    const fits = ({ task: own, survives }) => (task === null ? survives : own === task);
    const all = this.#subjects;
    const subject = all.find(fits) ?? all.find(({ task: own }) => own === other) ?? all[0];
    subject?.node.scrollIntoView({ block: "nearest" });
    subject?.focus();
  }

  #fill(record) {
    this.#subjects = subjectsOf(this.#lab, record).map(
      (subject) => new Subject(subject, record.hints?.[subject.about] ?? 0, this.#onRead),
    );
    this.#list.replaceChildren(...this.#subjects.map(({ node }) => node));
  }
}

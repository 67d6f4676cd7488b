// Hints: three levels for each task, one at a time. How far somebody has read is kept.

import { button, make } from "./dom.js";
import { prose } from "./prose.js";

/**
 * The hints of a lab.
 *
 * @param {object} lab of labs.json
 * @param {Record<string, number>} read task -> level read so far
 * @param {(task: number, level: number) => void} onRead
 */
export function hintsNode(lab, read, onRead) {
  const tasks = lab.tasks.map((task) => {
    const hints = lab.hints.filter((hint) => hint.task === task.number);
    return hints.length ? taskHints(task, hints, read[task.number] ?? 0, onRead) : null;
  });
  const own = tasks.filter(Boolean);
  if (!own.length) return null;
  const title = make("summary", "", "Hints", make("small", "", " three for each task, mildest first"));
  return make("details", "fold hints", title, ...own);
}

function taskHints(task, hints, read, onRead) {
  const list = make("ol", { "aria-live": "polite" });
  const more = button("", () => show());
  let level = 0;

  function draw() {
    more.hidden = level >= hints.length;
    more.textContent = level ? `Hint ${level + 1} of ${hints.length}` : "A first hint";
    more.setAttribute("aria-label", `${more.textContent} for task ${task.number}`);
  }
  function add() {
    const { symptom, text_html: html } = hints[level];
    const item = make("li", { tabindex: "-1" }, make("p", "symptom", symptom), ...prose(html));
    list.append(item);
    level += 1;
    return item;
  }
  function show() {
    const item = add();
    draw();
    onRead(task.number, level);
    if (more.hidden) item.focus();
  }

  while (level < Math.min(read, hints.length)) add();
  draw();
  return make("section", "task", make("h4", "", `${task.number} ${task.title}`), list, more);
}

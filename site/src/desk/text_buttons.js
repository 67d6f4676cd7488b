// In a lab's text, a command of a checkout that the bench does as well is a button.

import { button } from "../dom.js";
import { partsOf } from "../runs/commands.js";

/**
 * Put buttons into a text: `make lab N=03 T=2` runs task 2, and `make hint N=03` shows hints.
 *
 * @param {Element} text
 * @param {string} lab the number of its lab
 * @param {object} acts
 * @param {(task: number | null) => void} acts.run
 * @param {(task: number | null) => void} acts.showHint
 */
export function putButtons(text, lab, { run, showHint }) {
  for (const code of text.querySelectorAll(":not(pre) > code")) {
    const [part, ...more] = partsOf(code.textContent, lab);
    if (more.length || !["run", "hint"].includes(part?.kind)) continue;
    const { kind, task } = part;
    const [name, act] =
      kind === "hint" ? ["Hints", showHint] : [task === null ? "Run" : `Run task ${task}`, run];
    code.before(button(name, () => act(task), { className: "in-text" }));
    // Paper has no buttons.
    code.classList.add("in-print");
  }
}

// Runs of a lab: asks a fresh Python, says how far it is, and draws its report or why there is none.

import { button, count, make } from "./dom.js";
import { reportNodes, summary } from "./report.js";

const STOPPED = "Stopped. Nothing was graded.";
const KEPT = "Your code is kept, and a new Python is being started.";

export class Runs {
  #interpreters;
  #acts;
  #isRunning = false;
  #tests = 0;
  #printed = "";
  #status = make("p", { className: "status", role: "status" });
  #bar = make("progress", { className: "running", "aria-label": "Progress", hidden: true });
  #box = make("section", { className: "report", "aria-label": "Report", tabindex: "-1", hidden: true });
  /** What is drawn: the line that tells, and the report. */
  head = make("div", "telling", this.#status, this.#bar);
  box = this.#box;

  /**
   * @param {import("./interpreter.js").Interpreters} interpreters
   * @param {object} acts
   * @param {(line: number) => void} acts.goTo
   * @param {(task: number | null) => void} acts.runTask
   * @param {(isRunning: boolean) => void} acts.onState
   */
  constructor(interpreters, acts) {
    this.#interpreters = interpreters;
    this.#acts = acts;
  }

  get isRunning() {
    return this.#isRunning;
  }

  /** Say how far Python is with its start. */
  boot({ what, done, total }) {
    if (done === total && !this.#isRunning) {
      this.#tell("Python is ready.");
      this.#bar.hidden = true;
      return;
    }
    this.#bar.hidden = false;
    this.#bar.max = total;
    this.#bar.value = done;
    this.#tell(`${what} …`);
  }

  /** Say that Python cannot be loaded. */
  broken(error, again) {
    this.#bar.hidden = true;
    this.#draw(...stoppedNodes(error.message, this.#printed), button("Try again", again));
    this.#tell("Python could not be loaded.");
  }

  /**
   * Run tests.
   *
   * @param {object} asked what `labkit.browser.verbs.run` takes
   * @returns {Promise<object | null>} its answer; null if there is none
   */
  async run(asked) {
    this.#begin();
    try {
      const answer = await this.#interpreters.call("run", [asked], (event) => this.#hear(event));
      const report = answer.report ?? answer;
      this.#draw(...reportNodes(report, this.#acts), ...printedNodes(this.#printed));
      this.#tell(summary(report));
      return answer;
    } catch (error) {
      if (error.kind === undefined) throw error;
      this.#fail(error, asked.task);
      return null;
    } finally {
      this.#end();
    }
  }

  stop() {
    this.#interpreters.stop();
  }

  /** Bring the report into view and go there. */
  focus() {
    this.#box.focus();
  }

  #begin() {
    this.#isRunning = true;
    this.#tests = 0;
    this.#printed = "";
    this.#bar.hidden = false;
    this.#bar.removeAttribute("value");
    this.#box.setAttribute("aria-busy", "true");
    this.#tell("Starting …");
    this.#acts.onState(true);
  }

  #end() {
    this.#isRunning = false;
    this.#bar.hidden = true;
    this.#box.removeAttribute("aria-busy");
    this.#acts.onState(false);
  }

  #hear(event) {
    if (event.event === "print") {
      this.#printed += event.text;
    } else if (event.event === "test") {
      this.#tests += 1;
      this.#bar.removeAttribute("value");
      // Not by the live region: nobody wants each test read out.
      this.#status.dataset.now = `${count(this.#tests, "test")} so far`;
    } else if (event.event === "boot") {
      this.boot(event);
    }
  }

  #fail(error, task) {
    if (error.kind === "broken") {
      this.broken(error, () => this.#acts.runTask(task));
      return;
    }
    if (error.kind === "stopped") {
      this.#tell(STOPPED);
      return;
    }
    const isGone = error.kind === "died" || error.kind === "overdue";
    this.#draw(...stoppedNodes(error.message, isGone ? KEPT : ""), ...printedNodes(this.#printed));
    this.#tell(isGone ? "The run was stopped." : "The run failed.");
  }

  #draw(...nodes) {
    this.#box.replaceChildren(make("h3", "", "Report"), ...nodes);
    this.#box.hidden = false;
  }

  #tell(text) {
    delete this.#status.dataset.now;
    // Screen readers announce every change, so the text is set only if it differs.
    if (this.#status.textContent !== text) this.#status.textContent = text;
  }
}

function stoppedNodes(message, more) {
  const words = make("p", "", message);
  return [make("div", { className: "stopped", role: "alert" }, words, more && make("p", "", more))];
}

function printedNodes(text) {
  if (!text) return [];
  const box = make("pre", { tabindex: "0", "aria-label": "Printed" }, text);
  return [make("details", { className: "more", open: true }, make("summary", "", "Printed"), box)];
}

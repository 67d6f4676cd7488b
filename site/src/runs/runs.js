// Runs of a lab: asks a fresh Python, says how far it is, and draws its report or why there is none.

import { button, count, make } from "../dom.js";
import { faultOf, noReportNodes, reportNodes, summary } from "./report.js";

/** A test that takes longer is said to run. */
const SLOW_SECONDS = 2;
const STOPPED = "Stopped. Nothing was graded.";
const MISTAKE = "This is an error in the course, not in your code. Your code is kept.";
const KEPT = "Your code is kept, and a new Python is being started.";

export class Runs {
  #interpreters;
  #acts;
  /** What stops the run; null while nothing runs. */
  #stopper = null;
  /** Whether tests have begun: until then the start of Python is told. */
  #hasBegun = false;
  /** Whether it is drawn that Python could not be loaded. */
  #isBroken = false;
  #tests = 0;
  /** When the test that runs began, and when it is ended at the latest, in seconds; and a timer. */
  #test = null;
  #clock = null;
  #printed = [];
  #status = make("p", {
    className: "status",
    role: "status",
    "aria-label": "Score",
    tabindex: "-1",
  });
  #bar = make("progress", { className: "running", "aria-label": "Progress", hidden: true });
  box = make("section", { className: "report", "aria-label": "Report", tabindex: "-1", hidden: true });
  /** The line that tells, above the report. */
  head = make("div", "telling", this.#status, this.#bar);

  /**
   * @param {import("./interpreters.js").Interpreters} interpreters
   * @param {object} acts
   * @param {(line: number) => void} acts.goTo
   * @param {(fault: {line: number, words: string} | null) => void} acts.mark
   * @param {(code: string) => boolean} acts.isCurrent whether the editor has this code
   * @param {(task: number | null) => void} acts.runTask
   * @param {() => void} acts.onReport there is a report, or what is in its place
   * @param {(isRunning: boolean) => void} acts.onState
   */
  constructor(interpreters, acts) {
    this.#interpreters = interpreters;
    this.#acts = acts;
  }

  get isRunning() {
    return this.#stopper !== null;
  }

  /** Say how far Python is with its start, unless it is the next one's behind a report. */
  boot({ what, done, total }) {
    if (this.isRunning ? this.#hasBegun : !this.box.hidden && !this.#isBroken) return;
    // Nor behind what was just said of a run that was stopped.
    if (this.#status.textContent === STOPPED) return;
    // Each part of the start has an end of its own.
    const isReady = what === "Ready";
    if (isReady && this.#isBroken) this.#hideBroken();
    this.#bar.hidden = isReady && !this.isRunning;
    this.#bar.max = total;
    this.#bar.value = done;
    this.#tell(isReady && !this.isRunning ? "Python is ready." : `${what} …`);
  }

  /** Say that Python cannot be loaded; a run that waited for it says so itself. */
  broken(error, again) {
    if (!this.isRunning) this.#drawBroken(error, again);
  }

  #drawBroken(error, again) {
    this.#bar.hidden = true;
    this.#draw(...noReportNodes(error.message, "", []), button("Try again", again));
    this.#acts.onReport();
    this.#isBroken = true;
    this.#tell("Python could not be loaded.");
  }

  /** Take away what tells that Python could not be loaded; its button may have the focus. */
  #hideBroken() {
    const hadFocus = this.box.contains(document.activeElement);
    this.#isBroken = false;
    this.box.hidden = true;
    if (hadFocus) this.#status.focus({ preventScroll: true });
  }

  /**
   * Run tests.
   *
   * @param {object} asked what `labkit.browser.verbs.run` takes
   * @returns {Promise<object | null>} its answer; null if there is none
   */
  async run(asked) {
    this.#begin();
    const hear = (event) => this.#hear(event);
    try {
      const { signal } = this.#stopper;
      const answer = await this.#interpreters.call("run", [asked], { hear, signal });
      this.#show(answer, this.#printed, asked.files[asked.lab]);
      this.#acts.onReport();
      return answer;
    } catch (error) {
      if (error.kind === undefined) throw error;
      this.#fail(error, asked.task);
      return null;
    } finally {
      this.#end();
    }
  }

  /** The texts that the tests of the last run printed. */
  get printed() {
    return this.#printed;
  }

  /**
   * Show the report of an earlier run.
   *
   * @param {import("../store/reports.js").LastReport} last
   */
  restore({ report, printed, code }) {
    this.#show(report, printed, code);
  }

  /** Show the report on some code; the reader may have changed the code since. */
  #show(report, printed, code) {
    const isCurrent = this.#acts.isCurrent(code);
    this.#draw(...reportNodes(report, printed, this.#acts));
    this.#tell(`${isCurrent ? "" : "Before your last change: "}${summary(report)}`);
    // The line of a fault may be another one by now.
    this.#acts.mark(isCurrent ? faultOf(report) : null);
  }

  /** Hide the report behind the steps of a failing test, or show it again. */
  cover(isCovered) {
    this.box.classList.toggle("covered", isCovered);
    if (!isCovered) this.box.focus({ preventScroll: true });
  }

  stop() {
    this.#stopper?.abort();
  }

  #begin() {
    this.#stopper = new AbortController();
    this.#hasBegun = false;
    this.#tests = 0;
    this.#test = null;
    this.#clock = setInterval(() => this.#hasBegun && this.#drawNow(), 1000);
    this.#printed = [];
    this.#bar.hidden = false;
    this.#bar.removeAttribute("value");
    this.box.setAttribute("aria-busy", "true");
    this.#tell("Starting …");
    this.#acts.onState(true);
  }

  #end() {
    this.#stopper = null;
    clearInterval(this.#clock);
    this.#bar.hidden = true;
    this.box.removeAttribute("aria-busy");
    this.#acts.onState(false);
  }

  #hear(event) {
    if (event.event === "clock") {
      const now = performance.now() / 1000;
      this.#test = event.seconds && { began: this.#test?.began ?? now, ends: now + event.seconds };
      return;
    }
    if (!this.#hasBegun) {
      this.#hasBegun = true;
      this.#bar.removeAttribute("value");
      this.#tell("Running the tests …");
    }
    if (event.event === "print") {
      this.#printed.push(event);
    } else if (event.event === "test") {
      this.#tests += 1;
      this.#drawNow();
    }
  }

  /** Say how far the run is, and how long a slow test may still take. */
  #drawNow() {
    const now = performance.now() / 1000;
    const isSlow = this.#test && now - this.#test.began > SLOW_SECONDS;
    const left = isSlow && Math.max(0, Math.ceil(this.#test.ends - now));
    const limit = isSlow ? `; this test is ended in ${left} s at the latest` : "";
    // Drawn by the style sheet: nobody wants each test read out.
    this.#status.dataset.now = `${count(this.#tests, "test")} so far${limit}`;
  }

  #fail(error, task) {
    if (error.kind === "broken") {
      this.#drawBroken(error, () => this.#acts.runTask(task));
      return;
    }
    if (error.kind === "stopped") {
      this.#tell(STOPPED);
      return;
    }
    const isGone = error.kind === "died" || error.kind === "late";
    const more = isGone ? KEPT : error.kind === "raised" ? MISTAKE : "";
    this.#draw(...noReportNodes(error.message, more, this.#printed));
    this.#acts.onReport();
    this.#tell(isGone ? "The run was stopped." : "There is no report.");
  }

  #draw(...nodes) {
    this.#isBroken = false;
    // What had the focus may be gone with the old report.
    const hadFocus = this.box.contains(document.activeElement);
    this.box.replaceChildren(make("h3", "", "Report"), ...nodes);
    this.box.hidden = false;
    if (hadFocus) this.box.focus({ preventScroll: true });
  }

  #tell(text) {
    delete this.#status.dataset.now;
    // Screen readers announce every change, so the text is set only if it differs.
    if (this.#status.textContent !== text) this.#status.textContent = text;
  }
}

// "Show me": the steps of the reader's code in a failing test's smallest case, over the report.

import { Steps } from "../../../labkit/student/steps.js";
import { breakable, button, make } from "../dom.js";
import { linkTo, numberOf, TooLongError } from "./link.js";
import { recordedCode } from "./recorded_code.js";

/** More of a value would cover the lines below; the step has it. */
const MOST_BESIDE = 60;
const BACK = "Back to the report";
const FROM_LINK = "Somebody recorded this code, and sent you the link. It is not yours: your own code is in the editor, unchanged.";

export class Show {
  #desk;
  #acts;
  #steps = null;
  /** What stops the recording; null while nothing is recorded. */
  #stopper = null;
  /** The code and the test of the recording, with the lab. */
  #case = null;
  #title = make("h3", { tabindex: "-1" });
  #status = make("p", { className: "note", role: "status" });
  #place = make("div", "recorded");
  #stop = button("Stop", () => this.#stopper?.abort(), { hidden: true });
  #copy = button("Copy link to this step", () => this.#copyLink(), { className: "quiet", hidden: true });
  box;

  /**
   * @param {import("../desk/desk.js").Desk} desk
   * @param {object} acts
   * @param {(isShown: boolean) => void} acts.onShown the recording takes the report's place, or leaves it
   * @param {(mark: {line: number, words: string} | null) => void} acts.mark marks a line of the editor
   */
  constructor(desk, acts) {
    this.#desk = desk;
    this.#acts = acts;
    const back = button(BACK, () => this.close(), { className: "quiet" });
    const bar = make("p", "acts", back, this.#copy, this.#stop);
    const label = { className: "show", "aria-label": "Show me", hidden: true };
    this.box = make("section", label, bar, this.#title, this.#status, this.#place);
    // The book has keys of its own, of one letter each.
    this.box.addEventListener("keydown", (event) => this.#onKey(event));
  }

  get isShown() {
    return !this.box.hidden;
  }

  /** Record a test of the lab on the reader's code, and show the recording. */
  async open(test) {
    const files = await this.#desk.sources();
    const { number } = this.#desk.lab;
    await this.#record({ lab: number, test, code: files[number], files, progress: this.#desk.progress });
  }

  /**
   * Show the code of a link; nothing runs until the reader asks for it.
   *
   * @param {import("./link.js").Link} link
   */
  openLink(link) {
    this.#begin(link.test);
    const run = button("Run this code and show the step", async () => {
      // A lab that builds on others may need the reader's.
      const files = { ...(await this.#desk.sources()), [link.lab]: link.code };
      await this.#record({ ...link, files, progress: this.#desk.progress }, link);
    });
    const words = `The step is at line ${link.line}. Running the code starts Python in this browser; its result is not kept.`;
    const code = recordedCode(link.code);
    this.#place.replaceChildren(make("p", "", FROM_LINK), make("p", "", words), make("p", "", run), code.node);
    code.show(link.line);
    this.#tell("");
  }

  /** Go back to the report. */
  close() {
    this.#stopper?.abort();
    this.box.hidden = true;
    this.#steps = null;
    this.#acts.mark(null);
    this.#acts.onShown(false);
  }

  #begin(test) {
    this.#title.replaceChildren("Show me: ", ...breakable(test));
    this.#steps = null;
    this.#copy.hidden = true;
    this.box.hidden = false;
    this.#acts.onShown(true);
    this.box.scrollIntoView({ block: "nearest" });
    this.#title.focus({ preventScroll: true });
  }

  async #record(asked, link = null) {
    if (this.#stopper) return;
    this.#begin(asked.test);
    this.#place.replaceChildren();
    this.#tell("Recording: the failing case runs again, line by line …");
    this.#stopper = new AbortController();
    this.#stop.hidden = false;
    const { lab, test, code, files, progress } = asked;
    try {
      const { signal } = this.#stopper;
      const recording = await this.#desk.call("show", { lab, test, files, progress }, { signal });
      this.#case = { lab, test, code };
      if (this.isShown) this.#draw(recording, link);
    } catch (error) {
      if (error.kind === undefined) throw error;
      this.#tell(error.kind === "stopped" ? "Stopped. There is no recording." : error.message);
    } finally {
      this.#stopper = null;
      this.#stop.hidden = true;
    }
  }

  #draw(recording, link) {
    this.#tell("");
    this.#steps = new Steps(recording, (step) => this.#onStep(step));
    this.#place.replaceChildren(this.#steps.node);
    this.#copy.hidden = !recording.steps.length;
    if (recording.steps.length) this.#steps.show(link ? numberOf(recording, link) : this.#steps.at);
    this.#title.focus({ preventScroll: true });
  }

  /** Mark the line in the editor, if the editor has the recorded code. */
  #onStep(step) {
    if (!this.#steps) return;
    const isHere = !step.part && this.#case.code === this.#desk.text;
    this.#steps.node.classList.toggle("in-editor", isHere);
    const value = step.value ?? "";
    const words = value.length > MOST_BESIDE ? `${value.slice(0, MOST_BESIDE)} …` : value;
    this.#acts.mark(isHere ? { line: step.line, words } : null);
  }

  #onKey(event) {
    event.stopPropagation();
    const { key, target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || target.type === "range") return;
    if (key.startsWith("Arrow") && target.closest(".code, .wide")) return;
    if (this.#steps?.press(key)) event.preventDefault();
  }

  async #copyLink() {
    try {
      const { line, part } = this.#steps.step;
      if (part) {
        this.#tell("This step is in the code of an earlier lab, and a link holds only this lab's: go to a step of this lab.");
        return;
      }
      const link = await linkTo(location, { ...this.#case, step: this.#steps.ownAt, line });
      await navigator.clipboard.writeText(link);
      this.#tell("The link is copied. It holds your code of this lab: whoever opens it can read it.");
    } catch (error) {
      if (error instanceof TooLongError) this.#tell(error.message);
      else this.#tell(`The link could not be copied: ${error.message}`);
    }
  }

  #tell(text) {
    this.#status.textContent = text;
  }
}

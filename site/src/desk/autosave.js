// Stores the code of a lab with every change, and settles it with other tabs that have the same lab open.

import { button, make } from "../dom.js";
import { ConflictError } from "../store/keeping.js";

export class Autosave {
  #desk;
  #keeping;
  /** Whether the store lacks the last change. */
  #isChanged = false;
  /** Whether the change is that of another tab, which has stored it. */
  #isTaking = false;
  #saving = null;
  /** Says whether the code is stored. */
  label = make("span", { className: "kept" });

  /**
   * @param {import("./desk.js").Desk} desk
   * @param {import("../store/keeping.js").Keeping} keeping
   */
  constructor(desk, keeping) {
    this.#desk = desk;
    this.#keeping = keeping;
  }

  get #number() {
    return this.#desk.lab.number;
  }

  /** Store a change of the editor's text, which may be one that came from the store. */
  change(text) {
    if (this.#isTaking) return;
    this.#isChanged = true;
    this.#keeping.note(this.#number, text);
    this.save();
  }

  /** Store the code; resolves when the last change is stored, or cannot be. */
  save() {
    if (this.#isChanged) this.#saving ??= this.#store();
    return this.#saving;
  }

  async #store() {
    this.label.ariaBusy = "true";
    try {
      do {
        this.#isChanged = false;
        await this.#keeping.saveCode(this.#number, this.#desk.text);
        this.draw();
      } while (this.#isChanged && !this.#keeping.fault);
      this.#isChanged ||= Boolean(this.#keeping.fault);
    } catch (error) {
      this.#isChanged = true;
      if (!(error instanceof ConflictError)) throw error;
      this.#conflict(error.theirs);
    } finally {
      this.#saving = null;
      this.label.ariaBusy = null;
    }
  }

  /** Another tab has stored a lab. */
  async onForeign(number) {
    if (number !== this.#number) return;
    // Where the reader has typed, or does while the answer comes, saving will tell of the conflict.
    const isIdle = () => !this.#isChanged && !this.#saving;
    if (!isIdle()) return;
    const theirs = await this.#keeping.code(number, isIdle);
    if (!isIdle() || theirs === null || theirs === this.#desk.text) return;
    this.#take(theirs);
    this.#desk.say("Another tab changed this lab; its version is now shown here. Undo restores yours.");
  }

  /** Show code that is stored. */
  #take(text) {
    this.#isTaking = true;
    this.#desk.text = text;
    this.#isTaking = this.#isChanged = false;
    this.#keeping.forget(this.#number);
    this.draw();
  }

  #conflict(theirs) {
    this.label.textContent = "Not kept yet";
    this.#desk.say(
      "This lab was changed in another tab, so yours is not kept yet. Which version do you keep?",
      button("This one", async () => {
        // Its version has been seen now.
        await this.#keeping.code(this.#number);
        await this.save();
        this.#desk.say("");
      }),
      button("The other tab's", async () => {
        this.#take((await this.#keeping.code(this.#number)) ?? theirs);
        this.#desk.say("This is the other tab's version. Undo restores yours.");
      }),
    );
  }

  draw() {
    const { fault } = this.#keeping;
    this.label.textContent = fault
      ? `Not kept: ${fault}. Download your code before you leave.`
      : "Kept in this browser";
    this.label.classList.toggle("fault", Boolean(fault));
  }
}

// What is known of the reader's progress in each lab, as in `.labkit/progress.json`.

import { drawProgress } from "../progress.js";

export class Records {
  #keeping;
  #name;
  #onSaved;
  /** By the lab's name. */
  all = {};

  /**
   * @param {import("../store/keeping.js").Keeping} keeping
   * @param {string} name of the lab on this page
   * @param {() => void} onSaved
   */
  constructor(keeping, name, onSaved) {
    this.#keeping = keeping;
    this.#name = name;
    this.#onSaved = onSaved;
  }

  /** The record of the lab on this page. */
  get own() {
    return this.all[this.#name] ?? {};
  }

  /** Read what is stored: another tab may have added to it. */
  async read() {
    this.all = await this.#keeping.progress();
  }

  /** Add to the record of the lab on this page. */
  async remember(change) {
    await this.read();
    await this.keep({ [this.#name]: { ...this.own, ...change } });
  }

  /** Keep the records after a run, with the hints and predictions that came in while tests ran. */
  async keepRun(records) {
    const { hints, predictions } = this.own;
    const mine = { ...records[this.#name] };
    if (hints) mine.hints = hints;
    if (predictions) mine.predictions = predictions;
    await this.keep({ ...records, [this.#name]: mine });
  }

  /** Keep the records that changed. */
  async keep(records) {
    const changed = Object.entries(records).filter(
      ([name, record]) => JSON.stringify(record) !== JSON.stringify(this.all[name]),
    );
    Object.assign(this.all, Object.fromEntries(changed));
    await this.#keeping.saveProgress(Object.fromEntries(changed));
    drawProgress(this.all);
    this.#onSaved();
  }
}

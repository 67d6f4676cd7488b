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

  /**
   * Keep the record after a run, with what this tab and others have added while tests ran: hints,
   * predictions, and code that passed.
   *
   * @param {Record<string, object>} records those after the run
   * @param {Record<string, object>} before those that the run began with
   */
  async keepRun(records, before) {
    await this.read();
    const mine = { passing: [], ...records[this.#name] };
    const known = [...(before[this.#name]?.passing ?? []), ...mine.passing].map(String);
    const { hints, predictions, solved, passing = [] } = this.own;
    if (hints) mine.hints = hints;
    if (predictions) mine.predictions = predictions;
    if (solved) mine.solved = true;
    mine.passing = [...passing.filter((hashes) => !known.includes(String(hashes))), ...mine.passing];
    await this.keep({ [this.#name]: mine });
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

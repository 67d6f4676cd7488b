// Events are kept here and shown at a pace that a person can follow, forwards and back. Only the
// display waits: the server sends at its own speed.

/**
 * @typedef {{token: boolean | number}} Item how many tokens it has; only items with a token take
 *   time; the others appear together with the one before them.
 */

export class Playback {
  #items = [];
  /** The places of the items that take time. */
  #places = [];
  #timer = null;
  #shownAt = 0;
  #acts;
  /** How many items are shown, and how many have ever been. */
  #shown = 0;
  #reached = 0;
  /** How many items with a token are shown. */
  token = 0;
  paused = false;
  pace = 0;

  /**
   * @param {object} acts
   * @param {(item: Item) => void} acts.draw shows an item; it may be shown again later.
   * @param {() => void} acts.erase shows nothing, before items are drawn again.
   * @param {(item: Item) => void} [acts.reach] is called once for each item, when it was drawn for
   *   the first time.
   * @param {() => void} acts.changed is called when the state or the number of items changes.
   */
  constructor(acts) {
    this.#acts = acts;
  }

  /** How many items are waiting. */
  get waiting() {
    return this.#items.length - this.#shown;
  }

  /** How many tokens the waiting items have. */
  get waitingTokens() {
    return this.#items.slice(this.#shown).reduce((sum, { token }) => sum + Number(token), 0);
  }

  /** How many items with a token there are by now. */
  get tokens() {
    return this.#places.length;
  }

  push(item) {
    if (item.token) this.#places.push(this.#items.length);
    this.#items.push(item);
    this.#run();
  }

  /** Forget everything. */
  clear() {
    [this.#items, this.#places] = [[], []];
    this.#shown = this.#reached = this.token = 0;
    this.#run();
  }

  /** Forget what was never shown; show all that was. */
  drop() {
    this.#items.length = this.#reached;
    this.#places = this.#places.filter((place) => place < this.#reached);
    while (this.waiting) this.#showNext();
    this.#run();
  }

  /** Set the milliseconds from one token to the next. */
  setPace(milliseconds) {
    this.pace = milliseconds;
    this.#run();
  }

  setPaused(paused) {
    this.paused = paused;
    this.#run();
  }

  /** Pause, and show so many tokens, or all that there are. */
  seek(tokens) {
    this.paused = true;
    const end = this.#places[tokens] ?? this.#items.length;
    if (end < this.#shown) {
      this.#shown = this.token = 0;
      this.#acts.erase();
    }
    while (this.#shown < end) this.#showNext();
    this.#run();
  }

  /** Pause, and show one more token. */
  step() {
    this.seek(this.token + 1);
  }

  /** Pause, and show one token fewer. */
  back() {
    this.seek(Math.max(this.token - 1, 0));
  }

  #showNext() {
    const item = this.#items[this.#shown++];
    if (item.token) {
      this.token++;
      this.#shownAt = performance.now();
    }
    this.#acts.draw(item);
    if (this.#shown <= this.#reached) return;
    this.#reached = this.#shown;
    this.#acts.reach?.(item);
  }

  /** Show what is due, and set the clock for the rest. */
  #run() {
    clearTimeout(this.#timer);
    while (this.waiting) {
      if (this.#items[this.#shown].token) {
        if (this.paused) break;
        const left = this.#shownAt + this.pace - performance.now();
        if (left > 0) {
          this.#timer = setTimeout(() => this.#run(), left);
          break;
        }
      }
      this.#showNext();
    }
    this.#acts.changed();
  }
}

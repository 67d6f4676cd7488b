// Events wait here until they are shown, at a pace that a person can follow. Only the display waits:
// the server sends at its own speed.

export class Playback {
  #waiting = [];
  #next = 0;
  #timer = null;
  #shownAt = 0;
  #show;
  #changed;

  /**
   * @param {(item: {token: boolean}) => void} show shows an item. Only items with a token take time;
   *   the others appear together with the one before them.
   * @param {() => void} changed is called when the state or the number of waiting items changes.
   */
  constructor(show, changed) {
    this.#show = show;
    this.#changed = changed;
    this.paused = false;
    this.pace = 0;
  }

  /** How many items are waiting. */
  get waiting() {
    return this.#waiting.length - this.#next;
  }

  push(item) {
    this.#waiting.push(item);
    this.#run();
  }

  /** Forget the items that are waiting. */
  clear() {
    [this.#waiting, this.#next] = [[], 0];
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

  /** Pause, and show one more token. */
  step() {
    this.paused = true;
    if (this.waiting) this.#showNext();
    this.#run();
  }

  #showNext() {
    const item = this.#waiting[this.#next++];
    if (!this.waiting) [this.#waiting, this.#next] = [[], 0];
    if (item.token) this.#shownAt = performance.now();
    this.#show(item);
  }

  /** Show what is due, and set the clock for the rest. */
  #run() {
    clearTimeout(this.#timer);
    while (this.waiting) {
      if (this.#waiting[this.#next].token) {
        if (this.paused) break;
        const left = this.#shownAt + this.pace - performance.now();
        if (left > 0) {
          this.#timer = setTimeout(() => this.#run(), left);
          break;
        }
      }
      this.#showNext();
    }
    this.#changed();
  }
}

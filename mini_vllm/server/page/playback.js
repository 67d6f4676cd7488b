// Events wait here to be shown at a pace at which a person can watch them.
//
// But: it does not slow the server down. What has arrived, has arrived.

export class Playback {
  #waiting = [];
  #next = 0;
  #timer = null;
  #shownAt = 0;
  #show;
  #changed;

  /**
   * @param {(item: {token: boolean}) => void} show shows an item. Only those with a token take time;
   *   the others are shown together with the one before them.
   * @param {() => void} changed is called when the state or the number of waiting items changes.
   */
  constructor(show, changed) {
    this.#show = show;
    this.#changed = changed;
    this.paused = false;
    this.pace = 0;
  }

  /** How many items wait. */
  get waiting() {
    return this.#waiting.length - this.#next;
  }

  push(item) {
    this.#waiting.push(item);
    this.#run();
  }

  /** Forget what waits. */
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

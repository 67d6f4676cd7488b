// Text that the store of keeping.js does not have yet. A database answers later, when the page may be
// gone, so each change is first written here, where writing takes effect at once.

const PREFIX = "course-draft:";

/**
 * @typedef {object} Draft
 * @property {string} lab
 * @property {string} text
 * @property {number} version the stored version that the text continues
 * @property {string} by the page that wrote it
 * @property {number} count that page's number of the change
 * @property {number} time
 */

export class Drafts {
  #storage = storage();
  /** Names this page among all that have written drafts or stored code. */
  by = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
  /** How many changes this page has made. */
  count = 0;

  /** Write a change at once. */
  write(lab, text, version) {
    this.count += 1;
    const draft = { lab, text, version, by: this.by, count: this.count, time: Date.now() };
    try {
      this.#storage?.setItem(key(draft), JSON.stringify(draft));
    } catch (error) {
      console.info(`The last change is not written at once: ${error.message}`);
    }
  }

  /** Remove this page's draft of a lab. */
  drop(lab) {
    this.#storage?.removeItem(key({ lab, by: this.by }));
  }

  /**
   * Remove the draft of another page, unless that page lives and has written a later one.
   *
   * @param {Draft} draft
   */
  remove(draft) {
    const now = JSON.parse(this.#storage.getItem(key(draft)));
    if (now?.count === draft.count) this.#storage.removeItem(key(draft));
  }

  /** Hear when another page writes a draft. */
  onForeign(listener) {
    addEventListener("storage", ({ key, newValue }) => key?.startsWith(PREFIX) && newValue && listener());
  }

  /**
   * The drafts that other pages left, oldest first.
   *
   * @returns {Draft[]}
   */
  others() {
    const keys = Object.keys(this.#storage ?? {}).filter((name) => name.startsWith(PREFIX));
    const drafts = keys.map((name) => JSON.parse(this.#storage.getItem(name)));
    const others = drafts.filter((draft) => draft && draft.by !== this.by);
    return others.sort((one, other) => one.time - other.time);
  }
}

function key({ lab, by }) {
  return `${PREFIX}${lab}:${by}`;
}

function storage() {
  try {
    return localStorage;
  } catch {
    return null; // Nothing is stored in this window.
  }
}

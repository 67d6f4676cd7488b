// What the browser keeps: the code of every lab and what is known of its progress, in IndexedDB.
//
// Several tabs may have the same lab open. Each entry has a version, and the page that wrote it; a tab
// that saves over a version which it has not seen is told so, and nothing is overwritten.

import { CODE, finished, openCourse, PROGRESS, readProgress, settled } from "./database.js";
import { Drafts } from "./drafts.js";

const CHANNEL = "course-keeping";
/** A page that lives has stored its draft by then. */
const PATIENCE_MS = 1000;

/** Another tab has saved this lab since this one read it. */
export class ConflictError extends Error {
  constructor(theirs) {
    super("This lab was changed in another tab.");
    this.theirs = theirs;
  }
}

export class Keeping {
  #database = null;
  #channel = null;
  #drafts = new Drafts();
  /** By lab: the version that this tab has seen stored. */
  #seen = new Map();
  /** What was saved while nothing can be stored: it lives as long as the page. */
  #code = new Map();
  #progress = {};
  /** Why nothing is stored, or null. */
  fault = null;

  /**
   * Begin. A browser that stores nothing still gets a page that works; `fault` says why.
   *
   * @param {(lab: string) => void} onForeign another tab has saved a lab
   */
  async open(onForeign) {
    try {
      this.#database = await openCourse();
      this.#channel = new BroadcastChannel(CHANNEL);
      this.#channel.onmessage = ({ data }) => onForeign(data.lab);
    } catch (error) {
      this.#database = null;
      this.fault = reason(error);
    }
    await this.#recoverAll();
    // A page that dies after its last word leaves the draft to the pages that live.
    let later = null;
    this.#drafts.onForeign(() => {
      clearTimeout(later);
      later = setTimeout(async () => {
        for (const lab of await this.#recoverAll()) onForeign(lab);
      }, PATIENCE_MS);
    });
  }

  /** Write a change of a lab's code at once; `saveCode` then stores it. */
  note(lab, text) {
    this.#drafts.write(lab, text, this.#seen.get(lab) ?? 0);
  }

  /** Give up a change that was written at once. */
  forget(lab) {
    this.#drafts.drop(lab);
  }

  /**
   * The code that another page left without storing it, because a third one had changed the lab; null
   * if there is none. Saving it is a conflict again.
   */
  left(lab) {
    const draft = this.#drafts.others().findLast((draft) => draft.lab === lab);
    if (!draft) return null;
    this.#seen.set(lab, draft.version);
    this.note(lab, draft.text);
    this.#drafts.remove(draft);
    return draft.text;
  }

  /**
   * The code of a lab as it is kept, or null.
   *
   * @param {string} lab
   * @param {() => boolean} [isShown] whether the page will show the code, asked when it is here; what
   *   a page has not shown it cannot save over
   */
  async code(lab, isShown = () => true) {
    if (!this.#database) return this.#code.get(lab) ?? null;
    const entry = await settled((await this.#begin(CODE)).get(lab));
    if (isShown()) this.#seen.set(lab, entry?.version ?? 0);
    return entry?.text ?? null;
  }

  /** The code of all labs that have some, by number. */
  async allCode() {
    if (!this.#database) return Object.fromEntries(this.#code);
    const store = await this.#begin(CODE);
    const [labs, entries] = await Promise.all([
      settled(store.getAllKeys()),
      settled(store.getAll()),
    ]);
    return Object.fromEntries(labs.map((lab, place) => [lab, entries[place].text]));
  }

  /**
   * Keep the code of a lab.
   *
   * @param {string} lab
   * @param {string} text
   * @param {boolean} [replaces] whether to save over what this tab has not seen
   * @throws {ConflictError} another tab has saved it in between
   */
  async saveCode(lab, text, replaces = false) {
    this.#code.set(lab, text);
    if (!this.#database) return;
    const { by, count } = this.#drafts;
    let theirs = null;
    let version = 0;
    const isStored = await this.#write(CODE, (store) => {
      const request = store.get(lab);
      request.onsuccess = () => {
        const now = request.result;
        const isForeign = now && now.by !== by && now.version !== (this.#seen.get(lab) ?? 0);
        if (isForeign && !replaces && now.text !== text) {
          theirs = now.text;
          return;
        }
        version = (now?.version ?? 0) + 1;
        store.put({ text, version, by, count }, lab);
      };
    });
    if (theirs !== null) throw new ConflictError(theirs);
    if (!isStored) return;
    this.#seen.set(lab, version);
    if (count === this.#drafts.count) this.#drafts.drop(lab);
    this.#channel.postMessage({ lab });
  }

  /** What is known of all labs, as in `.labkit/progress.json`. */
  async progress() {
    if (!this.#database) return structuredClone(this.#progress);
    return readProgress(await this.#begin(PROGRESS));
  }

  /**
   * Keep records of progress. Only those of the given labs are touched: other tabs have the others.
   *
   * @param {Record<string, object>} records by the lab's name
   */
  async saveProgress(records) {
    Object.assign(this.#progress, records);
    if (!this.#database) return;
    await this.#write(PROGRESS, (store) => {
      for (const [name, record] of Object.entries(records)) store.put(record, name);
    });
  }

  /** Store the drafts of other pages; return the labs that this changed. */
  async #recoverAll() {
    const labs = new Set();
    for (const draft of this.#drafts.others()) {
      if (await this.#recover(draft)) labs.add(draft.lab);
    }
    for (const lab of labs) this.#channel?.postMessage({ lab });
    return labs;
  }

  /** Store a draft that continues what is stored; return whether that changed it. */
  async #recover(draft) {
    const { lab, text, by, count } = draft;
    let isConflict = false;
    let isNew = false;
    const isStored = await this.#write(CODE, (store) => {
      const request = store.get(lab);
      request.onsuccess = () => {
        const now = request.result;
        const isOwn = now?.by === by;
        if (now?.text === text || (isOwn && count <= now.count)) return;
        isConflict = !isOwn && (now?.version ?? 0) !== draft.version;
        isNew = !isConflict;
        if (isNew) store.put({ text, version: (now?.version ?? 0) + 1, by, count }, lab);
      };
    });
    if (isStored && !isConflict) this.#drafts.remove(draft);
    if (!isStored) this.#code.set(lab, text);
    return isStored && isNew;
  }

  /** Begin a transaction of a store; the reader may have cleared the site's data, the database with them. */
  async #begin(name, mode = "readonly") {
    try {
      return this.#database.transaction(name, mode).objectStore(name);
    } catch (error) {
      if (error.name !== "InvalidStateError") throw error;
      this.#database = await openCourse();
      return this.#database.transaction(name, mode).objectStore(name);
    }
  }

  /**
   * Change a store, and return whether that is stored; a store that is full or gone leaves the page
   * working, with `fault` set.
   */
  async #write(name, change) {
    if (!this.#database) return false;
    try {
      const store = await this.#begin(name, "readwrite");
      const done = finished(store.transaction);
      change(store);
      await done;
      this.fault = null;
    } catch (error) {
      this.fault = reason(error);
    }
    return !this.fault;
  }
}

/** Why a browser does not store something, in plain words. */
function reason(error) {
  if (error?.name === "QuotaExceededError") return "this browser has no room left for the site";
  const isShut = ["SecurityError", "InvalidStateError", "UnknownError"].includes(error?.name);
  return isShut ? "this window stores nothing (a private window?)" : String(error?.message ?? error);
}

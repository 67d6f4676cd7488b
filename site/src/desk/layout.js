// Where the code of a lab is: beside the text in a wide window, in place of the text in a narrow one.
// The report takes the place of the text beside the code, or the lower half of a narrow window.

import { button, make } from "../dom.js";

const KEY = "bench-beside";
const OPEN = "bench-open";
const SIDE = "bench-side";
const WIDE = matchMedia("(min-width: 1100px)");

/** Whether the reader closed the code in a wide window. */
function isClosed() {
  try {
    return localStorage.getItem(KEY) === "no";
  } catch {
    return false; // Nothing is stored in this window.
  }
}

function remember(isOpen) {
  try {
    localStorage.setItem(KEY, isOpen ? "yes" : "no");
  } catch {
    // It holds for this page, then.
  }
}

export class Layout {
  #onOpen;
  /** Where the text was when the code took its place. */
  #top = 0;
  #codeButton = button("Write code", () => this.open(), { className: "to-code" });
  /** For the text: what opens the code, in sight wherever one reads. */
  dock = make("div", "code-dock", this.#codeButton);
  textButton = button("Text only", () => this.close());
  reportButton = button("Report and hints", () => this.showSide(!this.isSide), { "aria-pressed": "false" });

  /** @param {() => void} onOpen the reader opened the code */
  constructor(onOpen) {
    this.#onOpen = onOpen;
  }

  get isOpen() {
    return document.body.classList.contains(OPEN);
  }

  get isSide() {
    return document.body.classList.contains(SIDE);
  }

  /** Open the code in a wide window, unless the reader closed it there. */
  begin() {
    if (WIDE.matches && !isClosed()) this.#set(true);
  }

  open() {
    this.#top = scrollY;
    if (WIDE.matches) remember(true);
    this.#set(true);
    this.#onOpen();
  }

  close() {
    if (WIDE.matches) remember(false);
    this.#set(false);
    scrollTo({ top: this.#top, behavior: "instant" });
    this.#codeButton.focus({ preventScroll: true });
  }

  /** Show the report and the hints, or again the text or the code that they cover. */
  showSide(isShown) {
    document.body.classList.toggle(SIDE, isShown);
    this.reportButton.setAttribute("aria-pressed", String(isShown));
  }

  /** Show a part of the text, which the code or the report may cover. */
  showText(part) {
    this.showSide(false);
    if (!WIDE.matches) this.#set(false);
    part.scrollIntoView();
  }

  #set(isOpen) {
    if (WIDE.matches && isOpen) this.#top = scrollY;
    document.body.classList.toggle(OPEN, isOpen);
    this.dock.hidden = isOpen;
  }
}

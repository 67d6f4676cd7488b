// "Your code, live": one text, fed piece by piece to the reader's own code, beside the naive way
// and the reference. From lab 05 on it has the panels of the server's page.
//
// Python does all of it in one call (labkit/browser/strip.py); here its rows are played. The strip
// is a shadow tree, since the styles and ids of those panels are those of a page of its own.

import page from "../../../mini_vllm/server/page/index.html" with { type: "text" };
import pageStyle from "../../../mini_vllm/server/page/page.css" with { type: "text" };
import { Playback } from "../../../mini_vllm/server/page/playback.js";
import { make } from "../dom.js";
import { PathPanels } from "./strip_panels.js";
import style from "./strip.css" with { type: "text" };
import { StepTable } from "./strip_table.js";
import { StripForm } from "./strip_form.js";

/** Where the book's root font is larger than the one that the panels are made for. */
const rescaled = (css) => css.replaceAll(/([\d.]+)rem\b/g, "calc($1 * var(--rem))");

/**
 * Put the strip of a lab into the page; it shows the code that is in the bench's editor. A lab that
 * takes no text has none.
 *
 * @param {HTMLElement} element
 * @param {import("../desk/desk.js").Desk} desk
 */
export async function openStrip(element, desk) {
  const shown = (await json(new URL("strip.json", desk.base)))[desk.lab.number] ?? [];
  element.hidden = shown.length === 0;
  if (element.hidden) return;
  const strip = new Strip(element, desk, shown);
  desk.onCode(() => strip.changed());
}

async function json(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url.pathname}: ${response.status} ${response.statusText}`);
  return response.json();
}

class Strip {
  #desk;
  #root;
  #form;
  #table;
  #panels;
  #playback;
  /** What is shown, as it was asked for; null if that is no longer what would be. */
  #shown = null;
  #rows = [];
  #isAsking = false;

  /** @param {object[]} shown the parts of the lab, of strip.json */
  constructor(element, desk, shown) {
    this.#desk = desk;
    this.#root = element.attachShadow({ mode: "open" });
    this.#build(shown);
    this.#playback = new Playback({
      draw: ({ row, place }) => this.#draw(row, place),
      erase: () => this.#erase(),
      reach: ({ place }) => this.#reach(place),
      changed: () => this.#drawState(),
    });
    this.#control();
    this.#choose();
  }

  /** The reader's code has changed: what is shown next is asked for anew. */
  changed() {
    this.#shown = null;
  }

  #byId(id) {
    return this.#root.getElementById(id);
  }

  #build(shown) {
    const sheets = [rescaled(pageStyle), style].map((text) => {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(text);
      return sheet;
    });
    this.#root.adoptedStyleSheets = sheets;
    const parts = new DOMParser().parseFromString(page, "text/html").querySelector(".panels");
    this.#form = new StripForm(shown, () => this.#choose());
    this.#table = new StepTable();
    this.#root.append(intro(), this.#form.element, parts);
    // What plays here has come already.
    parts.querySelector("#stop-button").remove();
    parts.querySelector(".playback").after(...this.#table.elements);
    this.#panels = new PathPanels(this.#root);
  }

  #control() {
    this.#form.onPlay = () => this.#play();
    this.#byId("pause").addEventListener("click", () => {
      this.#playback.setPaused(!this.#playback.paused);
    });
    this.#byId("back").addEventListener("click", () => this.#playback.back());
    this.#byId("step").addEventListener("click", () => this.#step());
    this.#byId("seek").addEventListener("input", () => {
      this.#playback.seek(this.#byId("seek").valueAsNumber);
    });
    this.#byId("pace").addEventListener("input", () => this.#setPace());
    this.#setPace();
  }

  #setPace() {
    const pace = this.#byId("pace").valueAsNumber;
    this.#byId("pace-value").textContent = pace ? `${pace} ms a piece` : "at once";
    this.#playback.setPace(pace);
  }

  /** Another part of the lab is to be shown: nothing is shown of it yet. */
  #choose() {
    this.#shown = null;
    this.#playback.clear();
    const { role } = this.#form.part;
    this.#table.reset(this.#form.part);
    this.#panels.reset(role);
    this.#setStatus("Ready");
  }

  async #play() {
    this.#playback.setPaused(false);
    await this.#feed();
  }

  /** One more piece; the first one, if nothing is shown of this text and this code. */
  async #step() {
    this.#playback.setPaused(true);
    const isShown = this.#shown === JSON.stringify(this.#form.input);
    if (!isShown && !(await this.#feed())) return;
    this.#playback.step();
  }

  /** Ask for the rows of the text, and hand them to the playback; return whether they came. */
  async #feed() {
    if (this.#isAsking) return false;
    const input = this.#form.input;
    const { part } = this.#form;
    this.#begin(part);
    try {
      const answer = await this.#ask(input);
      this.#rows = await this.#withStored(answer.rows, input);
      this.#table.whose(answer.own.parts);
      if (answer.own.failed) this.#showError(answer.own.failed);
      this.#table.printed = answer.printed;
      this.#shown = JSON.stringify(input);
      this.#isAsking = false;
      this.#setStatus("Playing");
      this.#rows.forEach((row, place) => this.#playback.push({ token: true, row, place }));
      return true;
    } catch (error) {
      this.#isAsking = false;
      this.#setStatus("Stopped");
      this.#showError({ raised: error.message, line: null });
      return false;
    }
  }

  async #ask(input) {
    const files = await this.#desk.sources();
    const { lab, progress } = this.#desk;
    return this.#desk.call("live", { lab: lab.number, ...input, files, progress });
  }

  #begin(part) {
    this.#playback.clear();
    this.#isAsking = true;
    this.#byId("alert").textContent = "";
    this.#byId("status").classList.remove("differs");
    this.#table.reset(part);
    this.#panels.reset(part.role);
    this.#setStatus("Running your code");
  }

  /** Where no reference runs, what it gives for the examples is stored. */
  async #withStored(rows, { part, text, stops }) {
    if (rows.some((row) => row.reference)) return rows;
    if (!this.#form.isExample(text, stops)) return rows;
    const stored = await json(new URL("strip-stored.json", this.#desk.base)).catch(() => null);
    const kept = stored?.[this.#desk.lab.number]?.[part]?.[text] ?? [];
    const most = Math.max(rows.length, kept.length);
    return Array.from({ length: most }, (_, at) => {
      return { ...kept[at], ...rows[at], reference: kept[at]?.reference ?? null };
    });
  }

  #draw(row, place) {
    this.#table.add(row, place);
    this.#panels.add(row);
  }

  #erase() {
    this.#table.erase();
    this.#panels.reset(this.#form.part.role);
  }

  /** With the last row, say how the reader's code compares. */
  #reach(place) {
    if (place + 1 < this.#rows.length) return;
    this.#setStatus(this.#table.verdict);
    this.#byId("status").classList.toggle("differs", this.#table.differs);
    if (this.#table.differs) this.#table.showDifference();
  }

  #showError({ raised, line }) {
    const where = line ? ` (line ${line})` : "";
    this.#byId("alert").textContent = `${raised}${where}`;
  }

  #setStatus(status) {
    // Screen readers announce every change, so the text is set only if it differs.
    if (this.#byId("status").textContent !== status) this.#byId("status").textContent = status;
    this.#form.isBusy = this.#isAsking;
    this.#drawState();
  }

  #drawState() {
    if (!this.#playback) return;
    this.#byId("pause").textContent = this.#playback.paused ? "Resume" : "Pause";
    const { token, tokens, waiting } = this.#playback;
    this.#byId("back").setAttribute("aria-disabled", String(!token));
    this.#byId("seek").max = tokens;
    this.#byId("seek").value = token;
    this.#byId("progress").textContent = waiting ? `${waiting} left` : "";
  }
}

function intro() {
  const words = "For each piece you see the text that your code emits, and the text that it holds.";
  return make("p", "intro", words);
}

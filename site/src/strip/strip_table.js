// The table of the strip: a row for each piece, with what each of the three emits and holds, and
// above it what they have said so far.

import { appendNaive, heldText, visible } from "../../../mini_vllm/server/page/panels.js";
import { make } from "../dom.js";

const WHOSE = { naive: "Naive way", own: "Your code", reference: "Reference" };
const PARTS = ["naive", "own", "reference"];

export class StepTable {
  #sums = make("table", { id: "sums" });
  #steps = make("table", { id: "steps" });
  #box;
  #whose = make("p", "note whose");
  #texts = new Map();
  #columns = [];
  #part = null;
  #differs = null;
  #fault = "";
  /** Whether the reader's code took the first piece: some cannot be loaded, or lacks a part. */
  #hasRun = false;

  constructor() {
    const sums = title("sums", "So far ", "the text that a reader has seen");
    const steps = title("steps", "Step by step ", "emitted, and held");
    const scroll = { className: "scroll", tabindex: "0", role: "region" };
    this.#box = make("div", { ...scroll, "aria-labelledby": "steps-title" }, this.#steps);
    this.elements = [
      section("sums", sums, this.#sums, this.#whose),
      section("steps", steps, this.#box),
      section("printed", title("printed", "Printed"), make("pre", { id: "printed", tabindex: "0" })),
    ];
  }

  /** Begin anew for a part of the lab, of strip.json. */
  reset(part) {
    this.#part = part;
    this.elements[0].hidden = part.role === "frames";
    this.elements[2].hidden = true;
    this.#whose.textContent = "";
    this.erase();
  }

  /** Take the rows away. */
  erase() {
    this.#differs = null;
    this.#fault = "";
    this.#columns = [];
    this.#texts.clear();
    this.#sums.replaceChildren(make("tbody"));
    this.#steps.replaceChildren(make("tbody"));
  }

  /** Say on whose layers the lab builds. */
  whose(parts) {
    const words = parts.map(({ lab, own }) => `${lab}: ${own ? "yours" : "the reference"}`);
    this.#whose.textContent = words.length ? `It runs on ${words.join(", ")}.` : "";
  }

  /** Add the row of a piece. */
  add(row, place) {
    if (place === 0) {
      this.#head(row);
      this.#hasRun = Boolean(row.own);
    }
    const line = make("tr", "", pieceCell(row));
    const differs = this.#isDifferent(row);
    for (const name of this.#columns) {
      const cell = row[name];
      line.append(emittedCell(name, cell), heldCell(cell, this.#part.role));
      this.#sum(name, cell);
    }
    if (differs && this.#differs === null) {
      this.#differs = { place, line };
      line.className = "differs";
      line.cells[0].append(make("small", "", " first difference"));
    }
    if (row.own?.raised && !this.#fault) this.#fault = row.own.raised;
    this.#steps.tBodies[0].append(line);
    this.#box.scrollTop = this.#box.scrollHeight;
  }

  /** What the reader's code printed. */
  set printed(text) {
    this.elements[2].lastElementChild.textContent = text;
    this.elements[2].hidden = !text;
  }

  /** Whether the reader's code has left the reference. */
  get differs() {
    return this.#differs !== null;
  }

  /** Bring the first difference into view. */
  showDifference() {
    const { line } = this.#differs;
    this.#box.scrollTop = line.offsetTop - this.#box.clientHeight / 2;
  }

  /** How the reader's code compares, when all is shown. */
  get verdict() {
    if (this.#fault) return `Your code stopped: ${this.#fault}`;
    if (!this.#hasRun) return "Done: your code did not run";
    if (!this.#columns.includes("reference")) return "Done";
    if (this.#differs === null) return "Done: the same as the reference, step by step";
    return `Done: your code differs from the reference at step ${this.#differs.place + 1}`;
  }

  #isDifferent({ own, reference }) {
    return this.#hasRun && this.#columns.includes("reference") && told(own) !== told(reference);
  }

  #head(row) {
    this.#columns = PARTS.filter((name) => name in row && !(name === "naive" && !this.#part.naive));
    const names = this.#columns.map((name) => {
      const head = make("th", { scope: "colgroup", colSpan: 2 }, WHOSE[name]);
      if (name === "naive") head.append(make("small", "", this.#part.naive));
      return head;
    });
    const kinds = this.#columns.flatMap(() => ["Emits", "Holds"]);
    const piece = this.#part.pieces === "ids" ? "Token" : "Piece";
    const above = make("tr", "", make("th", { scope: "col", rowSpan: 2 }, piece), ...names);
    const below = make("tr", "", ...kinds.map((kind) => make("th", { scope: "col" }, kind)));
    this.#steps.prepend(make("thead", "", above, below));
    for (const name of this.#columns) {
      const text = make("td", "so-far");
      this.#texts.set(name, text);
      const whose = make("th", { scope: "row" }, WHOSE[name]);
      this.#sums.tBodies[0].append(make("tr", name, whose, text));
    }
  }

  #sum(name, cell) {
    const box = this.#texts.get(name);
    for (const [kind, text] of cell?.emitted ?? []) {
      if (kind === "whole") box.replaceChildren();
      if (kind === "ids") continue;
      const part = make("span", kind);
      appendNaive(part, text);
      box.append(part);
    }
    if (cell?.raised) box.append(make("span", "raised", ` ${cell.raised}`));
  }
}

/** What decides whether two differ: of frames the data, of which the order of keys says nothing. */
function told(cell) {
  if (!cell) return "";
  const emitted = cell.emitted.map(([kind, text, index]) => [kind, plain(kind, text), index]);
  return JSON.stringify([emitted, cell.held, cell.ended, cell.raised]);
}

function plain(kind, text) {
  if (kind !== "frame") return text;
  return text.split("\n").map((line) => {
    try {
      return sorted(JSON.parse(line.replace(/^data: ?/, "")));
    } catch {
      return line;
    }
  });
}

function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  const names = Object.keys(value).sort();
  return Object.fromEntries(names.map((name) => [name, sorted(value[name])]));
}

function title(name, text, small = "") {
  return make("h2", { id: `${name}-title` }, text, small && make("small", "", small));
}

function section(name, head, ...children) {
  const named = { className: `card ${name}`, "aria-labelledby": head.id };
  return make("section", named, head, ...children);
}

/** What is fed: an id and its bytes, or a character; at the end nothing. */
function pieceCell({ token, bytes, text }) {
  const cell = make("th", { scope: "row", className: "piece" });
  if (token === null || token === undefined) {
    cell.append(text ? visible(text) : make("em", "", "end"));
    return cell;
  }
  cell.append(String(token), " ", make("small", "", heldText(bytes ?? [])));
  return cell;
}

function emittedCell(name, cell) {
  const box = make("td", `out ${name}`);
  for (const [kind, text] of cell?.emitted ?? []) {
    const part = make("span", kind);
    appendNaive(part, kind === "ids" ? text : visible(text));
    box.append(part);
  }
  if (cell?.raised) {
    const line = cell.line ? ` (line ${cell.line})` : "";
    box.append(make("span", "raised", `${cell.raised}${line}`));
  }
  if (cell?.ended) box.append(make("small", "ended", ` ${cell.ended}`));
  return box;
}

/** What is held; the layers are named only where there are several. */
function heldCell(cell, role) {
  const box = make("td", "held");
  if (!cell) return box;
  if (cell.held === null && !cell.raised) box.append(make("small", "", "not written yet"));
  for (const [layer, value] of Object.entries(cell.held ?? {})) {
    if (!value.length) continue;
    if (layer !== role) box.append(make("small", "", `${layer}: `));
    box.append(make("span", "waiting", heldText(value)), " ");
  }
  return box;
}

// Draws the news of one event into the panels. Data becomes text nodes, never markup. The server
// says what is emitted, held or naive; nothing of that is worked out here.

const MOST_ROWS = 400;
/** What layers of these names hold. Others are shown by their name alone. */
const HOLDS = {
  tokens: "part of a character",
  stops: "a possible stop string",
  reasoning: "a possible tag",
  calls: "a possible call",
  channel: "what is not read yet",
};
/** The layers of these names hold text of later tokens, so no row of a token shows it. */
const LATER = new Set(["channel"]);
/** Why layers of these names never hold anything. */
const NEVER = {
  pipeline: "nothing itself: it passes text on",
  frames: "nothing: it sends at once",
};

const own = (words, name) => (Object.hasOwn(words, name) ? words[name] : "");

/** A new element with text in it. */
function make(tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.textContent = text;
  return element;
}

/** A box for what grows in a row of the table, which shows its end. */
function tail() {
  const box = make("div", "tail");
  box.append(make("div"));
  return box;
}

/** Make white space visible, and write characters without a picture, such as U+200D, as names. */
export function visible(text) {
  return text
    .replaceAll(" ", "␣")
    .replaceAll("\n", "⏎")
    .replaceAll("\t", "⇥")
    .replaceAll(/\p{Default_Ignorable_Code_Point}/gu, nameOf);
}

function nameOf(character) {
  return `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** The pieces of what a layer holds: bytes, which come as numbers, or characters. */
function unitsOf(held) {
  if (typeof held === "string") return [...held].map(visible);
  return held.map((byte) => byte.toString(16).padStart(2, "0"));
}

/** What a layer holds, in one text. */
export function heldText(held) {
  return unitsOf(held).join(typeof held === "string" ? "" : " ");
}

function appendRow(box, row) {
  box.append(row);
  if (box.childElementCount > MOST_ROWS) box.firstElementChild.remove();
}

/** Add a text whose replacement characters stand out. */
export function appendNaive(box, text) {
  for (const part of text.split(/(\ufffd+)/)) {
    if (part) box.append(make("span", part[0] === "\ufffd" ? "broken" : "", part));
  }
}

export class Panels {
  #root;
  #calls = new Map();
  /** By name: a layer's row, and the most that it held. They are those of the last answer until
   * the next one begins, so that the table does not jump. */
  #layers = new Map();
  #begun = false;
  #characters = 0;
  #diamonds = 0;
  #idle = {};
  /** What was emitted since the last token; one token may cause several events. */
  #emitted = [];
  /** How many tokens have been shown. */
  tokens = 0;

  /** @param {Document | ShadowRoot} root where the elements of index.html are */
  constructor(root = document) {
    this.#root = root;
  }

  #byId(id) {
    return this.#root.getElementById(id);
  }

  /**
   * Empty everything for an answer.
   * @param {Record<string, string>} idle of each layer that has nothing to do in it: why
   */
  reset(idle = {}) {
    this.#idle = idle;
    this.#calls.clear();
    this.#begun = false;
    this.#characters = this.#diamonds = this.tokens = 0;
    this.#emitted = [];
    for (const id of ["answer", "finish", "naive", "naive-count", "raw"]) {
      this.#byId(id).textContent = "";
    }
    this.#byId("timeline").tBodies[0].textContent = "";
    for (const layer of this.#layers.values()) this.#drawLayer({ ...layer, most: 0 }, "");
    this.#drawReader();
  }

  /** Add lines of the stream. */
  wire(lines) {
    appendRow(this.#byId("raw"), make("p", "", lines.join("\n")));
  }

  /** Draw a chunk of a chat completion. */
  chunk(chunk) {
    const choice = chunk.choices?.[0];
    const emitted = this.#say(choice?.delta ?? {});
    if (choice?.finish_reason) this.#finish("finish-reason", choice.finish_reason);
    if (choice?.stop_reason != null) {
      this.#finish("stop-reason", `stopped by ${JSON.stringify(choice.stop_reason)}`);
    }
    if (chunk.usage) {
      const { prompt_tokens: prompt, completion_tokens: completion } = chunk.usage;
      this.#finish("usage", `${prompt} tokens in the prompt, ${completion} in the answer`);
    }
    const trace = chunk.mini_vllm;
    const ids = trace?.token_ids ?? [];
    if (ids.length) this.#emitted = [];
    this.#emitted.push(...emitted);
    this.tokens += ids.length;
    if (trace) {
      this.#drawHeld(trace.held ?? {});
      this.#drawNaive(trace.naive ?? "");
    }
    this.#drawReader();
    if (trace) this.#drawToken(ids, trace);
    else this.#drawEmittedByLast();
  }

  /** Add a delta to the answer; return its news as pairs of kind and text. */
  #say(delta) {
    const emitted = [];
    if (delta.reasoning_content) emitted.push(["reasoning", delta.reasoning_content]);
    if (delta.content) emitted.push(["content", delta.content]);
    for (const [kind, text] of emitted) this.#text(kind, text);
    for (const part of delta.tool_calls ?? []) {
      const name = part.function?.name ?? "";
      const args = part.function?.arguments ?? "";
      this.#call(part.index, part.id, name, args);
      if (name) emitted.push(["call", name]);
      if (args) emitted.push(["arguments", args]);
    }
    for (const [, text] of emitted) this.#characters += [...text].length;
    return emitted;
  }

  #text(kind, text) {
    const answer = this.#byId("answer");
    let last = answer.lastElementChild;
    if (last?.dataset.kind !== kind) {
      last = make("div", kind);
      last.dataset.kind = kind;
      last.append(document.createTextNode(""));
      answer.append(last);
    }
    last.firstChild.appendData(text);
  }

  #call(index, id, name, args) {
    if (!this.#calls.has(index)) {
      const card = make("article", "call");
      const head = make("header");
      head.append(make("b", "name"), make("small", "id"));
      card.append(head, make("pre", "arguments"));
      card.setAttribute("aria-label", "Tool call");
      this.#byId("answer").append(card);
      this.#calls.set(index, card);
    }
    const card = this.#calls.get(index);
    for (const [part, text] of Object.entries({ name, id, arguments: args })) {
      if (text) card.querySelector(`.${part}`).append(text);
    }
  }

  #finish(className, text) {
    const line = this.#byId("finish");
    if (line.childElementCount) line.append(" · ");
    line.append(make("span", className, text));
  }

  /** The row of a layer; a layer that is seen for the first time gets one. */
  #layer(name) {
    if (!this.#layers.has(name)) {
      const row = make("tr");
      row.dataset.layer = name;
      const head = make("th", "", name.replaceAll("_", " "));
      head.scope = "row";
      head.append(make("small"));
      row.append(head, make("td"), make("td"), make("td"));
      row.cells[1].append(tail());
      this.#byId("held").tBodies[0].append(row);
      this.#layers.set(name, { row, most: 0 });
    }
    return this.#layers.get(name);
  }

  #drawHeld(held) {
    if (!this.#begun) {
      this.#layers.clear();
      this.#byId("held").tBodies[0].textContent = "";
      this.#begun = true;
    }
    for (const name of Object.keys(held)) this.#layer(name);
    for (const [name, layer] of this.#layers) this.#drawLayer(layer, held[name] ?? "");
  }

  #drawLayer(layer, value) {
    const units = unitsOf(value);
    const [head, cell, now, most] = layer.row.cells;
    layer.most = Math.max(layer.most, units.length);
    const name = layer.row.dataset.layer;
    const why = layer.most ? "" : own(this.#idle, name) || own(NEVER, name);
    layer.row.classList.toggle("idle", why !== "");
    layer.row.classList.toggle("holding", units.length > 0);
    head.lastElementChild.textContent = why ? "" : own(HOLDS, name);
    cell.colSpan = why ? 3 : 1;
    const box = cell.querySelector(".tail > div");
    box.replaceChildren(...(why ? [make("small", "", why)] : []));
    for (const unit of units) {
      if (typeof value !== "string" && box.hasChildNodes()) box.append(" ");
      box.append(make("span", "unit", unit));
    }
    now.textContent = units.length;
    most.textContent = layer.most;
  }

  #drawEmitted(box) {
    const spans = this.#emitted.map(([kind, text]) => make("span", kind, visible(text)));
    box.replaceChildren(...spans);
  }

  /** What a token emits may come in events after the one that reports the token. */
  #drawEmittedByLast() {
    const last = this.#byId("timeline").tBodies[0].lastElementChild;
    if (last) this.#drawEmitted(last.cells[2]);
  }

  #drawReader() {
    const [, cell, count] = this.#byId("emitted").cells;
    this.#drawEmitted(cell.querySelector(".tail > div"));
    this.#byId("emitted").classList.toggle("fresh", this.#emitted.length > 0);
    count.textContent = `${this.#characters} in all`;
  }

  #drawNaive(text) {
    appendNaive(this.#byId("naive"), text);
    this.#diamonds += text.split("\ufffd").length - 1;
    const count = this.#diamonds;
    const words = count ? `${count} × U+FFFD, the replacement character` : "";
    this.#byId("naive-count").textContent = words;
  }

  #drawToken(ids, { naive, held }) {
    const rows = this.#byId("timeline").tBodies[0];
    if (ids.length) {
      const row = make("tr");
      row.append(make("td", "token", ids.join(" ")), make("td", "alone"));
      row.append(make("td", "out"), make("td", "held"));
      appendNaive(row.cells[1], visible(naive ?? ""));
      appendRow(rows, row);
    }
    const last = rows.lastElementChild;
    if (!last) return;
    this.#drawEmittedByLast();
    last.cells[3].replaceChildren();
    for (const [layer, value] of Object.entries(held ?? {})) {
      if (!value.length || LATER.has(layer)) continue;
      const name = make("small", "", `${layer}: `);
      last.cells[3].append(name, make("span", "waiting", heldText(value)), " ");
    }
  }
}

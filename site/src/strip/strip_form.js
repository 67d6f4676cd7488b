// What is fed to the strip: a text, the stop strings, and which part of the lab takes them.

import { button, make } from "../dom.js";

const ROLES = {
  whole: "Text and ids",
  tokens: "Ids to text",
  stops: "Stop strings",
  calls: "Tool calls",
  reasoning: "Reasoning",
  pipeline: "The whole pipeline",
  channel: "A slow reader",
  frames: "The wire",
};
const MOST_CHARACTERS = 2000;
/** The stop with which labkit/browser/strip.py stores what references give. */
const STOP = "END";

export class StripForm {
  #parts;
  #select;
  #text = make("textarea", { id: "text", rows: 2, maxLength: MOST_CHARACTERS, spellcheck: false });
  #stops = make("input", { id: "stops", value: STOP, autocomplete: "off", spellcheck: false });
  #stopField;
  #examples = make("div", { className: "examples", role: "group", "aria-label": "Examples" });
  #play;
  /** Called when the text is to be played. */
  onPlay = () => {};

  /**
   * @param {object[]} parts of strip.json
   * @param {() => void} onChoose another part was chosen
   */
  constructor(parts, onChoose) {
    this.#parts = parts;
    this.#select = make("select", { id: "part" }, ...parts.map(({ role }) => option(role)));
    this.#stopField = field("stops", "Stop string", this.#stops);
    this.#play = make("button", { type: "submit", className: "main" }, "Play");
    this.element = this.#build();
    this.#select.addEventListener("change", () => {
      this.#fillIn();
      onChoose();
    });
    this.#fillIn();
  }

  /** The part that is chosen, of strip.json. */
  get part() {
    return this.#parts[this.#select.selectedIndex];
  }

  /** What to ask for. */
  get input() {
    const stops = this.part.stops && this.#stops.value ? [this.#stops.value] : [];
    return { part: this.part.role, text: this.#text.value, stops };
  }

  set isBusy(isBusy) {
    this.#play.setAttribute("aria-disabled", String(isBusy));
  }

  /** Whether this is an example as it comes. */
  isExample(text, stops) {
    const isUsual = !this.part.stops || (stops.length === 1 && stops[0] === STOP);
    return isUsual && Object.values(this.part.examples).includes(text);
  }

  #build() {
    const keys = "\\xff is a byte, \\n a line break. Ctrl+Enter plays.";
    const note = make("p", { className: "note", id: "keys" }, keys);
    this.#text.setAttribute("aria-describedby", "keys");
    const form = make(
      "form",
      { className: "card", "aria-label": "Input" },
      this.#parts.length > 1 && field("part", "Show", this.#select),
      field("text", "Text", this.#text),
      this.#examples,
      this.#stopField,
      make("div", "buttons", this.#play),
      note,
      make("div", { id: "alert", role: "alert" }),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.onPlay();
    });
    form.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      // The bench above has the same key.
      event.stopPropagation();
      this.onPlay();
    });
    return form;
  }

  #fillIn() {
    const { examples, stops } = this.part;
    this.#stopField.hidden = !stops;
    this.#text.value = Object.values(examples)[0];
    const buttons = Object.entries(examples).map(([name, text]) =>
      button(name, () => {
        this.#text.value = text;
        this.onPlay();
      }),
    );
    this.#examples.replaceChildren(...buttons);
  }
}

function option(role) {
  return new Option(ROLES[role] ?? role, role);
}

function field(id, label, control) {
  return make("div", "field", make("label", { for: id }, label), control);
}

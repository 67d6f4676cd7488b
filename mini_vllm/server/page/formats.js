// One call as each tool-call format writes it: to read, and to watch how the server reads it.

const byId = (id) => document.getElementById(id);

export class Formats {
  /** The texts by format, as the server plays them. */
  #texts = new Map();

  /** @param {(text: string, format: string) => void} play lets the model say a call. */
  constructor(play) {
    byId("format").addEventListener("change", () => this.#show());
    byId("play").addEventListener("click", () => play(this.#written(), byId("format").value));
  }

  /** Ask the server what it plays; without examples there is nothing to choose. */
  async load(headers) {
    const response = await fetch("say", { headers });
    const told = response.ok ? await response.json() : { can_say: false };
    this.#texts = new Map(told.can_say ? Object.entries(told.examples) : []);
    byId("format").replaceChildren(...[...this.#texts.keys()].map((name) => new Option(name, name)));
    byId("formats").hidden = !this.#texts.size;
    this.#show();
  }

  #written() {
    return this.#texts.get(byId("format").value) ?? "";
  }

  #show() {
    byId("written").textContent = this.#written();
  }
}

// One call as each tool-call format writes it: to read, and to watch how the server reads it.

const byId = (id) => document.getElementById(id);

export class Formats {
  /** The texts by format, as the server plays them. */
  #texts = new Map();

  /** @param {(format: string) => void} play asks the server for the example of a format. */
  constructor(play) {
    byId("format").addEventListener("change", () => this.#show());
    byId("play").addEventListener("click", () => play(byId("format").value));
  }

  /** Ask the server what it plays; without examples there is nothing to choose. */
  async load(headers) {
    const response = await fetch("tool_examples", { headers });
    this.#texts = new Map(response.ok ? Object.entries(await response.json()) : []);
    byId("format").replaceChildren(...[...this.#texts.keys()].map((name) => new Option(name, name)));
    byId("formats").hidden = !this.#texts.size;
    this.#show();
  }

  #show() {
    byId("written").textContent = this.#texts.get(byId("format").value) ?? "";
  }
}

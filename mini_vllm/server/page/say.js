// The box whose text the model says, the examples that fill it, and whose code the server runs.

const byId = (id) => document.getElementById(id);

export class Say {
  /** A call as each format writes it. */
  #calls = new Map();
  /** Whether the server's model says what it is given. */
  can = false;

  /** @param {() => void} play asks for what is in the box. */
  constructor(play) {
    byId("tool_format").addEventListener("change", () => {
      const call = this.#calls.get(byId("tool_format").value);
      if (call !== undefined) byId("say").value = call;
    });
    byId("play").addEventListener("click", play);
  }

  /** Ask the server what its model can be given to say. */
  async load(headers) {
    const response = await fetch("say", { headers });
    const nothing = { can_say: false, examples: {}, note: "" };
    const answer = response.ok ? await response.json() : nothing;
    this.can = answer.can_say;
    byId("whose").textContent = answer.note;
    this.#calls = new Map(Object.entries(answer.examples));
    const own = new Option("the model's own format", "");
    const others = [...this.#calls.keys()].map((name) => new Option(name, name));
    byId("tool_format").replaceChildren(own, ...others);
    byId("tool-format-field").hidden = !others.length;
    byId("saying").hidden = !this.can;
    for (const example of document.querySelectorAll("[data-needs-say]")) example.hidden = !this.can;
  }

  /** Fill the box with a text that is in the model's own format. */
  fill(text) {
    byId("saying").open = true;
    byId("say").value = text;
    byId("tool_format").value = "";
  }

  /** The fields of a request for what is in the box. */
  get fields() {
    return { say: byId("say").value, tool_format: byId("tool_format").value || undefined };
  }
}

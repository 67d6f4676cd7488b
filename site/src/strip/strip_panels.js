// The panels of the server's page, for a pipeline or the frames of the reader's: the same events
// that a server would send, made of the rows of the strip.

import { Panels } from "../../../mini_vllm/server/page/panels.js";
import { SseReader } from "../../../mini_vllm/server/page/sse.js";

/** Roles that are a whole path; the others have no use for the panels. */
const PATHS = ["pipeline", "frames"];
/** Sections of the page that show a path. */
const SECTIONS = ".answer, .naive, .layers, .timeline, .raw";

export class PathPanels {
  #root;
  #panels;
  #role = "";
  #reader = new SseReader();

  /** @param {ShadowRoot} root with the elements of the server's page */
  constructor(root) {
    this.#root = root;
    this.#panels = new Panels(root);
    const reader = root.querySelector("#answer .empty");
    reader.textContent = "Play a text.";
    root.querySelector("#held .empty").textContent = "The layers appear with the first token.";
  }

  /** Begin anew. */
  reset(role) {
    this.#role = role;
    this.#reader = new SseReader();
    const isPath = PATHS.includes(role);
    for (const section of this.#root.querySelectorAll(SECTIONS)) section.hidden = !isPath;
    this.#root.querySelector(".raw").hidden = role !== "frames";
    if (isPath) this.#panels.reset();
  }

  /** Add a row of the reader's own code. */
  add({ token, bytes, own, naive }) {
    if (!PATHS.includes(this.#role) || !own) return;
    const decoded = new TextDecoder().decode(new Uint8Array(bytes ?? []));
    const alone = naive ? textOf(naive.emitted) : decoded;
    const report = { token_ids: token === null ? [] : [token], held: own.held ?? {}, naive: alone };
    if (this.#role === "frames") this.#frames(own, report);
    else this.#panels.chunk({ choices: [choice(own)], mini_vllm: report });
  }

  /** What a client reads of the reader's frames. */
  #frames(own, report) {
    this.#panels.chunk({ choices: [], mini_vllm: report });
    const frames = new TextEncoder().encode(textOf(own.emitted));
    for (const { data, lines } of this.#reader.feed(frames)) {
      this.#panels.wire(lines);
      const chunk = data === null || data === "[DONE]" ? null : parsed(data);
      if (chunk) this.#panels.chunk(chunk);
    }
  }
}

/** JSON, or null: the reader's code may write anything. */
function parsed(data) {
  try {
    const value = JSON.parse(data);
    return value && typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}

const textOf = (emitted) => emitted.map(([, text]) => text).join("");

/** What a chat says of events. */
function choice({ emitted, ended }) {
  const delta = { tool_calls: [] };
  for (const [kind, text, index] of emitted) {
    if (kind === "reasoning") delta.reasoning_content = (delta.reasoning_content ?? "") + text;
    else if (kind === "call") delta.tool_calls.push({ index, function: { name: text } });
    else if (kind === "arguments") delta.tool_calls.push({ index, function: { arguments: text } });
    else delta.content = (delta.content ?? "") + text;
  }
  return { delta, finish_reason: ended };
}

// Server-sent events from the bytes of a response, however the network cut them.
// Only `data` is read: types, ids and reconnection belong to EventSource, which cannot POST.
// The rules: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream

export class SseReader {
  // It holds back bytes of a character (ignoring a byte order mark), a line and an event.
  #decoder = new TextDecoder();
  #line = "";
  #lines = [];
  #afterCarriageReturn = false;

  /**
   * Take the next bytes; return the events that are complete.
   * @param {Uint8Array} bytes
   * @returns {{data: string | null, lines: string[]}[]} `data` is null in a block without any, such
   *   as a comment that keeps the connection open; `lines` are the block as it was written.
   */
  feed(bytes) {
    return this.#take(this.#decoder.decode(bytes, { stream: true }));
  }

  /**
   * End the stream; return the lines of an event that was cut off, and which does not count as one.
   * Afterwards the reader is as good as new.
   * @returns {string[]}
   */
  flush() {
    this.#take(this.#decoder.decode());
    const rest = this.#line ? [...this.#lines, this.#line] : this.#lines;
    [this.#line, this.#lines, this.#afterCarriageReturn] = ["", [], false];
    return rest;
  }

  #take(text) {
    if (!text) return [];
    // A CR ends a line at once; the LF of a CRLF may come in the next piece.
    if (this.#afterCarriageReturn && text[0] === "\n") text = text.slice(1);
    this.#afterCarriageReturn = text.endsWith("\r");
    const lines = text.split(/\r\n|\r|\n/);
    lines[0] = this.#line + lines[0];
    this.#line = lines.pop();
    const events = [];
    for (const line of lines) {
      if (line) {
        this.#lines.push(line);
      } else if (this.#lines.length) {
        events.push({ data: dataOf(this.#lines), lines: this.#lines });
        this.#lines = [];
      }
    }
    return events;
  }
}

function dataOf(lines) {
  const data = [];
  for (const line of lines) {
    const field = /^data(?:: ?|$)/.exec(line);
    if (field) data.push(line.slice(field[0].length));
  }
  return data.length ? data.join("\n") : null;
}

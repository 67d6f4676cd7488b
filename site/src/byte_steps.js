// A text as bytes, decoded one by one, and by the rule of the course.

/**
 * @param {string} text
 * @returns {{byte: number, naive: string, right: string}[]} the emitted text of each byte, both ways
 */
export function stepsOf(text) {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  return [...new TextEncoder().encode(text)].map((byte) => {
    const piece = Uint8Array.of(byte);
    const right = decoder.decode(piece, { stream: true });
    return { byte, naive: new TextDecoder().decode(piece), right };
  });
}

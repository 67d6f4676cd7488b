// A step of a recording as a link: code, test and step are in the fragment, which no browser sends.

const NAME = "#step=";
/** Longer addresses are cut by some mail programs and chats. */
const MOST_CHARACTERS = 16_000;
/** The grader reads no longer file; a short fragment must not become gigabytes. */
const MOST_CODE = 64 << 10;

/**
 * @typedef {object} Link
 * @property {string} lab the lab's number
 * @property {string} test
 * @property {string} code
 * @property {number} step from 0, among those of the lab's own file: the steps of other files differ with their code
 * @property {number} line the line of that step
 */

export class TooLongError extends Error {}

/**
 * The address of a step.
 *
 * @param {Location | URL} here the page of the lab
 * @param {Link} link
 * @returns {Promise<string>} rejects with a TooLongError
 */
export async function linkTo(here, { lab, test, code, step, line }) {
  const packed = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(JSON.stringify([1, lab, test, step, line, code])));
  const text = btoa(String.fromCharCode(...packed)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const address = `${here.origin}${here.pathname}${NAME}${text}`;
  if (address.length <= MOST_CHARACTERS) return address;
  const size = address.length.toLocaleString("en");
  const most = MOST_CHARACTERS.toLocaleString("en");
  throw new TooLongError(`This code is too long for a link: it would have ${size} characters, and ${most} is the most. Send the file instead: Export, below.`);
}

export const isLink = (fragment) => fragment.startsWith(NAME);

/**
 * The step of a fragment.
 *
 * @returns {Promise<Link | null>} null if it is damaged
 */
export async function readLink(fragment) {
  try {
    const text = fragment.slice(NAME.length).replaceAll("-", "+").replaceAll("_", "/");
    if (text.length > MOST_CHARACTERS) return null;
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const data = await through(new DecompressionStream("deflate-raw"), bytes, 2 * MOST_CODE);
    const [version, lab, test, step, line, code] = JSON.parse(new TextDecoder().decode(data));
    const isGood = version === 1 && [lab, test, code].every((one) => typeof one === "string") && /^\w{1,100}$/.test(test) &&
      code.length <= MOST_CODE && [step, line].every((one) => Number.isInteger(one) && one >= 0);
    return isGood ? { lab, test, code, step, line } : null;
  } catch {
    return null;
  }
}

/** The number of a link's step in a recording of its code; the nearest step of its line if the recording has begun elsewhere. */
export function numberOf({ steps, opens }, { step, line }) {
  const own = [...steps.keys()].filter((number) => !steps[number].part);
  const [nearest] = own
    .map((number, place) => ({ number, far: Math.abs(place - step) }))
    .filter(({ number }) => steps[number].line === line)
    .sort((one, other) => one.far - other.far);
  return nearest?.number ?? opens ?? 0;
}

/** What a stream makes of some bytes; an error beyond so many of them. */
async function through(stream, bytes, most = Infinity) {
  const parts = [];
  let length = 0;
  for await (const part of readAll(new Blob([bytes]).stream().pipeThrough(stream))) {
    parts.push(part);
    length += part.length;
    if (length > most) throw new RangeError("too long");
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

async function* readAll(stream) {
  const reader = stream.getReader();
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
  } finally {
    reader.cancel().catch(() => {});
  }
}

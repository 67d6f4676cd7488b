// Code that is only to be read: of a link, with the line of its step.

import { make } from "../dom.js";

/**
 * Code as an element, `node`; `show` marks a line, counted from 1, once the element is in the page.
 *
 * @param {string} code
 */
export function recordedCode(code) {
  const lines = code.split("\n").map((text, place) => make("div", "", make("span", "number", String(place + 1)), text));
  const label = { className: "code", tabindex: "0", role: "region", "aria-label": "The recorded code, read-only" };
  const box = make("div", label, ...lines);
  const show = (line) => {
    const here = lines[line - 1];
    if (!here) return;
    here.classList.add("here");
    box.scrollTop = here.offsetTop - box.clientHeight / 2;
  };
  return { node: make("div", "steps", box), show };
}

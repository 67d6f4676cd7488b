// The demo of the landing page: a text that one types, as a client would see it arrive.

import { stepsOf } from "./byte_steps.js";
import { byId, make } from "./dom.js";

/** More than this would only make the page long. */
const MOST_BYTES = 48;
const EXAMPLE = "Hi 🚀";

const hex = (byte) => byte.toString(16).toUpperCase().padStart(2, "0");

function row({ byte, naive, right }) {
  const isBroken = naive === "\ufffd";
  return make("tr", "", make("td", "", hex(byte)), make("td", isBroken ? "broken" : "", naive), make("td", "", right));
}

function openDemo(box) {
  const input = make("input", { type: "text", value: EXAMPLE, maxLength: 200, autocomplete: "off" });
  const label = make("label", "", "Type an answer: emoji, accents, any language ", input);
  const naive = make("output");
  const right = make("output");
  const sums = make(
    "dl",
    "",
    make("dt", "", "Each token decoded alone"),
    make("dd", "naive", naive),
    make("dt", "", "By the rule"),
    make("dd", "right", right),
  );
  const heads = ["token", "alone", "by the rule"].map((text) => make("th", { scope: "col" }, text));
  const body = make("tbody");
  const caption = make("caption", "", "One row a token; here a token is a byte");
  const table = make("table", "", caption, make("thead", "", make("tr", "", ...heads)), body);
  const more = make("p", "more");
  const draw = () => {
    const steps = stepsOf(input.value);
    naive.textContent = steps.map((step) => step.naive).join("");
    right.textContent = steps.map((step) => step.right).join("");
    body.replaceChildren(...steps.slice(0, MOST_BYTES).map(row));
    more.textContent = steps.length > MOST_BYTES ? `… and ${steps.length - MOST_BYTES} more tokens` : "";
  };
  input.addEventListener("input", draw);
  draw();
  const scrolls = { className: "steps", tabindex: "0", role: "group", "aria-label": "Tokens" };
  box.replaceChildren(label, sums, make("div", scrolls, table), more);
}

if (byId("demo")) openDemo(byId("demo"));

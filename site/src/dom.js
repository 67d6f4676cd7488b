// Makes elements. Data becomes text nodes, never markup.

/** The element with an id. */
export const byId = (id) => document.getElementById(id);

/**
 * A new element.
 *
 * @param {string} tag
 * @param {string | object} [properties] its class, or properties and `data`, `aria-*`, `role`, `for`
 * @param {...(Node | string | null | undefined | false)} children
 */
export function make(tag, properties = "", ...children) {
  const element = document.createElement(tag);
  const given = typeof properties === "string" ? { className: properties } : properties;
  for (const [name, value] of Object.entries(given)) {
    if (name === "data") Object.assign(element.dataset, value);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (/^aria-|^(role|for|scope|tabindex|download)$/.test(name)) element.setAttribute(name, value);
    else if (name !== "className" || value) element[name] = value;
  }
  element.append(...children.filter((child) => child || child === 0 || child === ""));
  return element;
}

/** A button that does not send a form. */
export function button(text, onclick, properties = {}) {
  return make("button", { type: "button", onclick, ...properties }, text);
}

/** The nodes of a name that a narrow column may break after each underscore. */
export function breakable(name) {
  return name.split(/(?<=_)/).flatMap((part, place) => (place ? [make("wbr"), part] : [part]));
}

/** `1 test`, `2 tests`. */
export function count(number, one, many = `${one}s`) {
  return `${number} ${number === 1 ? one : many}`;
}

/** The nodes of a text in which `backticks` hold code. */
export function withCode(text) {
  return text.split(/`([^`]+)`/).map((part, place) => (place % 2 ? make("code", "", part) : part));
}

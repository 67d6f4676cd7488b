// Text of the course that was Markdown: only its plain elements are taken over.

const TAGS = new Set(
  "P BR CODE PRE EM STRONG A UL OL LI DL DT DD TABLE THEAD TBODY TR TH TD BLOCKQUOTE KBD SPAN".split(" "),
);

function taken(node) {
  if (node.nodeType === Node.TEXT_NODE) return [document.createTextNode(node.data)];
  if (node.nodeType !== Node.ELEMENT_NODE) return [];
  const children = [...node.childNodes].flatMap(taken);
  if (!TAGS.has(node.tagName)) return children;
  const element = document.createElement(node.tagName);
  const href = node.getAttribute("href");
  if (href && /^(https?:|#|\.|[\w-]+(\/|$))/.test(href)) element.setAttribute("href", href);
  element.append(...children);
  return [element];
}

/** The nodes of a piece of HTML. */
export function prose(html) {
  const { body } = new DOMParser().parseFromString(html, "text/html");
  return [...body.childNodes].flatMap(taken);
}

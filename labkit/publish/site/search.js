// Lets the index of the search wait until a reader is about to search: it is most of what a page
// would load. Runs before the generator's script, which asks for the index at once.

const SIGNS = ["keydown", "pointerover", "focusin", "click"];

/** Resolves when a key is pressed, or the search button is pointed at, focused or pressed. */
const aboutToSearch = new Promise((resolve) => {
  const look = (event) => {
    if (event.type !== "keydown" && !event.target.closest?.(".md-search")) return;
    for (const sign of SIGNS) removeEventListener(sign, look, true);
    resolve();
  };
  for (const sign of SIGNS) addEventListener(sign, look, true);
});

/** One that sends a request for the index later, and any other at once. */
globalThis.XMLHttpRequest = class extends XMLHttpRequest {
  #isIndex = false;

  open(method, url, ...rest) {
    this.#isIndex = new URL(url, location.href).pathname.endsWith("/search.json");
    super.open(method, url, ...rest);
  }

  send(body) {
    if (this.#isIndex) aboutToSearch.then(() => super.send(body));
    else super.send(body);
  }
};

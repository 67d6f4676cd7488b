// Entry of a lab's page. The editor is loaded when the bench comes near, Python when it is used.

import "./page.js";
import { button, byId, make } from "./dom.js";
import { Layout } from "./desk/layout.js";
import { putButtons } from "./desk/text_buttons.js";
import { isLink } from "./show/link.js";

/** How near, before it is in view. */
const NEAR = "400px";

const bench = byId("bench");
const strip = byId("strip");
let opening = null;

const layout = new Layout(async () => (await openHere())?.focus());

function open() {
  opening ??= import("./desk/desk.js").then(({ openDesk }) => openDesk(bench, layout));
  return opening;
}

/** Open the bench; return its desk, null if it cannot be loaded. */
async function openHere() {
  try {
    return await open();
  } catch (error) {
    opening = null;
    const words = `The bench could not be loaded: ${error.message}. If it fails again, reload the page: the site may have a newer version.`;
    const again = button("Try again", openHere);
    const hadFocus = bench.contains(document.activeElement);
    bench.replaceChildren(make("p", { role: "alert" }, words, " ", again));
    if (hadFocus) again.focus();
    return null;
  }
}

/** Open the code, and have the desk do something. */
async function withDesk(act) {
  if (!layout.isOpen) layout.open();
  const desk = await openHere();
  if (desk) act(desk);
}

function whenNear(element, act) {
  const seen = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      seen.disconnect();
      act();
    },
    { rootMargin: NEAR },
  );
  seen.observe(element);
}

/** The strip needs the bench's code, so it opens after it. */
async function openStripHere() {
  try {
    const [{ openStrip }, desk] = await Promise.all([import("./strip/strip.js"), open()]);
    await openStrip(strip, desk);
  } catch (error) {
    const words = `The strip could not be loaded: ${error.message}.`;
    strip.replaceChildren(make("p", { role: "alert" }, words));
  }
}

/** The bench opens when it is in view: at once in a wide window. */
function begin() {
  bench.replaceChildren(button("Open the editor", openHere, { className: "main" }));
  bench.parentElement.append(layout.dock);
  layout.begin();
  putButtons(bench.parentElement, bench.dataset.lab, {
    run: (task) => withDesk((desk) => desk.run(task)),
    showHint: (task) => withDesk((desk) => desk.showHint(task)),
  });
  if (isLink(location.hash)) layout.open();
  addEventListener("hashchange", () => {
    const part = document.querySelector("article :target");
    if (part) layout.showText(part);
  });
  whenNear(bench, openHere);
}

if (bench) begin();
if (bench && strip) whenNear(strip, openStripHere);

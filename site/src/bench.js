// Entry of a lab's page. The editor is loaded when the bench comes near, Python when it is used.

import "./page.js";
import { button, byId, make } from "./dom.js";

/** How near, before it is in view. */
const NEAR = "400px";

const bench = byId("bench");
const strip = byId("strip");
let opening = null;

function open() {
  opening ??= import("./desk.js").then(({ openDesk }) => openDesk(bench));
  return opening;
}

async function openHere() {
  try {
    const hadFocus = bench.contains(document.activeElement);
    const desk = await open();
    if (hadFocus) desk.focus();
  } catch (error) {
    opening = null;
    const words = `The bench could not be loaded: ${error.message}.`;
    bench.replaceChildren(make("p", { role: "alert" }, words, " ", button("Try again", openHere)));
  }
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
    const [{ openStrip }, desk] = await Promise.all([import("./strip.js"), open()]);
    await openStrip(strip, desk);
  } catch (error) {
    const words = `The strip could not be loaded: ${error.message}.`;
    strip.replaceChildren(make("p", { role: "alert" }, words));
  }
}

if (bench) {
  bench.replaceChildren(button("Open the editor", openHere, { className: "main" }));
  whenNear(bench, openHere);
}
if (bench && strip) whenNear(strip, openStripHere);

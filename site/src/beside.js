// Reading and writing side by side: the bench as the right half of a wide window.

import { button } from "./dom.js";

const KEY = "bench-beside";
const CLASS = "bench-beside";
const WIDE = matchMedia("(min-width: 1100px)");

/** Whether the reader left it so. */
function isWished() {
  try {
    return localStorage.getItem(KEY) === "yes";
  } catch {
    return false; // Nothing is stored in this window.
  }
}

function remember(wish) {
  try {
    localStorage.setItem(KEY, wish ? "yes" : "no");
  } catch {
    // It holds for this page, then.
  }
}

/**
 * Two buttons that put the bench beside the text and back: one for the top of the page, one for the
 * bench. A style sheet shows them in wide windows only.
 *
 * @param {(isBeside: boolean) => void} onChange
 */
export function besideButtons(onChange) {
  const top = button("Write beside the text", () => set(true), { className: "beside" });
  const here = button("Beside the text", () => set(!isBeside()), { className: "beside" });
  const isBeside = () => document.body.classList.contains(CLASS);

  function set(wish) {
    remember(wish);
    draw(wish);
    onChange(wish);
  }
  function draw(wish) {
    document.body.classList.toggle(CLASS, wish);
    here.textContent = wish ? "Below the text" : "Beside the text";
    top.hidden = wish;
  }
  draw(false);
  return {
    top,
    here,
    /** Do as the reader left it, if the window is wide; say so if it is done. */
    restore(onRestore) {
      if (!isWished() || !WIDE.matches) return;
      draw(true);
      onRestore();
    },
  };
}

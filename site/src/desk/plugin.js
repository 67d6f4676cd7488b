// A lab that passes as a file for real engines: a button in the report of a pass.

import { button, make } from "../dom.js";
import { save } from "./shelf.js";

const TITLE = "Plug-in for vLLM and SGLang";
const WHAT = "Your parser as one file that these engines load; the commands are at its top.";

/**
 * Offer the file of a lab, below the points.
 *
 * @param {import("./desk.js").Desk} desk
 * @param {HTMLElement} report
 */
export function offerPlugin(desk, report) {
  if (!desk.lab.has_plugin || !report.querySelector(".score.all")) return;
  const offer = button(TITLE, () => download(desk), { className: "plugin" });
  report.querySelector("progress").after(make("p", "", offer, " ", make("small", "", WHAT)));
}

async function download(desk) {
  desk.say("Writing the file, as make plugin does …");
  try {
    const asked = { lab: desk.lab.number, files: await desk.sources(), progress: desk.progress };
    const { text, name } = await desk.call("plugin", asked);
    save(name, text, "text/x-python");
    desk.say(`${name} is in your downloads.`);
  } catch (error) {
    desk.say(`No plug-in: ${error.message}`);
  }
}

// What is done with the code as a file: download, open, reset, and the reference for comparison.

import { backupOf, readBackup } from "../store/backup.js";
import { button, make } from "../dom.js";
import { Editor } from "./editor.js";
import { keepCourse, sizeOfCourse } from "../page.js";

/** Where the browser keeps the name for zips. */
const NAME = "course-student";

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
}

async function base64Of(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

/** The text of a file; an error in words if it is not UTF-8, which Python needs. */
async function textOf(file) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch (error) {
    if (error instanceof TypeError) throw new Error("it is not UTF-8: save it as UTF-8");
    throw error;
  }
}

/** Hand a file to the reader, as a download. */
export function save(name, data, type) {
  const url = URL.createObjectURL(new Blob([data], { type }));
  const link = make("a", { href: url, download: name });
  link.click();
  // The download has begun when the page comes round to this.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

function lastName() {
  try {
    return localStorage.getItem(NAME) ?? "";
  } catch {
    return ""; // Nothing is stored in this window.
  }
}

function rememberName(name) {
  try {
    localStorage.setItem(NAME, name);
  } catch {
    // It holds for this page, then.
  }
}

function megabytes(bytes) {
  return `${Math.max(1, Math.round(bytes / 1e6))} MB`;
}

export class Shelf {
  #desk;
  #file = make("input", {
    type: "file",
    accept: ".py,.zip,.json",
    hidden: true,
    onchange: () => this.#open(),
  });
  #student = make("input", {
    type: "text",
    autocomplete: "name",
    value: lastName(),
    oninput: () => rememberName(this.#student.value),
  });
  #offline = button("Keep this course offline", () => this.#keepOffline(), {
    className: "quiet",
    hidden: true,
  });
  #solution = button("Solution", () => this.#showSolution(), { className: "quiet", hidden: true });
  /** The buttons, and the place where the reference is shown. */
  bar;
  box = make("div", { className: "solution", hidden: true });

  /** @param {import("./desk.js").Desk} desk */
  constructor(desk) {
    this.#desk = desk;
    const quiet = { className: "quiet" };
    const name = make("label", "student", "Name, if your course asks for it ", this.#student);
    this.bar = make(
      "div",
      "bar shelf",
      button("Download", () => this.#download(), quiet),
      button("Open …", () => this.#file.click(), quiet),
      button("Export all", () => this.#export(), quiet),
      button("Reset", () => this.#reset(), quiet),
      this.#offline,
      this.#solution,
      name,
      this.#file,
    );
  }

  /** Show what the reader may see by now. */
  draw() {
    this.#solution.hidden = !(this.#desk.lab.has_solution && this.#desk.isSolved);
  }

  /** Offer to keep the course, unless all of it is kept. */
  async offerOffline() {
    const { left } = await sizeOfCourse();
    this.#offline.hidden = left === 0;
    this.#offline.textContent = `Keep this course offline (${megabytes(left)})`;
  }

  async #keepOffline() {
    const say = ({ left }) => this.#desk.say(`Keeping the course: ${megabytes(left)} to go …`);
    this.#offline.setAttribute("aria-disabled", "true");
    const { left } = await keepCourse(say);
    this.#offline.setAttribute("aria-disabled", "false");
    this.#offline.hidden = left === 0;
    this.#desk.say(
      left === 0
        ? "The whole course is kept in this browser, and works offline."
        : `${megabytes(left)} of the course could not be kept. Are you online, with room on the disk?`,
    );
  }

  async #export() {
    save("course.json", backupOf(await this.#desk.everything()), "application/json");
    this.#desk.say("course.json has your code and progress in all labs; Open … takes it back.");
  }

  /** Take over code and progress of all labs from an export. */
  async #restore(name, text) {
    const all = readBackup(text);
    const before = await this.#desk.restore(all);
    const others = Object.keys(all.code).filter((number) => !(number in before.code));
    const undo = button("Undo", async () => {
      await this.#desk.restore(before);
      this.#desk.say("Your code is restored.");
    });
    const but = others.length ? ` This course has no lab ${others.join(", ")}.` : "";
    this.#desk.say(`${name}: code and progress are loaded.${but}`, undo);
  }

  async #download() {
    const { lab, progress } = this.#desk;
    const student = this.#student.value.trim();
    const only = button("Only starter.py", () => save("starter.py", this.#desk.text, "text/x-python"));
    this.#desk.say("Packing the zip, as make bundle does …", only);
    try {
      const files = await this.#desk.sources();
      const asked = { lab: lab.number, files, progress, student };
      const { zip, name } = await this.#desk.call("bundle", asked);
      save(name, bytesOf(zip), "application/zip");
      this.#desk.say(`${name} is in your downloads.`);
    } catch (error) {
      this.#desk.say(`The zip could not be made: ${error.message}`, only);
    }
  }

  async #open() {
    const [file] = this.#file.files;
    this.#file.value = "";
    if (!file) return;
    try {
      if (/\.json$/i.test(file.name)) return await this.#restore(file.name, await file.text());
      const { number } = this.#desk.lab;
      const files = /\.zip$/i.test(file.name)
        ? (await this.#desk.call("open", { zip: await base64Of(file), lab: number })).files
        : { [number]: await textOf(file) };
      const before = await this.#desk.replace(files);
      const labs = Object.keys(files).sort();
      const whose = labs.length > 1 ? `labs ${labs.join(", ")}` : `lab ${labs[0]}`;
      this.#desk.say(`${file.name}: the code of ${whose} is loaded.`, this.#undo(before));
    } catch (error) {
      this.#desk.say(`${file.name} could not be opened: ${error.message}`);
    }
  }

  async #reset() {
    const { lab } = this.#desk;
    const before = await this.#desk.replace({ [lab.number]: lab.starter });
    this.#desk.say("This is the fresh starter.py.", this.#undo(before));
  }

  #undo(before) {
    return button("Undo", async () => {
      await this.#desk.replace(before);
      this.#desk.say("Your code is restored.");
    });
  }

  async #showSolution() {
    const { lab, base } = this.#desk;
    if (!this.box.hidden) {
      this.box.hidden = true;
      return;
    }
    if (!this.box.firstChild) {
      const response = await fetch(new URL("solutions.json", base));
      const solutions = response.ok ? await response.json() : {};
      if (!solutions[lab.number]) {
        this.#desk.say("The reference could not be loaded. Are you online?");
        return;
      }
      const frame = make("div", "editor");
      this.box.append(make("h3", "", "The reference"), frame);
      const label = `The reference of lab ${lab.number}`;
      new Editor(frame, { text: solutions[lab.number], label, readOnly: true });
    }
    this.box.hidden = false;
  }
}

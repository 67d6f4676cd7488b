// The page's controls: read the form, ask the server, hand its answer to the playback and panels.
// Every prompt starts a new conversation.

import { Dashboard } from "./dashboard.js";
import { Panels } from "./panels.js";
import { Playback } from "./playback.js";
import { Say } from "./say.js";
import { SseReader } from "./sse.js";

const byId = (id) => document.getElementById(id);
const form = byId("ask");
const panels = new Panels();
const playback = new Playback({
  draw,
  erase: () => panels.reset(idle),
  reach,
  changed: drawState,
});
const say = new Say(play);
new Dashboard(byId("dashboard"), headers);
const isWide = matchMedia("(min-width: 900px)");
/** The request whose answer comes in, or null. */
let run = null;
/** How it is going. */
let state = "Ready";
/** Of each layer that has nothing to do in the last request: why. */
let idle = {};

/** An error about a field of the form. */
class FieldError extends Error {
  constructor(field, message) {
    super(message);
    this.field = field;
  }
}

function number(name) {
  const field = form.elements[name];
  if (field.validity.badInput) throw new FieldError(name, `${name} is not a number`);
  return field.value === "" ? undefined : field.valueAsNumber;
}

function tools() {
  if (!byId("use-tools").checked) return undefined;
  try {
    return JSON.parse(byId("tools").value);
  } catch (error) {
    throw new FieldError("tools", `The tools are not JSON: ${error.message}`);
  }
}

function requestBody() {
  const stops = byId("stop").value.split("\n").filter(Boolean);
  return {
    model: byId("model").value || undefined,
    messages: [{ role: "user", content: byId("prompt").value }],
    stream: true,
    stream_options: { include_usage: true },
    return_held: true,
    stop: stops.length ? stops.map((stop) => stop.replaceAll("\\n", "\n")) : undefined,
    tools: tools(),
    max_tokens: number("max_tokens"),
    temperature: number("temperature"),
    seed: number("seed"),
  };
}

function headers() {
  const key = byId("key").value;
  const json = { "Content-Type": "application/json" };
  return key ? { ...json, Authorization: `Bearer ${key}` } : json;
}

/** Return the error that a refusal reports. */
async function refusal(response) {
  const body = await response.json().catch(() => null);
  const { message, param } = body?.error ?? {};
  const wait = response.headers.get("Retry-After");
  const words = [`${response.status}: ${message ?? response.statusText}`];
  if (wait) words.push(`Try again in ${wait} s.`);
  return new FieldError(param?.match(/^\w+/)?.[0], words.join(" "));
}

/** Add to the browser's words where the connection failed. */
function explain(error, where) {
  return error instanceof TypeError ? new Error(`${where}: ${error.message}`) : error;
}

function idleLayers({ stop, tools, tool_format }) {
  return {
    ...(!stop && { stops: "no stop strings given" }),
    ...(!tools && !tool_format && { calls: "no tools offered" }),
  };
}

/** Make room for the answer where the form is above it. */
function fold() {
  byId("asked").textContent = byId("prompt").value;
  if (isWide.matches) return;
  const request = byId("request");
  const hadFocus = request.contains(document.activeElement);
  request.open = false;
  if (hadFocus) request.firstElementChild.focus();
  scrollTo(0, 0);
}

/** Ask the server, and show what comes. `more` are further fields of the request. */
async function send(more = {}) {
  stop();
  clearErrors();
  playback.clear();
  panels.reset();
  fold();
  const mine = { controller: new AbortController(), done: false, failed: false };
  run = mine;
  setState("Waiting");
  let where = "The server cannot be reached";
  try {
    const body = { ...requestBody(), ...more };
    idle = idleLayers(body);
    panels.reset(idle);
    const response = await fetch("v1/chat/completions", {
      method: "POST",
      headers: headers(),
      body: JSON.stringify(body),
      signal: mine.controller.signal,
    });
    if (!response.ok) throw await refusal(response);
    where = "The stream broke off";
    const events = new SseReader();
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (run !== mine) return;
      if (done) break;
      for (const event of events.feed(value)) playback.push(read(event));
    }
    playback.push({ token: false, lines: events.flush() });
    playback.push({ token: false, lines: [], end: true });
  } catch (error) {
    const item = { token: false, lines: [], end: true, error: explain(error, where) };
    if (run === mine) playback.push(item);
  }
}

/** Turn an event of the stream into an item for the playback. */
function read({ data, lines }) {
  if (data === null) return { token: false, lines };
  if (data === "[DONE]") return { token: false, lines, done: true };
  try {
    const chunk = JSON.parse(data);
    const error = chunk.error && new Error(chunk.error.message ?? "The server reports an error");
    return { token: chunk.mini_vllm?.token_ids?.length ?? 0, lines, chunk, error };
  } catch {
    return { token: false, lines, error: new Error("An event of the stream is not JSON") };
  }
}

function draw({ lines, chunk, error }) {
  if (lines.length) panels.wire(lines);
  if (chunk && !error) panels.chunk(chunk);
}

/** What an item says of the run, when it is shown for the first time. */
function reach({ done, error, chunk, end }) {
  if (done) run.done = true;
  if (error) {
    run.failed = true;
    showError(error);
  } else if (chunk) {
    setState("Receiving");
  }
  if (!end) return;
  if (!run.done && !run.failed) {
    run.failed = true;
    showError(new Error("The stream broke off before its end"));
  }
  finish(run.failed ? "Failed" : "Finished");
}

/** Abort the request and forget what has not been shown yet. */
function stop() {
  if (!run) return;
  run.controller.abort();
  playback.drop();
  finish("Stopped");
}

function finish(how) {
  run = null;
  setState(how);
}

function setState(next) {
  state = next;
  drawState();
}

/** What is going on, in a word: a pause counts while something is to come. */
function status() {
  const isOver = !run && !playback.waiting && state !== "Ready";
  if (playback.paused && !isOver) return "Paused";
  return !run && playback.waiting ? "Playing" : state;
}

function drawState() {
  // Screen readers announce every change, so the text is set only if it differs.
  const word = status();
  if (byId("status").textContent !== word) byId("status").textContent = word;
  byId("status").dataset.is = word;
  byId("answer").setAttribute("aria-busy", String(Boolean(run || playback.waiting)));
  byId("stop-button").setAttribute("aria-disabled", String(!run));
  byId("back").setAttribute("aria-disabled", String(!playback.token));
  byId("pause").textContent = playback.paused ? "Play" : "Pause";
  const parts = [];
  if (panels.tokens) parts.push(`${panels.tokens} ${panels.tokens === 1 ? "token" : "tokens"}`);
  const waiting = playback.waitingTokens;
  if (waiting) parts.push(`${waiting} waiting`);
  byId("progress").textContent = parts.join(", ");
  byId("seek").max = playback.tokens;
  byId("seek").value = playback.token;
}

function clearErrors() {
  byId("alert").textContent = "";
  for (const field of form.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-errormessage");
  }
}

function showError(error) {
  byId("alert").textContent = error.message;
  const field = error.field && form.elements[error.field];
  if (field) {
    for (let box = field; (box = box.parentElement.closest("details")); ) box.open = true;
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-errormessage", "alert");
    field.focus();
  }
}

async function listModels() {
  try {
    const response = await fetch("v1/models", { headers: headers() });
    if (!response.ok) throw await refusal(response);
    const models = (await response.json()).data;
    await say.load(headers());
    byId("model").replaceChildren(...models.map(({ id }) => new Option(id, id)));
  } catch (error) {
    showError(explain(error, "The server cannot be reached"));
  }
}

function setTools(on) {
  byId("use-tools").checked = on;
  byId("tools").hidden = !on;
}

function setPace() {
  const pace = byId("pace").valueAsNumber;
  byId("pace-value").textContent = pace ? `${pace} ms a token` : "as they come";
  playback.setPace(pace);
}

/** Let the model say what is in the box. */
function play() {
  send(say.fields);
}

/** Fill in an example and ask it. What it is to show is said, if the model can be made to. */
function ask(example) {
  byId("prompt").value = example.prompt;
  byId("stop").value = example.stop ?? "";
  setTools("tools" in example);
  if (!example.say || !say.can) return send();
  say.fill(example.say);
  return play();
}

const togglePause = () => playback.setPaused(!playback.paused);
const KEYS = {
  Escape: stop,
  F7: () => playback.back(),
  F8: togglePause,
  F9: () => playback.step(),
};

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    if (byId("saying").contains(event.target)) play();
    else send();
  } else if (Object.hasOwn(KEYS, event.key) && !event.isComposing) {
    event.preventDefault();
    KEYS[event.key]();
  }
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
for (const example of document.querySelectorAll("[data-prompt]")) {
  example.addEventListener("click", () => ask(example.dataset));
}
byId("stop-button").addEventListener("click", stop);
byId("back").addEventListener("click", () => playback.back());
byId("pause").addEventListener("click", togglePause);
byId("step").addEventListener("click", () => playback.step());
byId("seek").addEventListener("input", () => playback.seek(byId("seek").valueAsNumber));
byId("pace").addEventListener("input", setPace);
byId("use-tools").addEventListener("change", (event) => setTools(event.target.checked));
byId("key").addEventListener("change", () => {
  clearErrors();
  listModels();
});

// On a small screen the answer comes before the settings.
byId("settings").open = isWide.matches;
setTools(false);
setPace();
listModels();

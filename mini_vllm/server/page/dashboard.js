// An operator's dashboard: reads /metrics every two seconds while it is open, and draws the last
// five minutes. What is drawn is what the server counts, over all requests and clients.

const EVERY = 2000;
const LONGEST = 5 * 60 * 1000;
const SHORTEST = 60 * 1000;
const WIDTH = 300;
const HEIGHT = 64;
const SVG = "http://www.w3.org/2000/svg";
const LINE = /^([\w:]+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** Read Prometheus' text format: a list of { name, labels, value }. */
export function parseMetrics(text) {
  const samples = [];
  for (const line of text.split("\n")) {
    const match = LINE.exec(line);
    if (!match) continue;
    const labels = Object.fromEntries(
      [...(match[2] ?? "").matchAll(LABEL)].map(([, name, value]) => [name, value]),
    );
    samples.push({ name: match[1], labels, value: Number(match[3]) });
  }
  return samples;
}

/** The numbers of one scrape that the charts need. `time` is in milliseconds. */
export function readScrape(text, time) {
  const samples = parseMetrics(text);
  const sum = (name) =>
    samples.filter((one) => one.name === name).reduce((total, one) => total + one.value, 0);
  const held = samples.filter((one) => one.name === "mini_vllm:held_characters");
  return {
    time,
    tokens: sum("vllm:generation_tokens_total"),
    firstSum: sum("vllm:time_to_first_token_seconds_sum"),
    firstCount: sum("vllm:time_to_first_token_seconds_count"),
    running: sum("vllm:num_requests_running"),
    waiting: sum("vllm:num_requests_waiting"),
    held: Object.fromEntries(held.map((one) => [one.labels.layer, one.value])),
  };
}

/** The counters of a scrape before another; a server that was restarted counts from 0 again. */
function counted(last, now) {
  return now.tokens < last.tokens ? { ...last, tokens: 0, firstSum: 0, firstCount: 0 } : last;
}

/** The lines of each chart, as points [time, value]; a rate needs two scrapes. */
export function linesOf(scrapes) {
  const between = (value) =>
    scrapes.slice(1).flatMap((scrape, index) => {
      const y = value(scrape, counted(scrapes[index], scrape));
      return y === null ? [] : [[scrape.time, y]];
    });
  const each = (value) => scrapes.map((scrape) => [scrape.time, value(scrape)]);
  const layers = [...new Set(scrapes.flatMap((scrape) => Object.keys(scrape.held)))];
  return {
    tokens: {
      "tokens/s": between(
        (now, last) => (1000 * (now.tokens - last.tokens)) / (now.time - last.time),
      ),
    },
    first: {
      ms: between((now, last) =>
        now.firstCount > last.firstCount
          ? (1000 * (now.firstSum - last.firstSum)) / (now.firstCount - last.firstCount)
          : null,
      ),
    },
    held: Object.fromEntries(layers.map((layer) => [layer, each((one) => one.held[layer] ?? 0)])),
    slots: { running: each((one) => one.running), waiting: each((one) => one.waiting) },
  };
}

const rounded = (value) => (value >= 100 ? value.toFixed(0) : String(Number(value.toFixed(1))));

/** Draws the charts of the element `root`, whose figures have the names of charts. */
export class Dashboard {
  #root;
  #headers;
  #scrapes = [];
  #timer = 0;

  /** `headers` returns the headers of a request. */
  constructor(root, headers) {
    this.#root = root;
    this.#headers = headers;
    root.addEventListener("toggle", () => this.#turn());
    document.addEventListener("visibilitychange", () => this.#turn());
  }

  #turn() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    if (this.#root.open && !document.hidden) this.#scrape();
  }

  async #scrape() {
    const mine = (this.#timer = setTimeout(() => this.#turn(), EVERY));
    let problem = "";
    try {
      const response = await fetch("metrics", { headers: this.#headers() });
      if (!response.ok) throw new Error(`/metrics answers ${response.status}`);
      this.add(readScrape(await response.text(), Date.now()));
    } catch (error) {
      problem = error.message;
    }
    if (mine === this.#timer) this.#root.querySelector(".problem").textContent = problem;
  }

  /** Add the numbers of a scrape, and draw. */
  add(scrape) {
    this.#scrapes.push(scrape);
    this.#scrapes = this.#scrapes.filter(({ time }) => time > scrape.time - LONGEST);
    for (const [name, lines] of Object.entries(linesOf(this.#scrapes))) {
      this.#draw(this.#root.querySelector(`[data-chart="${name}"]`), lines, scrape.time);
    }
  }

  #draw(figure, lines, now) {
    const most = Math.max(1, ...Object.values(lines).flatMap((line) => line.map(([, y]) => y)));
    const span = Math.max(SHORTEST, now - this.#scrapes[0].time);
    const x = (time) => WIDTH - ((now - time) / span) * WIDTH;
    const y = (value) => HEIGHT - 1 - (value / most) * (HEIGHT - 2);
    const paths = Object.values(lines).map((line, index) => {
      const path = document.createElementNS(SVG, "polyline");
      const points = line.map(([time, value]) => `${x(time).toFixed(1)},${y(value).toFixed(1)}`);
      path.setAttribute("points", points.join(" "));
      path.setAttribute("class", `line line-${index}`);
      return path;
    });
    figure.querySelector("svg").replaceChildren(...paths);
    figure.querySelector(".most").textContent = rounded(most);
    const keys = Object.entries(lines).map(([name, line], index) => {
      const key = document.createElement("span");
      key.className = `key line-${index}`;
      key.textContent = `${name} ${line.length ? rounded(line.at(-1)[1]) : "–"}`;
      return key;
    });
    figure.querySelector(".keys").replaceChildren(...keys);
  }
}

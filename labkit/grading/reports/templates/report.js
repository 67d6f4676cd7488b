"use strict";
// Text goes into the page as text, never as markup: all of it comes from submissions.
const make = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};

for (const section of document.querySelectorAll("section[data-lab]")) {
  const data = JSON.parse(document.getElementById(section.id + "-data").textContent);

  const unfold = (details, fill) => details.addEventListener("toggle", () => {
    if (details.open && !details.dataset.full) { details.dataset.full = "yes"; fill(details); }
  });

  // Failures get the whole width: a row of their own below the student's.
  for (const details of section.querySelectorAll("details[data-row]")) {
    const row = details.closest("tr");
    unfold(details, () => {
      const cell = make("td");
      cell.colSpan = row.cells.length;
      for (const [test, message, kind] of data.failures[details.dataset.row]) {
        const [name, rule] = data.tests[test];
        const failure = make("div", "failure");
        const head = make("p");
        head.append(make("code", "", name), ` ${data.kinds[kind]}`);
        failure.append(head, make("p", "soft", rule), make("pre", "", data.messages[message]));
        cell.append(failure);
      }
      row.more = make("tr", "more");
      row.more.append(cell);
      row.after(row.more);
    });
    details.addEventListener("toggle", () => { row.more.hidden = !details.open; });
  }

  for (const details of section.querySelectorAll("details[data-pair]")) unfold(details, (box) => {
    const [left, right, regions] = data.pairs[box.dataset.pair];
    const sides = make("div", "sides");
    [[left, 0], [right, 2]].forEach(([row, at]) => {
      const side = make("div", "code");
      side.tabIndex = 0;
      side.setAttribute("role", "region");
      side.setAttribute("aria-label", data.students[row]);
      side.append(make("div", "side-name", data.students[row]));
      data.sources[row].split("\n").forEach((text, index) => {
        const number = index + 1;
        const hit = regions.findIndex((r) => r[at] <= number && number <= r[at + 1]);
        const line = make("div", hit < 0 ? "line" : "line hit" + (hit % 2 ? " odd" : ""));
        line.append(make("i", "", String(number)), text.replace("\r", ""));
        side.append(line);
      });
      sides.append(side);
    });
    box.append(sides);
    for (const side of sides.children) {
      const first = side.querySelector(".hit");
      if (first) side.scrollTop = first.offsetTop - side.offsetTop - 60;
    }
  });

  const map = section.querySelector(".map");
  if (map) {
    const svg = map.querySelector("svg"), output = section.querySelector("output");
    const { cell, tall, stride } = map.dataset;
    const at = (event) => {
      const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      const row = Math.floor(place.y / tall) * stride, test = Math.floor(place.x / cell);
      return place.x >= 0 && place.y >= 0 && data.students[row] !== undefined && data.tests[test] ? [row, test] : null;
    };
    svg.addEventListener("mousemove", (event) => {
      const square = at(event);
      if (!square) { output.textContent = ""; return; }
      const failure = data.failures[square[0]].find(([test]) => test === square[1]);
      const became = failure ? data.kinds[failure[2]] : data.kinds[0];
      output.textContent = `${data.students[square[0]]}: ${data.tests[square[1]][0]} ${became}`;
    });
    svg.addEventListener("click", (event) => {
      const square = at(event);
      const details = square && section.querySelector(`details[data-row="${square[0]}"]`);
      if (details) { details.open = true; details.scrollIntoView({ block: "center" }); }
    });
  }

  for (const table of section.querySelectorAll("table[data-sortable]")) {
    const body = table.tBodies[0];
    const value = (row, column) => {
      const text = row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
      const number = Number(text);
      return text === "" ? null : Number.isNaN(number) ? text : number;
    };
    const compare = (a, b) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
    };
    table.querySelectorAll("th button").forEach((button) => button.addEventListener("click", () => {
      const head = button.closest("th"), column = head.cellIndex;
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...body.rows].filter((row) => row.className !== "more").map((row) => [value(row, column), row]);
      rows.sort(([a], [b]) => (a === null || b === null || up ? compare(a, b) : compare(b, a)));
      body.append(...rows.flatMap(([, row]) => (row.more ? [row, row.more] : [row])));
    }));
  }

  const filter = section.querySelector("input[type=search]");
  filter.addEventListener("input", () => {
    const query = filter.value.toLowerCase();
    for (const row of section.querySelectorAll("tr[data-student]")) {
      row.hidden = !row.textContent.toLowerCase().includes(query);
      if (row.more) row.more.hidden = row.hidden || !row.querySelector("details").open;
    }
  });
}

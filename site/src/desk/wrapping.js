// A line that is wider than the editor goes on below its own indentation, not at the edge.

import { RangeSetBuilder } from "@codemirror/state";
import { Decoration, ViewPlugin } from "@codemirror/view";

/** Deeper than this, what goes on would have no room. */
const MOST_COLUMNS = 24;
const styles = new Map();

function hanging(columns) {
  if (!styles.has(columns)) {
    const style = `--hang: ${columns}ch`;
    styles.set(columns, Decoration.line({ class: "cm-hanging", attributes: { style } }));
  }
  return styles.get(columns);
}

function linesInView({ state, visibleRanges }) {
  const lines = new RangeSetBuilder();
  for (const { from, to } of visibleRanges) {
    for (let at = from; at <= to; ) {
      const line = state.doc.lineAt(at);
      const columns = Math.min(/^ */.exec(line.text)[0].length, MOST_COLUMNS);
      if (columns) lines.add(line.from, line.from, hanging(columns));
      at = line.to + 1;
    }
  }
  return lines.finish();
}

export const hangingLines = ViewPlugin.define(
  (view) => ({
    lines: linesInView(view),
    update({ docChanged, viewportChanged, view: now }) {
      if (docChanged || viewportChanged) this.lines = linesInView(now);
    },
  }),
  { decorations: ({ lines }) => lines },
);

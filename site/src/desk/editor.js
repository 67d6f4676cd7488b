// The editor: CodeMirror with Python. Its colours are variables of site.css, so it follows the
// book's light and dark.

import {
  defaultKeymap,
  history,
  historyKeymap,
  indentLess,
  indentMore,
  } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import {
  bracketMatching,
  HighlightStyle,
  indentOnInput,
  indentUnit,
  syntaxHighlighting,
} from "@codemirror/language";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState, StateEffect, StateField } from "@codemirror/state";
import {
  Decoration,
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { hangingLines } from "./wrapping.js";

const INDENT = "    ";
const STEP = "cm-step";

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.controlKeyword, tags.operatorKeyword], color: "var(--code-keyword)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: [tags.comment], color: "var(--code-comment)", fontStyle: "italic" },
  {
    tag: [tags.function(tags.definition(tags.variableName)), tags.definition(tags.className)],
    color: "var(--code-name)",
    fontWeight: "600",
  },
  { tag: [tags.self, tags.meta, tags.className], color: "var(--code-name)" },
]);

const look = EditorView.theme({
  "&": { backgroundColor: "var(--paper)", color: "var(--ink)", height: "100%" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5", scrollbarWidth: "thin" },
  ".cm-content": { padding: "0.5em 0", caretColor: "var(--ink)" },
  ".cm-gutters": {
    backgroundColor: "var(--paper)",
    color: "var(--soft)",
    borderRight: "1px solid var(--line)",
  },
  ".cm-lineNumbers .cm-gutterElement": { minWidth: "2.6em", padding: "0 0.6em 0 0.2em" },
  ".cm-activeLine": { backgroundColor: "var(--active)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--active)", color: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)", borderLeftWidth: "2px" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground":
    { backgroundColor: "var(--selection)" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": {
    backgroundColor: "var(--selection)",
    outline: "1px solid var(--soft)",
  },
  ".cm-selectionMatch": { backgroundColor: "var(--selection)" },
  ".cm-searchMatch": { backgroundColor: "var(--amber-wash)" },
  ".cm-searchMatch-selected": { outline: "2px solid var(--amber)" },
  ".cm-panels": { backgroundColor: "var(--card)", color: "var(--ink)", border: "none" },
  ".cm-panel.cm-search": { padding: "0.4em 0.6em", fontSize: "0.9375em" },
  ".cm-panel.cm-search label, .cm-panel.cm-search [name=close]": { color: "var(--ink)" },
  ".cm-textfield, .cm-button": {
    border: "1px solid var(--field)",
    borderRadius: "0.25em",
    background: "var(--paper)",
    color: "var(--ink)",
    fontSize: "inherit",
  },
  ".cm-panels-bottom": { borderTop: "1px solid var(--line)" },
  // The padding of every line is 2px and 6px.
  ".cm-line.cm-hanging": { paddingLeft: "calc(6px + var(--hang))", textIndent: "calc(0px - var(--hang))" },
  ".cm-line[data-words]::after": {
    content: "attr(data-words)",
    textIndent: "0",
    marginLeft: "1.5em",
    padding: "0 0.4em",
    color: "var(--red)",
    fontFamily: "system-ui, sans-serif",
    fontWeight: "600",
    whiteSpace: "normal",
  },
  // Where the reader's colours take the place of these, the outline has one of them.
  ".cm-step, .cm-raised": { outline: "2px solid transparent", outlineOffset: "-2px" },
  ".cm-step": { backgroundColor: "var(--amber-wash)", boxShadow: "inset 3px 0 0 var(--amber)" },
  ".cm-line.cm-step::after": { color: "var(--amber)" },
  ".cm-raised": { backgroundColor: "var(--red-wash)", boxShadow: "inset 3px 0 0 var(--red)" },
});

/** The words that a line raised are drawn by the style sheet: as a node they could get into the code. */
function marksOf({ from, words, isStep }) {
  const attributes = words ? { "data-words": words } : {};
  return Decoration.set(Decoration.line({ class: isStep ? STEP : "cm-raised", attributes }).range(from));
}

/** The line that the report points at, until the text changes. */
const markLine = StateEffect.define();
const marked = StateField.define({
  create: () => Decoration.none,
  update(marks, transaction) {
    let now = transaction.docChanged ? Decoration.none : marks;
    for (const effect of transaction.effects) {
      if (!effect.is(markLine)) continue;
      now = effect.value === null ? Decoration.none : marksOf(effect.value);
    }
    return now;
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** Tab indents, but after Escape it leaves the editor, as anywhere else on the page. */
class Leaving {
  #isLeaving = false;
  #onChange;

  /** @param {(isLeaving: boolean) => void} onChange */
  constructor(onChange) {
    this.#onChange = onChange;
  }

  #set(isLeaving) {
    if (isLeaving === this.#isLeaving) return;
    this.#isLeaving = isLeaving;
    this.#onChange(isLeaving);
  }

  keys() {
    const inside = (command) => (view) => !this.#isLeaving && command(view);
    const indent = (view) =>
      view.state.selection.main.empty ? insertSpaces(view) : indentMore(view);
    const leave = () => {
      this.#set(true);
      return true;
    };
    return [
      { key: "Tab", run: inside(indent), shift: inside(indentLess) },
      { key: "Escape", run: leave },
    ];
  }

  /** Any other key, a click or going elsewhere ends it. */
  handlers() {
    const stay = () => this.#set(false);
    return EditorView.domEventHandlers({
      keydown: ({ key }) => {
        if (!["Escape", "Tab", "Shift"].includes(key)) stay();
      },
      mousedown: stay,
      blur: stay,
    });
  }
}

function insertSpaces(view) {
  const { state } = view;
  const { from } = state.selection.main;
  const column = from - state.doc.lineAt(from).from;
  const spaces = " ".repeat(INDENT.length - (column % INDENT.length));
  if (state.readOnly) return false;
  view.dispatch(state.replaceSelection(spaces), { userEvent: "input", scrollIntoView: true });
  return true;
}

export class Editor {
  #view;

  /**
   * @param {HTMLElement} parent
   * @param {object} options
   * @param {string} options.text
   * @param {string} options.label what screen readers call it
   * @param {boolean} [options.readOnly]
   * @param {(text: string) => void} [options.onChange]
   * @param {(isLeaving: boolean) => void} [options.onLeaving] whether Tab leaves the editor
   * @param {import("@codemirror/view").KeyBinding[]} [options.keys] more keys
   */
  constructor(parent, options) {
    const { text, label, readOnly = false, keys = [] } = options;
    const { onChange = () => {}, onLeaving = () => {} } = options;
    const leaving = new Leaving(onLeaving);
    const changed = EditorView.updateListener.of((update) => {
      if (update.docChanged) onChange(this.text);
    });
    const attributes = { "aria-label": label, tabindex: "0" };
    // In a shadow root CodeMirror adopts its styles; a page's policy may forbid style elements.
    const root = parent.attachShadow({ mode: "open" });
    // The book has keys of its own, of one letter each.
    parent.addEventListener("keydown", (event) => event.stopPropagation());
    this.#view = new EditorView({
      parent: root,
      root,
      state: EditorState.create({
        doc: text,
        extensions: [
          lineNumbers(),
          EditorView.lineWrapping,
          hangingLines,
          highlightActiveLine(),
          highlightActiveLineGutter(),
          highlightSpecialChars(),
          history(),
          drawSelection(),
          indentOnInput(),
          indentUnit.of(INDENT),
          bracketMatching(),
          highlightSelectionMatches(),
          search(),
          python(),
          syntaxHighlighting(colours),
          look,
          marked,
          leaving.handlers(),
          keymap.of([
            ...keys,
            ...searchKeymap,
            ...leaving.keys(),
            ...defaultKeymap,
            ...historyKeymap,
          ]),
          EditorState.readOnly.of(readOnly),
          EditorView.contentAttributes.of(attributes),
          changed,
        ],
      }),
    });
    new ResizeObserver(() => this.#onSize()).observe(parent);
  }

  /** Bring a marked step into view again, in a window with another size. */
  #onSize() {
    let from = null;
    this.#view.state.field(marked).between(0, Infinity, (at, _, { spec }) => {
      if (spec.class === STEP) from = at;
    });
    if (from !== null) this.#view.dispatch({ effects: EditorView.scrollIntoView(from, { y: "center" }) });
  }

  get text() {
    return this.#view.state.doc.toString();
  }

  /** Replace the whole text; one undo brings the old one back. */
  set text(text) {
    const { state } = this.#view;
    if (text === this.text) return;
    const changes = { from: 0, to: state.doc.length, insert: text };
    this.#view.dispatch({ changes, selection: { anchor: 0 }, userEvent: "input.replace" });
  }

  /** Put the cursor into a line, counted from 1. */
  goTo(line) {
    const { from } = this.#line(line);
    const effects = EditorView.scrollIntoView(from, { y: "center" });
    this.#view.dispatch({ selection: { anchor: from }, effects });
    this.focus();
  }

  /**
   * Mark a line and show it; the cursor and the focus stay.
   *
   * @param {{line: number, words: string, isStep?: boolean} | null} fault the line, counted from 1,
   *   and what it raised or, for a step of a recording, returned; null: mark no line
   */
  mark(fault) {
    if (!fault) {
      this.#view.dispatch({ effects: markLine.of(null) });
      return;
    }
    const { from } = this.#line(fault.line);
    const effects = [
      markLine.of({ from, words: fault.words, isStep: fault.isStep }),
      EditorView.scrollIntoView(from, { y: "center" }),
    ];
    this.#view.dispatch({ effects });
  }

  #line(number) {
    const { doc } = this.#view.state;
    return doc.line(Math.min(Math.max(1, number), doc.lines));
  }

  focus() {
    this.#view.focus();
  }
}

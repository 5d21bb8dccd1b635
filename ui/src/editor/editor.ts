/** The text editor: colours are its own, mistakes and completions come from the engine. */
import { autocompletion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { linter, lintGutter, type Diagnostic as Mark } from "@codemirror/lint";
import { EditorState, Prec } from "@codemirror/state";
import { drawSelection, EditorView, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { complete } from "../lib/completions";
import type { Lint } from "../lib/queries";
import type { Diagnostic } from "../lib/shapes";
import { describeLanguage } from "./languages";

export interface EditorOptions {
  text: string;
  language: "query" | "schema";
  label: string;
  placeholder: string;
  readonly: boolean;
  check?: ((text: string) => Promise<Lint>) | undefined;
  change: (text: string) => void;
  run: () => void;
}

const COLOURS = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--accent)", fontWeight: "600" },
  { tag: tags.string, color: "var(--added)" },
  { tag: tags.number, color: "var(--changed)" },
  { tag: tags.comment, color: "var(--quiet)", fontStyle: "italic" },
  { tag: tags.variableName, color: "var(--removed)" },
  { tag: tags.typeName, fontWeight: "600" },
]);

const THEME = EditorView.theme({
  "&": { fontSize: "14px", backgroundColor: "var(--paper)", color: "var(--ink)", maxHeight: "50vh" },
  ".cm-content": { fontFamily: "var(--code)", padding: "10px 0", caretColor: "var(--ink)", minHeight: "8rem" },
  ".cm-gutters": { backgroundColor: "var(--paper)", color: "var(--quiet)", border: "0" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-tooltip": { backgroundColor: "var(--paper)", color: "var(--ink)", border: "1px solid var(--line)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--soft-accent) !important" },
  ".cm-placeholder": { color: "var(--quiet)", whiteSpace: "pre" },
});

export function openEditor(root: ShadowRoot, options: EditorOptions): { replace: (text: string) => void; end: () => void } {
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({ doc: options.text, extensions: listExtensions(options) }),
  });
  return {
    replace: (text) => {
      const held = view.state.doc.toString();
      if (held !== text) view.dispatch({ changes: { from: 0, to: held.length, insert: text } });
    },
    end: () => view.destroy(),
  };
}

function listExtensions(options: EditorOptions) {
  const run = { key: "Mod-Enter", run: () => (options.run(), true) };
  return [
    lineNumbers(),
    history(),
    drawSelection(),
    bracketMatching(),
    StreamLanguage.define(describeLanguage(options.language)),
    syntaxHighlighting(COLOURS),
    THEME,
    placeholder(options.placeholder),
    EditorState.readOnly.of(options.readonly),
    EditorView.contentAttributes.of({ "aria-label": options.label }),
    EditorView.lineWrapping,
    EditorView.updateListener.of((update) => {
      if (update.docChanged) options.change(update.state.doc.toString());
    }),
    Prec.highest(keymap.of([run])),
    // Escape, then Tab leaves the editor: people without a mouse are not caught in it.
    keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
    ...(options.check ? [lintGutter(), linter((view) => listMarks(view, options), { delay: 300 })] : []),
    ...(options.language === "query" ? [autocompletion({ override: [offerCompletions] })] : []),
  ];
}

async function listMarks(view: EditorView, options: EditorOptions): Promise<Mark[]> {
  const text = view.state.doc.toString();
  if (!text.trim() || !options.check) return [];
  try {
    const { diagnostics } = await options.check(text);
    return diagnostics.map((one) => markOf(view, one));
  } catch {
    return [];
  }
}

function markOf(view: EditorView, one: Diagnostic): Mark {
  const from = offsetOf(view, one.line, one.column);
  const to = Math.max(from, offsetOf(view, one.end_line, one.end_column));
  return {
    from,
    to,
    severity: one.severity,
    message: `${one.code}: ${one.message}${one.hint ? `\n${one.hint}` : ""}`,
  };
}

function offsetOf(view: EditorView, line: number, column: number): number {
  const doc = view.state.doc;
  if (line < 1 || line > doc.lines) return doc.length;
  const found = doc.line(line);
  return Math.min(found.to, found.from + Math.max(0, column - 1));
}

async function offerCompletions(context: CompletionContext): Promise<CompletionResult | null> {
  const word = context.matchBefore(/[\w$.]*/);
  if (!context.explicit && (!word || word.from === word.to)) return null;
  const found = await complete(context.state.doc.toString(), context.pos);
  return { from: found.from, options: found.items.map((item) => ({ label: item.label, type: item.kind, detail: item.detail })) };
}

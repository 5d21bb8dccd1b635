/** How the two languages are coloured: words, texts, numbers, variables, notes. */
import type { StreamParser, StringStream } from "@codemirror/language";

const QUERY_WORDS =
  "query match where optional return distinct order by asc desc limit skip having and or not in between is null contains starts_with ends_with matches case when then else end exists count any none all union with as insert update delete set from to upsert if absent returning unnest not true false";
const SCHEMA_WORDS = "node edge interface implements enum true false";

export function describeLanguage(language: "query" | "schema"): StreamParser<{ block: boolean }> {
  const words = new Set((language === "query" ? QUERY_WORDS : SCHEMA_WORDS).split(" "));
  return {
    name: language,
    startState: () => ({ block: false }),
    token: (stream, state) => readToken(stream, state, words),
  };
}

function readToken(stream: StringStream, state: { block: boolean }, words: Set<string>): string | null {
  if (state.block) {
    state.block = !stream.skipTo("*/");
    if (state.block) stream.skipToEnd();
    else stream.match("*/");
    return "comment";
  }
  if (stream.eatSpace()) return null;
  if (stream.match("/*")) {
    state.block = true;
    return "comment";
  }
  if (stream.match("//")) {
    stream.skipToEnd();
    return "comment";
  }
  if (stream.match(/^"(?:[^"\\]|\\.)*"?/)) return "string";
  if (stream.match(/^\$[A-Za-z_]\w*/)) return "variableName";
  if (stream.match(/^@[A-Za-z_]\w*/)) return "keyword";
  if (stream.match(/^-?\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?/)) return "number";
  const word = stream.match(/^[A-Za-z_]\w*/) as RegExpMatchArray | null;
  if (!word) {
    stream.next();
    return null;
  }
  if (words.has(word[0])) return "keyword";
  return /^[A-Z]/.test(word[0]) ? "typeName" : null;
}

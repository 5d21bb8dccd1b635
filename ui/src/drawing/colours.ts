/** Colours that people tell apart, in the order in which types take them. */
const COLOURS = ["#2f6fdb", "#d9822b", "#2a9d6f", "#b04aa0", "#8a6d1f", "#2b95b8", "#c24545", "#6b5bd2", "#5c7a29", "#99593b"];

export function colourAt(index: number): string {
  return COLOURS[index % COLOURS.length]!;
}

let known: string[] = [];

/** The node types of the graph: with them a type has the same colour on every screen, whatever else is drawn. */
export function learnTypes(names: Iterable<string>): void {
  known = [...new Set(names)].sort();
}

/** A colour for each of these types: those of the graph in the order of their names, then others. */
export function colourTypes(types: Iterable<string>): Map<string, string> {
  const drawn = [...new Set(types)].sort();
  const places = new Map([...known, ...drawn.filter((type) => !known.includes(type))].map((type, index) => [type, index]));
  return new Map(drawn.map((type) => [type, colourAt(places.get(type)!)]));
}

export const MARKS = {
  added: { light: "#10733f", dark: "#63d297", sign: "+" },
  removed: { light: "#b3261e", dark: "#ff8f86", sign: "−" },
  changed: { light: "#8a5a00", dark: "#f0bd5f", sign: "~" },
} as const;

export function isDark(): boolean {
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

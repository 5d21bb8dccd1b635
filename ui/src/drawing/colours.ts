/** Colours that people tell apart, in the order in which types take them. */
const COLOURS = ["#2f6fdb", "#d9822b", "#2a9d6f", "#b04aa0", "#8a6d1f", "#2b95b8", "#c24545", "#6b5bd2", "#5c7a29", "#99593b"];

export function colourAt(index: number): string {
  return COLOURS[index % COLOURS.length]!;
}

/** A colour for each type, the same on every screen: types in the order of their names. */
export function colourTypes(types: Iterable<string>): Map<string, string> {
  return new Map([...new Set(types)].sort().map((type, index) => [type, colourAt(index)]));
}

export const MARKS = {
  added: { light: "#10733f", dark: "#63d297", sign: "+" },
  removed: { light: "#b3261e", dark: "#ff8f86", sign: "−" },
  changed: { light: "#8a5a00", dark: "#f0bd5f", sign: "~" },
} as const;

export function isDark(): boolean {
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** How values, ids and moments are written on the page. */
import type { Value } from "./shapes";

export function shortId(id: string): string {
  return /^[0-9A-HJKMNP-TV-Z]{26}$/.test(id) ? `…${id.slice(-8)}` : id;
}

export function spellValue(value: Value | undefined): string {
  if (value === undefined) return "";
  if (value === null) return "–";
  if (typeof value !== "object") return String(value);
  return Array.isArray(value) ? spellList(value) : spellRecord(value);
}

function spellList(values: Value[]): string {
  return values.length ? values.map(spellValue).join(", ") : "none";
}

function spellRecord(value: { [name: string]: Value }): string {
  return Object.entries(value)
    .map(([name, one]) => `${spellWords(name)}: ${typeof one === "object" && one !== null ? `(${spellValue(one)})` : spellValue(one)}`)
    .join(", ");
}

const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const SPANS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];
const AGE = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });

/** A moment in microseconds since 1970, in the words of the reader. */
export function spellMoment(micros: number | null | undefined): string {
  return micros ? MOMENT.format(micros / 1000) : "";
}

export function spellAge(micros: number | null | undefined, now = Date.now()): string {
  if (!micros) return "";
  const seconds = (micros / 1000 - now) / 1000;
  for (const [unit, length] of SPANS)
    if (Math.abs(seconds) >= length) return AGE.format(Math.round(seconds / length), unit);
  return AGE.format(Math.round(seconds), "second");
}

export function spellCount(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString()} ${count === 1 ? one : many}`;
}

const SIZES = ["B", "kB", "MB", "GB", "TB"];

/** Bytes in the unit that leaves few digits. */
export function spellBytes(bytes: number): string {
  let left = bytes;
  let unit = 0;
  while (left >= 1000 && unit < SIZES.length - 1) {
    left /= 1000;
    unit++;
  }
  return `${left < 10 && unit > 0 ? left.toFixed(1) : Math.round(left).toLocaleString()} ${SIZES[unit]}`;
}

/** A large number in few characters: 12,345 stays, 1,234,567 becomes 1.2 M. */
export function spellShort(count: number): string {
  if (count < 100_000) return count.toLocaleString();
  return count < 1_000_000 ? `${Math.round(count / 1000).toLocaleString()} k` : `${(count / 1_000_000).toFixed(1)} M`;
}

/** Words of the program in words of people. */
export function spellWords(name: string): string {
  return name.replaceAll("_", " ");
}

/** How values, ids and moments are written on the page. */
import type { Value } from "./shapes";

export function shortId(id: string): string {
  return /^[0-9A-HJKMNP-TV-Z]{26}$/.test(id) ? `…${id.slice(-8)}` : id;
}

export function spellValue(value: Value | undefined): string {
  if (value === undefined) return "";
  if (value === null) return "–";
  if (typeof value === "string") return value;
  return JSON.stringify(value);
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

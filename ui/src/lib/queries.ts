/** Queries: checked and explained by the engine, answered as Arrow columns. */
import type { RecordBatch, Table } from "apache-arrow";
import { page } from "./page.svelte";
import { readAt, readRefs } from "./refs";
import { ask, askJson, graphPath } from "./server";
import type { Diagnostic, Value } from "./shapes";
import { spellValue } from "./text";

export interface Parameter {
  name: string;
  /** `string`, `int`, `list`, …, as stored queries describe their parameters. */
  kind: string;
  item_kind?: string;
  nullable: boolean;
  /** The values of the enum that it is compared with or assigned to. */
  choices?: string[];
}

export interface Lint {
  diagnostics: Diagnostic[];
  queries: { name: string; parameters: Parameter[]; writes: boolean }[];
}

export interface Plan {
  query_name: string;
  operators: Operator[];
}

export interface Operator {
  depth: number;
  operator: string;
  notes: string[];
  rows?: number;
  milliseconds?: number;
}

export interface Result {
  columns: string[];
  count: number;
  milliseconds: number;
  /** Whether more rows are on their way. */
  partial: boolean;
  /** Whether rows beyond the bound were left out. */
  cut: boolean;
  cell(row: number, column: number): string;
  save(format: Format): Promise<void>;
}

export type Format = "CSV" | "Parquet" | "Arrow";
const MEDIA: Record<Format, string> = {
  CSV: "text/csv",
  Parquet: "application/vnd.apache.parquet",
  Arrow: "application/vnd.apache.arrow.stream",
};
const ENDINGS: Record<Format, string> = { CSV: "csv", Parquet: "parquet", Arrow: "arrows" };

/** Rows that a tab holds; downloads of Parquet and Arrow have all. */
const ROWS_MAX = 2_000_000;
/** How often a table that is still arriving is shown anew. */
const SHOW_EVERY = 200;

type Stored = Lint["queries"][number] | undefined;

function graphHere(): string {
  return page.place?.graph ?? "default";
}

export function lintQuery(text: string): Promise<Lint> {
  return askJson<Lint>(`${graphPath(graphHere())}/lint`, { body: { text } });
}

async function describeRead(text: string, chosen: Stored, values: Record<string, string>): Promise<Record<string, unknown>> {
  const refs = await readRefs(graphHere());
  return {
    query: text,
    ...(chosen ? { name: chosen.name } : {}),
    params: readParameters(chosen?.parameters ?? [], values),
    ...readAt(refs, page.place?.ref ?? "main"),
  };
}

/** What was typed into the fields, as the types want it: an empty field of an optional one is left out. */
export function readParameters(parameters: Parameter[], values: Record<string, string>): Record<string, unknown> {
  const read: Record<string, unknown> = {};
  for (const { name, kind } of parameters) {
    const typed = values[name];
    if (typed === undefined || typed === "") continue;
    read[name] = readValue(kind, typed);
  }
  return read;
}

const TEXTS = new Set(["string", "date", "datetime", "blob", "enum"]);
const WHOLE = /^-?\d+$/;

function readValue(kind: string, typed: string): unknown {
  if (TEXTS.has(kind)) return typed;
  // A whole number that a double cannot hold goes as its digits, which the server reads exactly.
  if (WHOLE.test(typed) && !Number.isSafeInteger(Number(typed))) return typed;
  try {
    return JSON.parse(typed);
  } catch {
    return typed;
  }
}

/** Ask a query; `show` is told of the first rows as soon as they are here, then now and then, then of all. */
export async function openResult(
  text: string,
  chosen: Stored,
  values: Record<string, string>,
  signal: AbortSignal,
  show: (result: Result) => void,
): Promise<void> {
  const began = performance.now();
  const body = await describeRead(text, chosen, values);
  const ending = new AbortController();
  signal.addEventListener("abort", () => ending.abort());
  const path = `${graphPath(graphHere())}/query`;
  const response = await ask(path, { body, accept: MEDIA.Arrow, signal: ending.signal });
  const { RecordBatchReader, Table } = await import("apache-arrow");
  const reader = await RecordBatchReader.from(response.body!);
  await reader.open();
  const batches: RecordBatch[] = [];
  let rows = 0;
  let shown = -SHOW_EVERY;
  const present = (partial: boolean): void => {
    shown = performance.now();
    const table = new Table(reader.schema, batches);
    show(describeResult(table, { path, body, partial, cut: rows >= ROWS_MAX, milliseconds: Math.round(shown - began) }));
  };
  for await (const batch of reader) {
    batches.push(batch);
    rows += batch.numRows;
    if (rows >= ROWS_MAX) break;
    if (performance.now() - shown >= SHOW_EVERY) present(true);
  }
  if (rows >= ROWS_MAX) ending.abort();
  present(false);
}

interface Facts {
  path: string;
  body: Record<string, unknown>;
  partial: boolean;
  cut: boolean;
  milliseconds: number;
}

function describeResult(table: Table, facts: Facts): Result {
  const columns = table.schema.fields.map((field) => field.name);
  const vectors = columns.map((_, index) => table.getChildAt(index));
  const value = (row: number, column: number): unknown => readCell(vectors[column]?.get(row), kinds[column]!);
  const cell = (row: number, column: number): string => spellCell(value(row, column));
  const kinds = table.schema.fields.map((field) => String(field.type));
  const { path, body, partial, cut, milliseconds } = facts;
  return {
    columns,
    count: table.numRows,
    milliseconds,
    partial,
    cut,
    cell,
    save: async (format) => {
      const content =
        format === "CSV" ? writeCsv(columns, table.numRows, (row, column) => writeCell(value(row, column))) : await (await ask(path, { body, accept: MEDIA[format] })).blob();
      save(content, MEDIA[format], `result.${ENDINGS[format]}`);
    },
  };
}

/** A value as plain data: moments as texts, whole numbers exact, lists and records without Arrow's classes. */
function readCell(value: unknown, kind: string): Value | undefined {
  if (value === null || value === undefined) return undefined;
  if (kind.startsWith("Date") && typeof value === "number") return new Date(value).toISOString().slice(0, 10);
  if (kind.startsWith("Timestamp") && typeof value === "number") return new Date(value).toISOString();
  if (typeof value === "bigint") return value.toString();
  if (typeof value !== "object") return value as Value;
  return JSON.parse(JSON.stringify(value, (_, one: unknown) => (typeof one === "bigint" ? one.toString() : one))) as Value;
}

function spellCell(value: unknown): string {
  return value === undefined ? "" : spellValue(value as Value);
}

function writeCell(value: unknown): string {
  return value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
}

function writeCsv(columns: string[], count: number, cell: (row: number, column: number) => string): string {
  const quote = (text: string) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = [columns.map(quote).join(",")];
  for (let row = 0; row < count; row++) lines.push(columns.map((_, column) => quote(cell(row, column))).join(","));
  return lines.join("\n") + "\n";
}

function save(content: BlobPart, type: string, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export async function explainQuery(text: string, chosen: Stored, values: Record<string, string>): Promise<Plan> {
  return askJson<Plan>(`${graphPath(graphHere())}/query/explain`, {
    body: { ...(await describeRead(text, chosen, values)), profile: true },
  });
}

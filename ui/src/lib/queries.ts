/** Queries: checked and explained by the engine, answered as Arrow columns. */
import type { RecordBatch, Table } from "apache-arrow";
import { page } from "./page.svelte";
import { readAt, readRefs } from "./refs";
import { ask, askJson, graphPath } from "./server";
import type { Diagnostic } from "./shapes";

export interface Parameter {
  name: string;
  /** `string`, `int`, `list`, …, as stored queries describe their parameters. */
  kind: string;
  item_kind?: string;
  nullable: boolean;
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
  const cell = (row: number, column: number): string => spellCell(vectors[column]?.get(row));
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
        format === "CSV" ? writeCsv(columns, table.numRows, cell) : await (await ask(path, { body, accept: MEDIA[format] })).blob();
      save(content, MEDIA[format], `result.${ENDINGS[format]}`);
    },
  };
}

function spellCell(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return value;
  if (typeof value === "bigint" || typeof value === "number" || typeof value === "boolean") return String(value);
  if (value instanceof Date) return value.toISOString();
  return JSON.stringify(value, (_, one: unknown) => (typeof one === "bigint" ? one.toString() : one)) ?? "";
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

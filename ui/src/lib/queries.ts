/** Queries: checked and explained by the engine, answered as Arrow columns. */
import type { Table } from "apache-arrow";
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
  cell(row: number, column: number): string;
  csv(): string;
  saveArrow(): void;
}

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

export async function openResult(text: string, chosen: Stored, values: Record<string, string>, signal: AbortSignal): Promise<Result> {
  const began = performance.now();
  const response = await ask(`${graphPath(graphHere())}/query`, {
    body: await describeRead(text, chosen, values),
    accept: "application/vnd.apache.arrow.stream",
    signal,
  });
  const bytes = new Uint8Array(await response.arrayBuffer());
  const { tableFromIPC } = await import("apache-arrow");
  return describeResult(tableFromIPC(bytes), bytes, Math.round(performance.now() - began));
}

function describeResult(table: Table, bytes: Uint8Array, milliseconds: number): Result {
  const columns = table.schema.fields.map((field) => field.name);
  const vectors = columns.map((_, index) => table.getChildAt(index));
  const cell = (row: number, column: number): string => spellCell(vectors[column]?.get(row));
  return {
    columns,
    count: table.numRows,
    milliseconds,
    cell,
    csv: () => blobAddress(writeCsv(columns, table.numRows, cell), "text/csv"),
    saveArrow: () => save(bytes, "result.arrows"),
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

function blobAddress(content: BlobPart, type: string): string {
  return URL.createObjectURL(new Blob([content], { type }));
}

function save(bytes: Uint8Array, name: string): void {
  const link = document.createElement("a");
  link.href = blobAddress(bytes as BlobPart, "application/vnd.apache.arrow.stream");
  link.download = name;
  link.click();
}

export async function explainQuery(text: string, chosen: Stored, values: Record<string, string>): Promise<Plan> {
  return askJson<Plan>(`${graphPath(graphHere())}/query/explain`, {
    body: { ...(await describeRead(text, chosen, values)), profile: true },
  });
}

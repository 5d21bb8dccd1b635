/** What differs between two states: counted, drawn, and listed in pages. */
import { page } from "./page.svelte";
import { askJson, graphPath, search } from "./server";
import type { Change, DrawnEntity } from "./shapes";

export interface Counts {
  inserted: number;
  updated: number;
  deleted: number;
}

export interface DrawnDiff {
  base: string;
  head: string;
  counts: Record<string, Counts>;
  nodes: DrawnEntity[];
  edges: DrawnEntity[];
  shown: { nodes: number; edges: number };
  total: { nodes: number; edges: number };
}

function graphHere(): string {
  return graphPath(page.place?.graph ?? "default");
}

export function readDrawnDiff(base: string, head: string, operation: string, type: string): Promise<DrawnDiff> {
  return askJson(search(`${graphHere()}/diff/graph`, { base, head, operation, type }));
}

export interface ChangePage {
  changes: Change[];
  next_page_token?: string;
}

export function readChanges(base: string, head: string, operation: string, type: string, token?: string): Promise<ChangePage> {
  return askJson(
    search(`${graphHere()}/diff`, { from: base, to: head, op: operation, type, limit: 100, page_token: token }),
  );
}

/** What differs between two states: counted, drawn, and listed in pages. */
import { page } from "./page.svelte";
import { knowTypes } from "./reads";
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
  /** Changes that are drawn, and unchanged edges between what is drawn. */
  shown: { nodes: number; edges: number; unchanged_edges: number };
  total: { nodes: number; edges: number; unchanged_edges: number };
  actors: string[];
}

/** Which changes are shown; empty texts mean all. */
export interface Filter {
  operation: string;
  type: string;
  property: string;
  actor: string;
}

function graphHere(): string {
  return graphPath(page.place?.graph ?? "default");
}

export async function readDrawnDiff(base: string, head: string, filter: Filter, nodes: number | undefined): Promise<DrawnDiff> {
  const path = search(`${graphHere()}/diff/graph`, { base, head, ...filter, limit_nodes: nodes, limit_edges: nodes && nodes * 3 });
  const [found] = await Promise.all([askJson<DrawnDiff>(path), knowTypes()]);
  return found;
}

export interface ChangePage {
  changes: Change[];
  next_page_token?: string;
}

export function readChanges(base: string, head: string, filter: Filter, token?: string): Promise<ChangePage> {
  const { operation, ...others } = filter;
  return askJson(search(`${graphHere()}/diff`, { from: base, to: head, op: operation, ...others, limit: 100, page_token: token }));
}

/** Which changes of a comparison somebody has looked at; the tab remembers them. */
export function readSeen(base: string, head: string): Record<string, boolean> {
  const kept = sessionStorage.getItem(`omnigraph-seen-${base}..${head}`);
  return kept ? Object.fromEntries((JSON.parse(kept) as string[]).map((key) => [key, true])) : {};
}

export function keepSeen(base: string, head: string, seen: Record<string, boolean>): void {
  const keys = Object.keys(seen).filter((key) => seen[key]);
  sessionStorage.setItem(`omnigraph-seen-${base}..${head}`, JSON.stringify(keys.slice(-2000)));
}

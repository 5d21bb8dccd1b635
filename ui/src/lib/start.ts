/** What the page must know before it shows anything: which graph, and whether this visitor may ask. */
import { spellAddress } from "./address";
import { page } from "./page.svelte";
import { askJson } from "./server";

export interface Start {
  graphs: string[];
  read_only: boolean;
}

let known: Start | null = null;

export function listKnownGraphs(): string[] {
  return known?.graphs ?? [];
}

export async function startPage(): Promise<void> {
  known = await askJson<Start>("/ui/start.json");
  page.readOnly = known.read_only;
  const first = known.graphs[0];
  if (page.place || first === undefined) return;
  page.go(spellAddress({ graph: first, ref: "main", screen: "start" }), true);
}

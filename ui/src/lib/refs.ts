/** Branches, and what the ref of a place means. */
import { spellAddress, splitPair } from "./address";
import { page } from "./page.svelte";
import { askJson, graphPath } from "./server";
import type { Branch } from "./shapes";

export interface Refs {
  branches: Branch[];
}

let asked: { graph: string; answer: Promise<Refs> } | null = null;

/** The branches of the graph; asked once per screen, not once per part of it. */
export function readRefs(graph: string, again = false): Promise<Refs> {
  if (again || asked?.graph !== graph) {
    const answer = askJson<{ details: Branch[] }>(`${graphPath(graph)}/branches`).then((found) => ({
      branches: found.details,
    }));
    answer.catch(() => (asked = null));
    asked = { graph, answer };
  }
  return asked.answer;
}

export function isBranch(refs: Refs, ref: string): boolean {
  return refs.branches.some((branch) => branch.name === ref);
}

/** How a read names the state that a ref means. */
export function readAt(refs: Refs, ref: string): { branch: string } | { snapshot: string } {
  return isBranch(refs, ref) ? { branch: ref } : { snapshot: ref };
}

function pin(refs: Refs, ref: string): string {
  return refs.branches.find((branch) => branch.name === ref)?.head ?? ref;
}

/** The address of what is shown now, with branches replaced by the commits they point to. */
export async function pinAddress(): Promise<string> {
  const place = page.place;
  if (!place) return location.href;
  const refs = await readRefs(place.graph, true);
  const args = place.args.map((arg) => {
    const pair = splitPair(arg);
    return pair ? `${pin(refs, pair[0])}..${pin(refs, pair[1])}` : arg;
  });
  return spellAddress({ ...place, ref: pin(refs, place.ref), args });
}

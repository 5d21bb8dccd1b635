import { page } from "./page.svelte";
import { askJson, graphPath } from "./server";

export interface Completions {
  from: number;
  items: { label: string; kind: string; detail: string }[];
}

/** What may come next at a place of a query text; nothing when the server cannot say. */
export async function complete(text: string, offset: number): Promise<Completions> {
  try {
    return await askJson<Completions>(`${graphPath(page.place?.graph ?? "default")}/complete`, {
      body: { text, offset },
    });
  } catch {
    return { from: offset, items: [] };
  }
}

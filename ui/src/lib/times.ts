/** The commits of a branch as points in time. */
import { isBranch, readRefs } from "./refs";
import { askJson, graphPath, search } from "./server";
import type { Commit } from "./shapes";

export interface Times {
  branch: string;
  /** Oldest first; the last one is now. */
  commits: Commit[];
  /** Whether older commits are left out. */
  cut: boolean;
}

const COMMITS_MAX = 1000;

/** The screens that show the graph of one moment. */
export const TRAVELLING = new Set(["schema", "query", "graph", "node", "edge"]);

export async function readTimes(graph: string, ref: string, named: string | null): Promise<Times> {
  const branch = await findBranch(graph, ref, named);
  const found = await askJson<{ commits: Commit[]; next_page_token?: string | null }>(
    search(`${graphPath(graph)}/commits`, { branch, limit: COMMITS_MAX }),
  );
  return { branch, commits: found.commits.reverse(), cut: Boolean(found.next_page_token) };
}

/** The branch whose commits are shown: that of the place, that of its commit, or main when either is gone. */
async function findBranch(graph: string, ref: string, named: string | null): Promise<string> {
  const refs = await readRefs(graph);
  if (isBranch(refs, ref)) return ref;
  if (named && isBranch(refs, named)) return named;
  const commit = await askJson<Commit>(`${graphPath(graph)}/commits/${encodeURIComponent(ref)}`);
  const own = commit.manifest_branch ?? "main";
  return isBranch(refs, own) ? own : "main";
}

/** The log in pages: commits with their lanes, and how much each changed, asked for where one looks. */
import { askJson, graphPath, search } from "./server";
import type { LogCommit } from "./shapes";

export interface LogPage {
  commits: LogCommit[];
  lanes: number;
  total?: number;
  next?: string | null;
}

export const PAGE = 200;
/** Commits that the server counts at a time. */
export const COUNTED = 25;

export function readLog(graph: string, branch: string | undefined, before: string | null): Promise<LogPage> {
  return askJson(search(`${graphPath(graph)}/log/graph`, { branch, limit: PAGE, before: before ?? undefined }));
}

/** What the commits after one changed; null where the history is gone. */
export async function readCounts(graph: string, branch: string | undefined, before: string | undefined): Promise<[string, LogCommit["counts"]][]> {
  const found = await askJson<LogPage>(search(`${graphPath(graph)}/log/graph`, { branch, limit: COUNTED, before, counts: "true" }));
  return found.commits.map((one) => [one.graph_commit_id, one.counts ?? null]);
}

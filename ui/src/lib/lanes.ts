/** The lines of a commit graph, row by row. */
import type { LogCommit } from "./shapes";

export interface Row {
  /** Lanes of lines that pass this row on their way to an older commit. */
  passing: number[];
  /** Whether a newer commit is joined to this one. */
  joined: boolean;
}

/** One pass over the commits, newest first: what is still looked for below passes the rows between. */
export function traceLanes(commits: LogCommit[]): Row[] {
  const awaited = new Map<string, number>();
  return commits.map((commit) => {
    const joined = awaited.delete(commit.graph_commit_id);
    const passing = [...new Set(awaited.values())];
    for (const parent of commit.parents) awaited.set(parent.id, parent.lane);
    return { passing, joined };
  });
}

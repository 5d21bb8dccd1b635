/** What is known about the health of a graph, in the shapes of the server. */
import { askJson, graphPath, search } from "./server";

export interface Finding {
  check: string;
  message: string;
  remedy: string;
  branch?: string;
  table_key?: string;
}

export interface IndexState {
  table_key: string;
  column: string;
  kind: string;
  state: string;
  rows_indexed: number;
  rows: number;
  reason?: string | null;
}

export interface Pending {
  operation_id: string;
  writer_kind?: string;
  branch?: string;
  actor_id?: string | null;
  started_at?: string | null;
  forecast?: string | null;
  problem?: string | null;
  [fact: string]: unknown;
}

export interface Settled {
  recovery_kind: string;
  operation_id: string;
  sidecar_writer_kind: string;
  recovery_for_actor: string | null;
  graph_commit_id: string;
  created_at: number;
}

export interface Removable {
  table_key: string;
  versions_removed: number;
  bytes_removed: number;
  forks_removed: number;
  dropped: boolean;
}

export const readDoctor = (graph: string) => askJson<{ settled: boolean; findings: Finding[] }>(`${graphPath(graph)}/doctor`);
export const readIndexes = (graph: string) => askJson<{ indexes: IndexState[] }>(`${graphPath(graph)}/index_status`);
export const readRecoveries = (graph: string) => askJson<{ pending: Pending[]; settled: Settled[] }>(`${graphPath(graph)}/recoveries`);
export const previewCleanup = (graph: string, keep: number) => askJson<{ tables: Removable[] }>(search(`${graphPath(graph)}/cleanup/preview`, { keep }));

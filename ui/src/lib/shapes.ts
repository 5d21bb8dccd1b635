/** The shapes of the server's answers, as its description of itself has them. */

export type Value = string | number | boolean | null | Value[] | { [name: string]: Value };

export interface Branch {
  name: string;
  head: string;
  parent: string | null;
  head_at?: number;
  head_actor?: string;
  created_at?: number;
  ahead?: number;
  behind?: number;
}

export interface Commit {
  graph_commit_id: string;
  manifest_branch: string | null;
  parent_commit_id: string | null;
  merged_parent_commit_id: string | null;
  actor_id: string | null;
  created_at: number;
  kind: string;
  tables: string[];
  message: string | null;
}

export interface LogCommit extends Commit {
  lane: number;
  parents: { id: string; lane: number }[];
  branches: string[];
  tags: string[];
  counts?: { inserted: number; updated: number; deleted: number } | null;
}

export interface Entity {
  kind: "node" | "edge";
  type: string;
  id: string;
  label: string;
  properties: Record<string, Value>;
  from?: End;
  to?: End;
}

export interface End {
  type: string;
  id: string;
  label: string;
}

export type Mark = "added" | "removed" | "changed" | "same";

export interface DrawnEntity extends Entity {
  change?: Mark;
  before?: Record<string, Value>;
}

export interface Change {
  kind: "node" | "edge";
  type: { id: string; name: string };
  id: string;
  op: "insert" | "update" | "delete";
  properties?: string[];
  before?: Image;
  after?: Image;
}

export interface Image {
  properties: Record<string, Value>;
  endpoints?: { from: string; to: string };
}

export interface TypeShape {
  kind: "node" | "edge";
  name: string;
  rows: number;
  bytes: number;
  fragments: number;
  from?: string;
  to?: string;
  cardinality?: string;
  properties: {
    name: string;
    type: string;
    optional: boolean;
    key: boolean;
    unique: boolean;
    indexed: boolean;
    coverage?: number | null;
  }[];
}

export interface Diagnostic {
  code: string;
  severity: "error" | "warning" | "info";
  message: string;
  hint?: string | null;
  line: number;
  column: number;
  end_line: number;
  end_column: number;
}

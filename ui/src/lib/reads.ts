/** The questions the screens ask of one graph at the ref of the page. */
import { learnTypes } from "../drawing/colours";
import { page } from "./page.svelte";
import { readAt, readRefs } from "./refs";
import { askJson, graphPath, search } from "./server";
import type { DrawnEntity, Entity, TypeShape, Value } from "./shapes";

export interface Group {
  edge: string;
  direction: "out" | "in";
  type?: string;
  shown?: number;
  total: number;
}

export interface Neighbourhood {
  nodes: DrawnEntity[];
  edges: DrawnEntity[];
  groups: Group[];
}

function here(): { graph: string; ref: string } {
  return { graph: page.place?.graph ?? "default", ref: page.place?.ref ?? "main" };
}

/** `branch` or `at` of the routes that read one state. */
async function stateOptions(graph: string, ref: string): Promise<Record<string, string>> {
  const state = readAt(await readRefs(graph), ref);
  return "branch" in state ? { branch: state.branch } : { at: state.snapshot };
}

async function read<T>(path: string, options: Record<string, string | number | string[] | undefined> = {}): Promise<T> {
  const { graph, ref } = here();
  return askJson<T>(search(`${graphPath(graph)}/${path}`, { ...options, ...(await stateOptions(graph, ref)) }));
}

export async function readTypes(): Promise<{ types: TypeShape[] }> {
  const found = await read<{ types: TypeShape[] }>("schema/graph");
  learnTypes(found.types.filter((type) => type.kind === "node").map((type) => type.name));
  return found;
}

let learning: { graph: string; done: Promise<void> } | null = null;

/** Know the types of the graph before something is drawn; what is drawn without them has colours all the same. */
export function knowTypes(): Promise<void> {
  const { graph } = here();
  if (learning?.graph !== graph) {
    const done = readTypes().then(
      () => undefined,
      () => void (learning = null),
    );
    learning = { graph, done };
  }
  return learning.done;
}

/** An edge by its id; its ends are ids, and the schema says of which types. */
export async function readEdge(type: string, id: string): Promise<Entity> {
  const [{ entity }, { types }] = await Promise.all([
    read<{ entity: Record<string, Value> }>("entity", { type, id }),
    readTypes(),
  ]);
  const shape = types.find((one) => one.kind === "edge" && one.name === type);
  const { id: _, src, dst, ...properties } = entity;
  const end = (of: string | undefined, value: Value | undefined) => ({ type: of ?? "", id: String(value), label: String(value) });
  return { kind: "edge", type, id, label: id, properties, from: end(shape?.from, src), to: end(shape?.to, dst) };
}

export function readNeighbours(type: string, id: string, only: { edge?: string; direction?: string; limit?: number } = {}): Promise<Neighbourhood> {
  return read("neighbours", { type, id, ...only });
}

export interface Answer {
  columns: string[];
  rows: Record<string, unknown>[];
  row_count: number;
  graph_commit_id?: string;
}

export async function runQuery(text: string, params: Record<string, unknown> = {}, name?: string, signal?: AbortSignal): Promise<Answer> {
  const { graph, ref } = here();
  const state = readAt(await readRefs(graph), ref);
  return askJson<Answer>(`${graphPath(graph)}/query`, {
    body: { query: text, params, ...(name ? { name } : {}), ...state },
    signal,
  });
}

export interface Found {
  type: string;
  id: string;
  text: string;
}

const FOUND_PER_TYPE = 8;
/** Types that one search looks through: the largest, unless one is chosen. */
export const TYPES_SEARCHED = 24;

/** Entities whose key or texts hold what was typed, a few of every type. */
export async function findEntities(types: TypeShape[], typed: string, only: string): Promise<Found[]> {
  const wanted = types
    .filter((type) => type.kind === "node" && (!only || type.name === only))
    .sort((one, other) => other.rows - one.rows)
    .slice(0, TYPES_SEARCHED);
  const found = await Promise.all(wanted.map((type) => findOfType(type, typed)));
  return found.flat();
}

async function findOfType(type: TypeShape, typed: string): Promise<Found[]> {
  const texts = type.properties.filter((one) => one.type === "String").map((one) => one.name);
  const shown = texts.slice(0, 3);
  const clauses = shown.map((name) => `lower($n.${name}) contains lower($typed)`);
  const condition = typed && clauses.length ? clauses.join(" or ") : "";
  const columns = ["id($n) as entity", ...shown.map((name, index) => `$n.${name} as t${index}`)];
  const text = `query find(${condition ? "$typed: String" : ""}) { match { $n: ${type.name} ${condition} } return { ${columns.join(", ")} } limit ${FOUND_PER_TYPE} }`;
  const answer = await runQuery(text, condition ? { typed } : {});
  return answer.rows.map((row) => ({
    type: type.name,
    id: String(row["entity"]),
    text: [...new Set(shown.map((_, index) => row[`t${index}`]).filter((one) => one !== null && one !== undefined))].join(" · "),
  }));
}

export interface FoundPath {
  type: string;
  hops: number;
  nodes: string[];
  edges: { type: string; id: string; from: string; to: string }[];
}

/** The shortest path between two nodes of one type, edges taken either way; null where there is none. */
export async function findPath(type: string, from: string, to: string): Promise<FoundPath | null> {
  const found = await read<{ paths: FoundPath[] }>("paths", { type, from, to, undirected: "true" });
  return found.paths[0] ?? null;
}

/** The nodes of a path with what people call them, and its edges, to be drawn. */
export async function readPathEntities(path: FoundPath): Promise<{ nodes: DrawnEntity[]; edges: DrawnEntity[] }> {
  const near = await Promise.all(path.nodes.map((id) => readNeighbours(path.type, id, { limit: 1 })));
  const nodes = near.map((one, index) => one.nodes.find((node) => node.type === path.type && node.id === path.nodes[index])!);
  const ends = new Map(nodes.map((node) => [node.id, node]));
  const edges = path.edges.map((edge): DrawnEntity => ({ kind: "edge", type: edge.type, id: edge.id, label: edge.type, properties: {}, from: ends.get(edge.from)!, to: ends.get(edge.to)! }));
  return { nodes, edges };
}

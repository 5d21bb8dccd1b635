/** What is drawn: nodes and edges with their places. Places come from ids, so the same node starts at the same place everywhere. */
import type { DrawnEntity, End, Mark, Value } from "../lib/shapes";

export interface SceneNode {
  key: string;
  type: string;
  id: string;
  label: string;
  mark: Mark;
  x: number;
  y: number;
  /** A node that was placed before stays where it is when others join it. */
  placed: boolean;
  degree: number;
  /** A node that somebody put where it is. */
  pinned: boolean;
  properties: Record<string, Value>;
}

export interface SceneEdge {
  key: string;
  type: string;
  id: string;
  from: string;
  to: string;
  mark: Mark;
  label: string;
}

export interface Scene {
  nodes: Map<string, SceneNode>;
  edges: Map<string, SceneEdge>;
  /** Nodes and edges of a path that stands out. */
  path?: Set<string>;
}

export function emptyScene(): Scene {
  return { nodes: new Map(), edges: new Map() };
}

export function keyOf(end: { type: string; id: string }): string {
  return `${end.type}/${end.id}`;
}

/** A number between 0 and 1 that is always the same for a text. */
export function hashText(text: string, salt: number): number {
  let hash = 2166136261 ^ salt;
  for (let index = 0; index < text.length; index++) {
    hash ^= text.charCodeAt(index);
    hash = Math.imul(hash, 16777619);
  }
  hash ^= hash >>> 15;
  return ((Math.imul(hash, 2246822519) >>> 0) % 1_000_003) / 1_000_003;
}

const SPREAD = 100;

function seedPlace(key: string): { x: number; y: number } {
  return { x: (hashText(key, 1) - 0.5) * SPREAD, y: (hashText(key, 2) - 0.5) * SPREAD };
}

/** Add entities to a scene; the scene that is given stays as it is. */
export function joinScene(scene: Scene, nodes: DrawnEntity[], edges: DrawnEntity[]): Scene {
  const joined: Scene = { nodes: new Map(scene.nodes), edges: new Map(scene.edges) };
  for (const [key, node] of joined.nodes) joined.nodes.set(key, { ...node, placed: true });
  for (const node of nodes) addNode(joined, node, node.change ?? "same", node.properties);
  for (const edge of edges) addEdge(joined, edge);
  countDegrees(joined);
  return joined;
}

function addNode(scene: Scene, end: End, mark: Mark, properties?: Record<string, Value>): void {
  const key = keyOf(end);
  const known = scene.nodes.get(key);
  if (known) {
    if (mark !== "same") known.mark = mark;
    if (properties) known.properties = properties;
    return;
  }
  scene.nodes.set(key, {
    key,
    type: end.type,
    id: end.id,
    label: end.label || end.id,
    mark,
    ...seedPlace(key),
    placed: false,
    degree: 0,
    pinned: false,
    properties: properties ?? {},
  });
}

function addEdge(scene: Scene, edge: DrawnEntity): void {
  if (!edge.from || !edge.to) return;
  addNode(scene, edge.from, "same");
  addNode(scene, edge.to, "same");
  const key = `${edge.type}/${edge.id}`;
  scene.edges.set(key, {
    key,
    type: edge.type,
    id: edge.id,
    from: keyOf(edge.from),
    to: keyOf(edge.to),
    mark: edge.change ?? "same",
    label: edge.label && edge.label !== edge.id ? edge.label : edge.type,
  });
}

function countDegrees(scene: Scene): void {
  for (const node of scene.nodes.values()) node.degree = 0;
  for (const edge of scene.edges.values()) {
    scene.nodes.get(edge.from)!.degree++;
    scene.nodes.get(edge.to)!.degree++;
  }
}

/** Put nodes where another scene has them: what is in both stays at its place. */
export function keepPlaces(scene: Scene, other: Scene): Scene {
  for (const [key, node] of scene.nodes) {
    const known = other.nodes.get(key);
    if (known?.placed) scene.nodes.set(key, { ...node, x: known.x, y: known.y, placed: true });
  }
  return scene;
}

/** The scene without some nodes and what hangs on them. */
export function hideNode(scene: Scene, key: string): Scene {
  const kept: Scene = { nodes: new Map(scene.nodes), edges: new Map() };
  kept.nodes.delete(key);
  for (const [name, edge] of scene.edges) if (edge.from !== key && edge.to !== key) kept.edges.set(name, edge);
  countDegrees(kept);
  return kept;
}

/** The first nodes of a scene and the edges between them: a picture that stays legible, cut the same way every time. */
export function cutScene(scene: Scene, nodes: number): Scene {
  if (scene.nodes.size <= nodes) return scene;
  const kept: Scene = { nodes: new Map([...scene.nodes].slice(0, nodes)), edges: new Map() };
  for (const [key, edge] of scene.edges) if (kept.nodes.has(edge.from) && kept.nodes.has(edge.to)) kept.edges.set(key, edge);
  countDegrees(kept);
  return kept;
}

/** Put nodes where somebody pinned them: `Type/id@x,y`. */
export function pinNodes(scene: Scene, pins: string[]): Scene {
  for (const pin of pins) {
    const cut = pin.lastIndexOf("@");
    const node = scene.nodes.get(pin.slice(0, cut));
    const [x, y] = pin.slice(cut + 1).split(",").map(Number);
    if (node && Number.isFinite(x) && Number.isFinite(y)) scene.nodes.set(node.key, { ...node, x: x!, y: y!, placed: true, pinned: true });
  }
  return scene;
}

export function spellPin(key: string, x: number, y: number): string {
  return `${key}@${x.toFixed(1)},${y.toFixed(1)}`;
}

/** The shortest way between two nodes along what is drawn, edges taken either way; its nodes and edges in order. */
export function findDrawnPath(scene: Scene, from: string, to: string): { nodes: string[]; edges: SceneEdge[] } | null {
  const near = new Map<string, SceneEdge[]>();
  for (const edge of scene.edges.values())
    for (const end of [edge.from, edge.to]) near.set(end, [...(near.get(end) ?? []), edge]);
  const came = new Map<string, { node: string; edge: SceneEdge } | null>([[from, null]]);
  for (let level = [from]; level.length && !came.has(to); ) {
    const next: string[] = [];
    for (const node of level)
      for (const edge of near.get(node) ?? []) {
        const other = edge.from === node ? edge.to : edge.from;
        if (came.has(other)) continue;
        came.set(other, { node, edge });
        next.push(other);
      }
    level = next;
  }
  if (!came.has(to)) return null;
  const nodes = [to];
  const edges: SceneEdge[] = [];
  for (let step = came.get(to); step; step = came.get(step.node)) {
    nodes.unshift(step.node);
    edges.unshift(step.edge);
  }
  return { nodes, edges };
}

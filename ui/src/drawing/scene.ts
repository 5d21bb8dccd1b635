/** What is drawn: nodes and edges with their places. Places come from ids, so the same node starts at the same place everywhere. */
import type { DrawnEntity, End, Mark } from "../lib/shapes";

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
}

export interface SceneEdge {
  key: string;
  type: string;
  id: string;
  from: string;
  to: string;
  mark: Mark;
}

export interface Scene {
  nodes: Map<string, SceneNode>;
  edges: Map<string, SceneEdge>;
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
  for (const node of nodes) addNode(joined, node, node.change ?? "same");
  for (const edge of edges) addEdge(joined, edge);
  countDegrees(joined);
  return joined;
}

function addNode(scene: Scene, end: End, mark: Mark): void {
  const key = keyOf(end);
  const known = scene.nodes.get(key);
  if (known) {
    if (mark !== "same") scene.nodes.set(key, { ...known, mark });
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

/** A path between two nodes: the shortest of the graph where both are of one type, else along what is drawn. */
import { findDrawnPath, type Scene } from "../drawing/scene";
import { findPath, readPathEntities, readTypes } from "./reads";
import type { DrawnEntity } from "./shapes";

export interface Step {
  key: string;
  label: string;
  /** The edge that leads here, and whether it is taken from its beginning. */
  by?: { type: string; forward: boolean };
}

export interface DrawnPath {
  found: boolean;
  /** Whether only what is drawn was looked through. */
  drawnOnly: boolean;
  steps: Step[];
  nodes: DrawnEntity[];
  edges: DrawnEntity[];
  /** Keys of nodes and edges in the scene. */
  keys: string[];
}

const NONE: DrawnPath = { found: false, drawnOnly: false, steps: [], nodes: [], edges: [], keys: [] };

export async function searchPath(scene: Scene, from: string, to: string): Promise<DrawnPath> {
  const [type, start] = split(from);
  const [other, end] = split(to);
  if (type !== other || !(await joinsItself(type))) return walkDrawn(scene, from, to);
  const path = await findPath(type, start, end);
  if (!path) return walkDrawn(scene, from, to);
  const { nodes, edges } = await readPathEntities(path);
  const steps = nodes.map((node, index): Step => {
    const edge = path.edges[index - 1];
    const step = { key: `${node.type}/${node.id}`, label: node.label };
    return edge ? { ...step, by: { type: edge.type, forward: edge.to === node.id } } : step;
  });
  return { found: true, drawnOnly: false, steps, nodes, edges, keys: [...steps.map((step) => step.key), ...path.edges.map((edge) => `${edge.type}/${edge.id}`)] };
}

/** Whether edges lead from nodes of a type to others of it: the server walks no others. */
async function joinsItself(type: string): Promise<boolean> {
  return (await readTypes()).types.some((one) => one.kind === "edge" && one.from === type && one.to === type);
}

function walkDrawn(scene: Scene, from: string, to: string): DrawnPath {
  const walked = findDrawnPath(scene, from, to);
  if (!walked) return { ...NONE, drawnOnly: true };
  const steps = walked.nodes.map((key, index): Step => {
    const edge = walked.edges[index - 1];
    const step = { key, label: scene.nodes.get(key)?.label ?? key };
    return edge ? { ...step, by: { type: edge.type, forward: edge.to === key } } : step;
  });
  return { found: true, drawnOnly: true, steps, nodes: [], edges: [], keys: [...walked.nodes, ...walked.edges.map((edge) => edge.key)] };
}

function split(key: string): [string, string] {
  const cut = key.indexOf("/");
  return [key.slice(0, cut), key.slice(cut + 1)];
}

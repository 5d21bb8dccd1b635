import type { Scene, SceneNode } from "./scene";
import type { LayoutTask } from "./layout.worker";

/** Place the nodes of a scene that have no place yet; the others stay where they are. */
export async function placeScene(scene: Scene, signal: AbortSignal): Promise<boolean> {
  const nodes = [...scene.nodes.values()];
  if (nodes.every((node) => node.placed)) return false;
  startBesideNeighbours(scene);
  const places = await runWorker(describe(scene, nodes), signal);
  nodes.forEach((node, index) => {
    if (node.placed) return;
    node.x = places[index * 2]!;
    node.y = places[index * 2 + 1]!;
    node.placed = true;
  });
  return true;
}

/** A node that joins a drawing starts near the one it hangs on. */
function startBesideNeighbours(scene: Scene): void {
  for (const edge of scene.edges.values()) {
    const from = scene.nodes.get(edge.from)!;
    const to = scene.nodes.get(edge.to)!;
    if (from.placed && !to.placed) bringNear(to, from);
    if (to.placed && !from.placed) bringNear(from, to);
  }
}

function bringNear(node: SceneNode, other: SceneNode): void {
  node.x = other.x + node.x * 0.15;
  node.y = other.y + node.y * 0.15;
}

function describe(scene: Scene, nodes: SceneNode[]): LayoutTask {
  const index = new Map(nodes.map((node, at) => [node.key, at]));
  const places = new Float32Array(nodes.length * 2);
  nodes.forEach((node, at) => places.set([node.x, node.y], at * 2));
  const ends = new Uint32Array(scene.edges.size * 2);
  let at = 0;
  for (const edge of scene.edges.values()) {
    ends[at++] = index.get(edge.from)!;
    ends[at++] = index.get(edge.to)!;
  }
  return {
    places,
    fixed: Uint8Array.from(nodes, (node) => (node.placed ? 1 : 0)),
    degrees: Uint32Array.from(nodes, (node) => node.degree),
    ends,
    iterations: nodes.length > 5000 ? 60 : nodes.length > 1000 ? 150 : 400,
  };
}

function runWorker(task: LayoutTask, signal: AbortSignal): Promise<Float32Array> {
  const worker = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
  return new Promise<Float32Array>((done, fail) => {
    signal.addEventListener("abort", () => fail(signal.reason));
    worker.onmessage = (event: MessageEvent<Float32Array>) => done(event.data);
    worker.onerror = () => fail(new Error("the layout could not be computed"));
    worker.postMessage(task);
  }).finally(() => worker.terminate());
}

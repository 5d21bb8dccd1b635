/** Places nodes by forces, beside the page. The same input gives the same places. */
import iterate from "graphology-layout-forceatlas2/iterate";

export interface LayoutTask {
  places: Float32Array;
  fixed: Uint8Array;
  degrees: Uint32Array;
  ends: Uint32Array;
  iterations: number;
}

const NODE_FIELDS = 10;
const EDGE_FIELDS = 3;

onmessage = (event: MessageEvent<LayoutTask>) => {
  const places = layOut(event.data);
  postMessage(places, { transfer: [places.buffer] });
};

function layOut(task: LayoutTask): Float32Array {
  const count = task.fixed.length;
  const nodes = new Float32Array(count * NODE_FIELDS);
  for (let index = 0; index < count; index++) {
    const at = index * NODE_FIELDS;
    nodes[at] = task.places[index * 2]!;
    nodes[at + 1] = task.places[index * 2 + 1]!;
    nodes[at + 6] = 1 + task.degrees[index]!;
    nodes[at + 7] = 1;
    nodes[at + 8] = 2;
    nodes[at + 9] = task.fixed[index]!;
  }
  const edges = new Float32Array((task.ends.length / 2) * EDGE_FIELDS);
  for (let index = 0; index < task.ends.length / 2; index++) {
    edges[index * EDGE_FIELDS] = task.ends[index * 2]! * NODE_FIELDS;
    edges[index * EDGE_FIELDS + 1] = task.ends[index * 2 + 1]! * NODE_FIELDS;
    edges[index * EDGE_FIELDS + 2] = 1;
  }
  const settings = {
    linLogMode: false,
    outboundAttractionDistribution: false,
    adjustSizes: false,
    edgeWeightInfluence: 0,
    scalingRatio: 8,
    // Parts that nothing joins stay in sight of each other.
    strongGravityMode: true,
    gravity: 0.03,
    slowDown: 1 + Math.log(count + 1),
    barnesHutOptimize: count > 600,
    barnesHutTheta: 0.7,
  };
  for (let round = 0; round < task.iterations; round++) iterate(settings, nodes, edges);
  const places = new Float32Array(count * 2);
  for (let index = 0; index < count; index++) {
    places[index * 2] = nodes[index * NODE_FIELDS]!;
    places[index * 2 + 1] = nodes[index * NODE_FIELDS + 1]!;
  }
  return places;
}

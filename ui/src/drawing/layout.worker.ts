/** Places nodes by forces, beside the page. The same input gives the same places. */
import iterate from "graphology-layout-forceatlas2/iterate";
import { findGroups, GOLDEN_ANGLE, joinGroups, spreadMembers, type Net } from "./communities";

export interface LayoutTask {
  places: Float32Array;
  fixed: Uint8Array;
  degrees: Uint32Array;
  ends: Uint32Array;
  iterations: number;
}

const NODE_FIELDS = 10;
const EDGE_FIELDS = 3;

/** More nodes start by the group they belong to: forces alone would leave them a ball. */
const CROWD = 600;
const GROUP_ROUNDS = 200;
const MEMBER_GAP = 12;
/** Fewer nodes have room wherever forces put them. */
const LONELY_LEAST = 30;

onmessage = (event: MessageEvent<LayoutTask>) => {
  const places = layOut(event.data);
  postMessage(places, { transfer: [places.buffer] });
};

function layOut(task: LayoutTask): Float32Array {
  const places = pullTogether(task);
  if (!task.fixed.includes(1) && task.fixed.length > LONELY_LEAST) surround(places, task.degrees);
  return places;
}

/** Nodes without edges on a spiral around the others: forces alone would strew them among them. */
function surround(places: Float32Array, degrees: Uint32Array): void {
  const joined = [...degrees.keys()].filter((node) => degrees[node]! > 0);
  const middle = [0, 1].map((axis) => joined.reduce((sum, node) => sum + places[node * 2 + axis]!, 0) / Math.max(1, joined.length));
  const far = (node: number) => Math.hypot(places[node * 2]! - middle[0]!, places[node * 2 + 1]! - middle[1]!);
  const radius = joined.reduce((most, node) => Math.max(most, far(node)), 0);
  const gap = joined.length ? radius / Math.sqrt(joined.length) : MEMBER_GAP;
  let turn = 0;
  degrees.forEach((degree, node) => {
    if (degree > 0) return;
    const [away, angle] = [Math.sqrt(radius ** 2 + gap ** 2 * ++turn), turn * GOLDEN_ANGLE];
    places.set([middle[0]! + away * Math.cos(angle), middle[1]! + away * Math.sin(angle)], node * 2);
  });
}

function pullTogether(task: LayoutTask): Float32Array {
  const net = { count: task.fixed.length, ends: task.ends, weights: new Float32Array(task.ends.length / 2).fill(1) };
  const starts = net.count > CROWD && !task.fixed.includes(1) ? startByGroups(net, task.places) : task.places;
  const masses = Float32Array.from(task.degrees, (degree) => 1 + degree);
  return pushApart(net, starts, masses, task.fixed, task.iterations);
}

function startByGroups(net: Net, places: Float32Array): Float32Array {
  const group = findGroups(net);
  const groups = joinGroups(net, group);
  const members = new Float32Array(groups.count);
  const middles = new Float32Array(groups.count * 2);
  group.forEach((one, node) => {
    members[one]!++;
    middles.set([places[node * 2]!, places[node * 2 + 1]!], one * 2);
  });
  const placed = pushApart(groups, middles, members, new Uint8Array(groups.count), GROUP_ROUNDS);
  return spreadMembers(group, placed, MEMBER_GAP);
}

function pushApart(net: Net, starts: Float32Array, masses: Float32Array, fixed: Uint8Array, rounds: number): Float32Array {
  const nodes = new Float32Array(net.count * NODE_FIELDS);
  for (let index = 0; index < net.count; index++)
    nodes.set([starts[index * 2]!, starts[index * 2 + 1]!, 0, 0, 0, 0, masses[index]!, 1, 2, fixed[index]!], index * NODE_FIELDS);
  const edges = new Float32Array((net.ends.length / 2) * EDGE_FIELDS);
  for (let index = 0; index < net.ends.length / 2; index++)
    edges.set([net.ends[index * 2]! * NODE_FIELDS, net.ends[index * 2 + 1]! * NODE_FIELDS, net.weights[index]!], index * EDGE_FIELDS);
  const settings = {
    linLogMode: false,
    outboundAttractionDistribution: false,
    adjustSizes: false,
    edgeWeightInfluence: 0.5,
    scalingRatio: 8,
    // Parts that nothing joins stay in sight of each other.
    strongGravityMode: true,
    gravity: net.count < 300 ? 0.25 : net.count > CROWD ? 0.1 : 0.03,
    slowDown: 1 + Math.log(net.count + 1),
    barnesHutOptimize: net.count > CROWD,
    barnesHutTheta: 1.2,
  };
  for (let round = 0; round < rounds; round++) iterate(settings, nodes, edges);
  const places = new Float32Array(net.count * 2);
  for (let index = 0; index < net.count; index++) places.set([nodes[index * NODE_FIELDS]!, nodes[index * NODE_FIELDS + 1]!], index * 2);
  return places;
}

/** Groups of nodes that are joined more with each other than with the rest, and a first place for each node from them. */

export interface Net {
  count: number;
  /** Two numbers of nodes for each edge. */
  ends: Uint32Array;
  weights: Float32Array;
}

/** Neighbours of every node, one after the other. */
interface Near {
  starts: Uint32Array;
  others: Uint32Array;
  weights: Float32Array;
  /** The weight of all edges of a node, loops twice. */
  degrees: Float64Array;
  total: number;
}

const ROUNDS = 12;
export const GOLDEN_ANGLE = Math.PI * (3 - Math.sqrt(5));

function listNear({ count, ends, weights }: Net): Near {
  const starts = new Uint32Array(count + 1);
  for (const end of ends) starts[end + 1]!++;
  for (let node = 0; node < count; node++) starts[node + 1]! += starts[node]!;
  const next = starts.slice();
  const near: Near = { starts, others: new Uint32Array(ends.length), weights: new Float32Array(ends.length), degrees: new Float64Array(count), total: 0 };
  for (let at = 0; at < ends.length; at++) {
    const [node, weight] = [ends[at]!, weights[at >> 1]!];
    const place = next[node]!++;
    near.others[place] = ends[at ^ 1]!;
    near.weights[place] = weight;
    near.degrees[node]! += weight;
    near.total += weight;
  }
  return near;
}

/** The group of each node by the method of Louvain: groups that gain by it are joined, then groups of groups, until few are left to join. */
export function findGroups(net: Net): Uint32Array {
  const group = moveNodes(net);
  const groups = joinGroups(net, group);
  if (groups.count === net.count) return group;
  const above = findGroups(groups);
  return group.map((one) => above[one]!);
}

function moveNodes(net: Net): Uint32Array {
  const near = listNear(net);
  const group = Uint32Array.from({ length: net.count }, (_, node) => node);
  const sums = near.degrees.slice();
  const votes = new Float64Array(net.count);
  for (let round = 0; round < ROUNDS; round++) {
    let moved = 0;
    for (let node = 0; node < net.count; node++) if (moveNode(node, near, group, sums, votes)) moved++;
    if (moved <= net.count / 500) break;
  }
  return numberGroups(group);
}

/** Put a node into the group of a neighbour where it gains most against what chance would give. */
function moveNode(node: number, near: Near, group: Uint32Array, sums: Float64Array, votes: Float64Array): boolean {
  const [from, until, own, degree] = [near.starts[node]!, near.starts[node + 1]!, group[node]!, near.degrees[node]!];
  sums[own]! -= degree;
  for (let at = from; at < until; at++) if (near.others[at] !== node) votes[group[near.others[at]!]!]! += near.weights[at]!;
  const gain = (one: number): number => votes[one]! - (degree * sums[one]!) / near.total;
  let best = own;
  for (let at = from; at < until; at++) {
    const other = group[near.others[at]!]!;
    if (gain(other) > gain(best) + 1e-9) best = other;
  }
  for (let at = from; at < until; at++) votes[group[near.others[at]!]!] = 0;
  group[node] = best;
  sums[best]! += degree;
  return best !== own;
}

function numberGroups(group: Uint32Array): Uint32Array {
  const numbers = new Map<number, number>();
  return group.map((one) => {
    if (!numbers.has(one)) numbers.set(one, numbers.size);
    return numbers.get(one)!;
  });
}

/** The graph of groups: one edge for each two that are joined, as heavy as what joins them. */
export function joinGroups(net: Net, group: Uint32Array): Net {
  let count = 0;
  for (const one of group) count = Math.max(count, one + 1);
  const pairs = new Map<number, number>();
  for (let at = 0; at < net.weights.length; at++) {
    const [one, other] = [group[net.ends[2 * at]!]!, group[net.ends[2 * at + 1]!]!];
    const pair = Math.min(one, other) * count + Math.max(one, other);
    pairs.set(pair, (pairs.get(pair) ?? 0) + net.weights[at]!);
  }
  const ends = new Uint32Array(pairs.size * 2);
  [...pairs.keys()].forEach((pair, at) => ends.set([Math.floor(pair / count), pair % count], at * 2));
  return { count, ends, weights: Float32Array.from(pairs.values()) };
}

/** Members of a group on a spiral around its place, `gap` apart. */
export function spreadMembers(group: Uint32Array, places: Float32Array, gap: number): Float32Array {
  const seen = new Uint32Array(places.length / 2);
  const spread = new Float32Array(group.length * 2);
  group.forEach((one, node) => {
    const turn = seen[one]!++;
    const far = gap * Math.sqrt(turn);
    spread[node * 2] = places[one * 2]! + far * Math.cos(turn * GOLDEN_ANGLE);
    spread[node * 2 + 1] = places[one * 2 + 1]! + far * Math.sin(turn * GOLDEN_ANGLE);
  });
  return spread;
}

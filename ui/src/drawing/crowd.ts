/** How much of the ink a picture takes: the more is drawn, the smaller the discs and the thinner and fainter the edges. */
import type { Mark } from "../lib/shapes";
import { MARKS } from "./colours";
import type { Scene } from "./scene";

/** Up to so many nodes and edges a picture has discs and lines of full size. */
const FEW_NODES = 300;
const FEW_EDGES = 1200;
const PLAIN = { light: "#b4bdc8", dark: "#647284" };
/** Faint lines need a colour of their own that is farther from the paper. */
const FAINT = { light: "#66758a", dark: "#9db0c6" };

export interface Ink {
  /** The radius of a node without edges, and what the largest has above it. */
  least: number;
  more: number;
  plainWidth: number;
  markedWidth: number;
  /** Arrow heads of crowded edges would be all that one sees. */
  arrows: boolean;
  edges: Record<Mark, string>;
  /** How much of its colour an edge has, between 0 and 1. */
  strength: number;
  /** Room around the picture: names beside the outermost nodes need it. */
  margin: number;
  /** Changes have colours of their own; where all are alike the types say more. */
  tints: boolean;
}

export function chooseInk(scene: Scene, dark: boolean): Ink {
  const share = Math.min(1, FEW_NODES / Math.max(1, scene.nodes.size));
  const size = share ** 0.4;
  const faint = Math.min(1, FEW_EDGES / Math.max(1, scene.edges.size)) ** 0.4;
  const theme = dark ? "dark" : "light";
  const crowded = faint < 0.75;
  return {
    least: 6 * size,
    more: Math.max(4, 10 * size),
    plainWidth: Math.max(0.9, 2.2 * size),
    markedWidth: Math.max(0.9, 3 * size),
    arrows: !crowded,
    edges: {
      same: fade(crowded ? FAINT[theme] : PLAIN[theme], faint),
      added: fade(MARKS.added[theme], faint),
      removed: fade(MARKS.removed[theme], faint),
      changed: fade(MARKS.changed[theme], faint),
    },
    strength: faint,
    margin: crowded ? 24 : 60,
    tints: countMarks(scene) > 1,
  };
}

function countMarks(scene: Scene): number {
  const marks = new Set<Mark>();
  for (const node of scene.nodes.values()) marks.add(node.mark);
  return marks.size;
}

/** A colour with a share of its strength, multiplied by it: WebGL adds colours as they are. */
export function fade(colour: string, strength: number): string {
  if (strength >= 1) return colour;
  const parts = [1, 3, 5].map((at) => Math.round(parseInt(colour.slice(at, at + 2), 16) * strength));
  return `rgba(${parts.join(",")},${strength.toFixed(3)})`;
}

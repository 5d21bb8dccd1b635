/** Draws a scene by WebGL, and the marks of a comparison above it. */
import { MultiDirectedGraph } from "graphology";
import Sigma from "sigma";
import type { Settings } from "sigma/settings";
import type { EdgeDisplayData, NodeDisplayData } from "sigma/types";
import type { Mark } from "../lib/shapes";
import { colourTypes, isDark, MARKS } from "./colours";
import { chooseInk, type Ink } from "./crowd";
import { paintLabels, placeLabels, type Disc, type Label, type Line } from "./labels";
import { placeScene } from "./layout";
import type { Scene, SceneEdge, SceneNode } from "./scene";

interface Events {
  select: (key: string | null) => void;
  expand: (key: string) => void;
  /** The first picture is there. */
  shown: () => void;
  /** Somebody moved a node; without this nodes cannot be moved. */
  place?: ((key: string, x: number, y: number) => void) | undefined;
}

/** Where a disc is in the picture, and its radius. */
interface Place {
  x: number;
  y: number;
  size: number;
}

type Side = "before" | "after" | "both";

/** Pictures with more nodes are shown before they are laid out. */
const EARLY = 1000;
/** Edges are named while they are this few. */
const NAMED_EDGES = 30;
/** Names keep away from edges while they are this few. */
const AVOIDED_EDGES = 300;
/** Crowded pictures get names and marks when they rest: both take longer than a frame. */
const CROWD = 600;
/** Changes in sight with rings and signs of their own; in a larger crowd the colour of the disc is the mark, until one comes nearer. */
const RINGS_MAX = 250;
const REST = 140;
const QUIET = { light: "#55616f", dark: "#a2afbd" };

export class Painter {
  private graph = new MultiDirectedGraph();
  private renderer: Sigma;
  private scene: Scene | null = null;
  private ink: Ink | null = null;
  private side: Side = "both";
  private selected: string | null = null;
  private colours = new Map<string, string>();
  private work = new AbortController();
  private marks: CanvasRenderingContext2D | null = null;
  private theme = matchMedia("(prefers-color-scheme: dark)");
  private dark = this.theme.matches;
  private loops: SceneEdge[] = [];
  private sizeBy = "";
  private rest: ReturnType<typeof setTimeout> | undefined;
  private names: Label[] = [];
  private named = "";
  private dragged: { key: string; moved: boolean } | null = null;

  constructor(
    box: HTMLElement,
    private events: Events,
  ) {
    this.renderer = new Sigma(this.graph, box, this.settle());
    this.renderer.createCanvasContext("marks", { style: { pointerEvents: "none" } });
    // A canvas that is made later has no size until the next resize.
    this.renderer.resize(true);
    this.marks = this.renderer.getCanvases()["marks"]?.getContext("2d") ?? null;
    this.renderer.on("afterRender", () => this.drawMarks());
    this.renderer.on("clickNode", ({ node }) => this.events.select(node));
    if (events.place) this.letMove();
    this.renderer.on("clickStage", () => this.events.select(null));
    this.renderer.on("doubleClickNode", ({ node, preventSigmaDefault }) => {
      preventSigmaDefault();
      this.events.expand(node);
    });
    this.theme.addEventListener("change", this.repaint);
  }

  /** A node follows the pointer that pulls it, and the picture keeps its frame meanwhile. */
  private letMove(): void {
    this.renderer.on("downNode", ({ node }) => {
      this.dragged = { key: node, moved: false };
      this.renderer.setCustomBBox(this.renderer.getBBox());
    });
    this.renderer.on("moveBody", ({ event, preventSigmaDefault }) => {
      if (!this.dragged) return;
      preventSigmaDefault();
      this.dragged.moved = true;
      this.graph.mergeNodeAttributes(this.dragged.key, this.renderer.viewportToGraph(event));
    });
    const drop = (): void => {
      const { key, moved } = this.dragged ?? { key: "", moved: false };
      this.dragged = null;
      if (moved) this.events.place?.(key, this.graph.getNodeAttribute(key, "x"), this.graph.getNodeAttribute(key, "y"));
    };
    this.renderer.on("upNode", drop);
    this.renderer.on("upStage", drop);
  }

  private settle(): Partial<Settings> {
    return {
      allowInvalidContainer: true,
      // Names are put where they cover nothing, which the marks above the drawing do.
      renderLabels: false,
      renderEdgeLabels: false,
      hideEdgesOnMove: false,
      defaultEdgeType: "arrow",
      labelFont: "system-ui, sans-serif",
      minCameraRatio: 0.02,
      maxCameraRatio: 6,
      zIndex: true,
      nodeReducer: (key, data) => this.reduceNode(key, data),
      edgeReducer: (key, data) => this.reduceEdge(key, data),
      defaultDrawNodeHover: drawHover,
    };
  }

  private repaint = (): void => {
    this.dark = this.theme.matches;
    this.ink = this.scene && chooseInk(this.scene, this.dark);
    this.renderer.refresh();
  };

  async show(scene: Scene): Promise<void> {
    this.work.abort();
    this.work = new AbortController();
    const work = this.work;
    this.scene = scene;
    this.ink = chooseInk(scene, this.dark);
    this.renderer.setSetting("minEdgeThickness", this.ink.plainWidth);
    this.renderer.setSetting("stagePadding", this.ink.margin);
    this.colours = colourTypes([...scene.nodes.values()].map((node) => node.type));
    const fresh = this.graph.order === 0;
    // A large picture is shown at the places that ids give, and settles while one looks.
    const early = scene.nodes.size > EARLY && [...scene.nodes.values()].some((node) => !node.placed);
    if (early) this.fill(scene);
    if (early && fresh) this.fit();
    if (early) this.events.shown();
    try {
      await placeScene(scene, work.signal);
    } catch (error) {
      if (work.signal.aborted) return;
      throw error;
    }
    if (work.signal.aborted) return;
    this.fill(scene);
    if (fresh) this.fit();
    this.events.shown();
  }

  /** The property whose value is the size of a node; none for the number of its edges. */
  size(property: string): void {
    this.sizeBy = property;
    if (!this.scene || this.graph.order === 0) return;
    const sizes = this.measureNodes(this.scene);
    this.graph.updateEachNodeAttributes((key, data) => ({ ...data, size: sizes.get(key) ?? 5 }), { attributes: ["size"] });
  }

  private measureNodes(scene: Scene): Map<string, number> {
    const weights = new Map<string, number>();
    for (const node of scene.nodes.values()) weights.set(node.key, this.sizeBy ? Math.max(0, Number(node.properties[this.sizeBy] ?? 0) || 0) : node.degree);
    let most = 0;
    for (const weight of weights.values()) most = Math.max(most, weight);
    const { least, more } = this.ink ?? chooseInk(scene, this.dark);
    for (const [key, weight] of weights) weights.set(key, least + more * Math.sqrt(most ? weight / most : 0));
    return weights;
  }

  private fill(scene: Scene): void {
    this.graph.clear();
    this.named = "";
    this.renderer.setCustomBBox(null);
    this.loops = [...scene.edges.values()].filter((edge) => edge.from === edge.to);
    const sizes = this.measureNodes(scene);
    for (const node of scene.nodes.values()) this.graph.addNode(node.key, { x: node.x, y: node.y, label: node.label, size: sizes.get(node.key) });
    for (const edge of scene.edges.values()) this.graph.addEdgeWithKey(edge.key, edge.from, edge.to, { size: this.ink?.plainWidth ?? 1.4, type: this.ink?.arrows === false ? "line" : "arrow" });
    this.renderer.refresh();
  }

  private isShown(mark: Mark): boolean {
    if (this.side === "before") return mark !== "added";
    if (this.side === "after") return mark !== "removed";
    return true;
  }

  private reduceNode(key: string, data: object): Partial<NodeDisplayData> {
    const node = this.scene?.nodes.get(key);
    if (!node) return data;
    const compares = this.scene !== null && hasMarks(this.scene);
    const quiet = compares && node.mark === "same";
    const tinted = node.mark !== "same" && (this.scene?.nodes.size ?? 0) > RINGS_MAX && this.ink?.tints;
    return {
      ...data,
      color: quiet ? (this.dark ? "#4d5866" : "#b9c1cb") : tinted ? this.tint(node.mark as Exclude<Mark, "same">) : (this.colours.get(node.type) ?? "#888888"),
      hidden: !this.isShown(node.mark),
      highlighted: key === this.selected,
      zIndex: node.mark === "same" ? 0 : 1,
    };
  }

  private reduceEdge(key: string, data: object): Partial<EdgeDisplayData> {
    const edge = this.scene?.edges.get(key);
    if (!edge || !this.ink) return data;
    if (this.scene?.path?.has(key)) return { ...data, color: this.dark ? "#7fb0ff" : "#1f5fc4", size: 4, zIndex: 2 };
    return {
      ...data,
      color: this.ink.edges[edge.mark],
      size: edge.mark === "same" ? this.ink.plainWidth : this.ink.markedWidth,
      // Removed edges are dashed, which the marks above the drawing do.
      hidden: edge.mark === "removed" || !this.isShown(edge.mark),
    };
  }

  private tint(mark: Exclude<Mark, "same">): string {
    return this.dark ? MARKS[mark].dark : MARKS[mark].light;
  }

  showSide(side: Side): void {
    this.side = side;
    this.renderer.refresh({ skipIndexation: true });
  }

  select(key: string | null): void {
    this.selected = key;
    this.renderer.refresh({ skipIndexation: true });
  }

  zoom(factor: number): void {
    const camera = this.renderer.getCamera();
    void camera.animate({ ratio: camera.ratio / factor }, { duration: this.pace() });
  }

  fit(): void {
    void this.renderer.getCamera().animate({ x: 0.5, y: 0.5, ratio: 1.08, angle: 0 }, { duration: this.pace() });
  }

  private pace(): number {
    return matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 200;
  }

  private drawMarks(): void {
    const paper = this.marks;
    if (!paper || !this.scene) return;
    const { width, height } = this.renderer.getDimensions();
    const density = paper.canvas.width / width;
    paper.setTransform(density, 0, 0, density, 0, 0);
    paper.clearRect(0, 0, width, height);
    const { x, y, ratio } = this.renderer.getCamera();
    const view = `${x} ${y} ${ratio} ${width} ${height} ${this.side} ${this.selected} ${this.sizeBy}`;
    const crowded = this.scene.nodes.size > CROWD;
    if (crowded && this.named !== view) return this.awaitRest(paper, width, height, view);
    this.drawLoops(paper);
    this.drawRings(paper);
    if (hasMarks(this.scene)) this.drawChanges(paper, width, height);
    if (this.named !== view || this.dragged) this.placeNames(paper, width, height, view);
    paintLabels(paper, this.names, this.dark);
  }

  private awaitRest(paper: CanvasRenderingContext2D, width: number, height: number, view: string): void {
    clearTimeout(this.rest);
    this.rest = setTimeout(() => {
      this.placeNames(paper, width, height, view);
      this.drawMarks();
    }, REST);
  }

  private drawChanges(paper: CanvasRenderingContext2D, width: number, height: number): void {
    if (!this.scene) return;
    const removed = [...this.scene.edges.values()].filter((edge) => edge.mark === "removed" && this.isShown(edge.mark));
    for (const edge of removed) this.drawRemovedEdge(paper, edge.from, edge.to);
    const inSight = this.listMarked(this.scene, width, height);
    if (inSight.length <= RINGS_MAX) for (const { node, place } of inSight) this.drawMark(paper, place, node.mark as Exclude<Mark, "same">);
  }

  private listMarked(scene: Scene, width: number, height: number): { node: SceneNode; place: Place }[] {
    const found: { node: SceneNode; place: Place }[] = [];
    for (const node of scene.nodes.values()) {
      if (node.mark === "same" || !this.isShown(node.mark)) continue;
      const place = this.placeOf(node.key);
      if (place && place.x > 0 && place.y > 0 && place.x < width && place.y < height) found.push({ node, place });
    }
    return found;
  }

  /** Nodes of a path stand out, and pinned ones have a dot. */
  private drawRings(paper: CanvasRenderingContext2D): void {
    for (const node of this.scene?.nodes.values() ?? []) {
      const onPath = this.scene?.path?.has(node.key);
      if (!onPath && !node.pinned) continue;
      const place = this.placeOf(node.key);
      if (!place) continue;
      paper.lineWidth = 3;
      paper.strokeStyle = this.dark ? "#7fb0ff" : "#1f5fc4";
      paper.beginPath();
      if (onPath) paper.arc(place.x, place.y, place.size + 3, 0, 2 * Math.PI);
      paper.stroke();
      if (!node.pinned) continue;
      paper.fillStyle = this.dark ? "#12161d" : "#ffffff";
      paper.beginPath();
      paper.arc(place.x, place.y, Math.max(2, place.size * 0.35), 0, 2 * Math.PI);
      paper.fill();
    }
  }

  private placeNames(paper: CanvasRenderingContext2D, width: number, height: number, view: string): void {
    const scene = this.scene;
    if (!scene) return;
    const discs: Disc[] = [];
    for (const node of scene.nodes.values()) {
      if (!this.isShown(node.mark)) continue;
      const place = this.placeOf(node.key);
      if (!place || place.x < -20 || place.y < -20 || place.x > width + 20 || place.y > height + 20) continue;
      const important = node.mark !== "same" || node.pinned || scene.path?.has(node.key);
      discs.push({ ...place, text: node.label, rank: (important ? 1000 : 0) + place.size, chosen: node.key === this.selected, marked: node.mark !== "same" });
    }
    this.names = placeLabels(paper, discs, this.listLines(scene, NAMED_EDGES), this.listLines(scene, AVOIDED_EDGES), width, height);
    this.named = view;
  }

  /** The edges by their ends, when they are few enough. */
  private listLines(scene: Scene, most: number): Line[] {
    if (scene.edges.size > most) return [];
    const lines: Line[] = [];
    for (const edge of scene.edges.values()) {
      const from = this.placeOf(edge.from);
      const to = this.placeOf(edge.to);
      if (from && to && edge.from !== edge.to && this.isShown(edge.mark)) lines.push({ from, to, text: edge.label });
    }
    return lines;
  }

  /** Edges from a node to itself, which WebGL leaves out: a ring beside the node. */
  private drawLoops(paper: CanvasRenderingContext2D): void {
    for (const edge of this.loops) {
      if (!this.isShown(edge.mark)) continue;
      const place = this.placeOf(edge.from);
      if (!place) continue;
      paper.strokeStyle = edge.mark === "same" ? (this.dark ? "#7b8794" : "#9aa4b0") : this.tint(edge.mark);
      paper.lineWidth = Math.min(1.5, this.ink?.markedWidth ?? 1.5);
      paper.globalAlpha = this.ink?.strength ?? 1;
      const round = Math.min(8, place.size + 2);
      paper.setLineDash(edge.mark === "removed" ? [4, 4] : []);
      paper.beginPath();
      paper.arc(place.x, place.y - place.size - round * 0.75, round, 0.75 * Math.PI, 2.25 * Math.PI);
      paper.stroke();
      paper.setLineDash([]);
      paper.globalAlpha = 1;
      if (this.loops.length > NAMED_EDGES || !edge.label) continue;
      paper.fillStyle = this.dark ? QUIET.dark : QUIET.light;
      paper.font = "11px system-ui, sans-serif";
      paper.textAlign = "center";
      paper.fillText(edge.label, place.x, place.y - place.size - 20);
    }
  }

  private placeOf(key: string): Place | null {
    const shown = this.renderer.getNodeDisplayData(key);
    if (!shown) return null;
    return { ...this.renderer.framedGraphToViewport(shown), size: this.renderer.scaleSize(shown.size) };
  }

  private drawRemovedEdge(paper: CanvasRenderingContext2D, from: string, to: string): void {
    const one = this.placeOf(from);
    const other = this.placeOf(to);
    if (!one || !other) return;
    paper.strokeStyle = this.tint("removed");
    paper.lineWidth = 2;
    paper.setLineDash([6, 5]);
    paper.beginPath();
    paper.moveTo(one.x, one.y);
    paper.lineTo(other.x, other.y);
    paper.stroke();
    paper.setLineDash([]);
  }

  private drawMark(paper: CanvasRenderingContext2D, place: Place, mark: Exclude<Mark, "same">): void {
    const tint = this.tint(mark);
    paper.strokeStyle = tint;
    paper.lineWidth = 2.2;
    paper.setLineDash(mark === "removed" ? [4, 4] : []);
    paper.beginPath();
    paper.arc(place.x, place.y, place.size + 3, 0, 2 * Math.PI);
    paper.stroke();
    paper.setLineDash([]);
    const badge = { x: place.x + place.size * 0.8 + 3, y: place.y - place.size * 0.8 - 3 };
    paper.fillStyle = tint;
    paper.beginPath();
    paper.arc(badge.x, badge.y, 7, 0, 2 * Math.PI);
    paper.fill();
    paper.fillStyle = this.dark ? "#12161d" : "#ffffff";
    paper.font = "bold 12px system-ui, sans-serif";
    paper.textAlign = "center";
    paper.textBaseline = "middle";
    paper.fillText(MARKS[mark].sign, badge.x, badge.y + 0.5);
  }

  end(): void {
    this.work.abort();
    clearTimeout(this.rest);
    this.theme.removeEventListener("change", this.repaint);
    this.renderer.kill();
  }
}

const marked = new WeakMap<Scene, boolean>();

function hasMarks(scene: Scene): boolean {
  let known = marked.get(scene);
  if (known === undefined) {
    known =
      [...scene.nodes.values()].some((node) => node.mark !== "same") ||
      [...scene.edges.values()].some((edge) => edge.mark !== "same");
    marked.set(scene, known);
  }
  return known;
}

/** The label of the node under the pointer, on a plate of the page's paper. */
function drawHover(paper: CanvasRenderingContext2D, node: { x: number; y: number; size: number; label?: string | null }): void {
  const dark = isDark();
  paper.strokeStyle = dark ? "#7fb0ff" : "#1f5fc4";
  paper.lineWidth = 2.5;
  paper.beginPath();
  paper.arc(node.x, node.y, node.size + 3, 0, 2 * Math.PI);
  paper.stroke();
  if (!node.label) return;
  paper.font = "600 12px system-ui, sans-serif";
  const width = paper.measureText(node.label).width + 14;
  paper.fillStyle = dark ? "#232b36" : "#ffffff";
  paper.beginPath();
  paper.roundRect(node.x + node.size + 6, node.y - 11, width, 22, 5);
  paper.fill();
  paper.lineWidth = 1;
  paper.strokeStyle = dark ? "#46515e" : "#c3cad3";
  paper.stroke();
  paper.fillStyle = dark ? "#e8edf3" : "#16202c";
  paper.textAlign = "left";
  paper.textBaseline = "middle";
  paper.fillText(node.label, node.x + node.size + 13, node.y);
}

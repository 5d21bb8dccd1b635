/** Draws a scene by WebGL, and the marks of a comparison above it. */
import { MultiDirectedGraph } from "graphology";
import Sigma from "sigma";
import type { Settings } from "sigma/settings";
import type { EdgeDisplayData, NodeDisplayData } from "sigma/types";
import type { Mark } from "../lib/shapes";
import { colourTypes, isDark, MARKS } from "./colours";
import { placeScene } from "./layout";
import type { Scene, SceneEdge, SceneNode } from "./scene";

interface Events {
  select: (key: string | null) => void;
  expand: (key: string) => void;
}

type Side = "before" | "after" | "both";

/** Pictures with more nodes are shown before they are laid out. */
const EARLY = 1000;
/** Edges are named while they are this few. */
const NAMED_EDGES = 30;
const QUIET = { light: "#55616f", dark: "#a2afbd" };

export class Painter {
  private graph = new MultiDirectedGraph();
  private renderer: Sigma;
  private scene: Scene | null = null;
  private side: Side = "both";
  private selected: string | null = null;
  private colours = new Map<string, string>();
  private work = new AbortController();
  private marks: CanvasRenderingContext2D | null = null;
  private theme = matchMedia("(prefers-color-scheme: dark)");
  private dark = this.theme.matches;
  private loops: SceneEdge[] = [];

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
    this.renderer.on("clickStage", () => this.events.select(null));
    this.renderer.on("doubleClickNode", ({ node, preventSigmaDefault }) => {
      preventSigmaDefault();
      this.events.expand(node);
    });
    this.theme.addEventListener("change", this.repaint);
  }

  private settle(): Partial<Settings> {
    return {
      allowInvalidContainer: true,
      renderEdgeLabels: false,
      defaultEdgeType: "arrow",
      labelFont: "system-ui, sans-serif",
      labelSize: 12,
      labelDensity: 0.8,
      labelGridCellSize: 90,
      labelRenderedSizeThreshold: 5,
      labelColor: { color: this.dark ? "#e8edf3" : "#16202c" },
      edgeLabelFont: "system-ui, sans-serif",
      edgeLabelSize: 11,
      edgeLabelColor: { color: this.dark ? QUIET.dark : QUIET.light },
      // Labels stand beside their nodes: the outermost ones need room too.
      stagePadding: 60,
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
    this.renderer.setSetting("labelColor", { color: this.dark ? "#e8edf3" : "#16202c" });
    this.renderer.setSetting("edgeLabelColor", { color: this.dark ? QUIET.dark : QUIET.light });
    this.renderer.refresh();
  };

  async show(scene: Scene): Promise<void> {
    this.work.abort();
    this.work = new AbortController();
    const work = this.work;
    this.scene = scene;
    this.colours = colourTypes([...scene.nodes.values()].map((node) => node.type));
    const fresh = this.graph.order === 0;
    // A large picture is shown at the places that ids give, and settles while one looks.
    const early = scene.nodes.size > EARLY && [...scene.nodes.values()].some((node) => !node.placed);
    if (early) this.fill(scene);
    if (early && fresh) this.fit();
    try {
      await placeScene(scene, work.signal);
    } catch (error) {
      if (work.signal.aborted) return;
      throw error;
    }
    if (work.signal.aborted) return;
    this.fill(scene);
    if (fresh) this.fit();
  }

  private fill(scene: Scene): void {
    this.graph.clear();
    this.loops = [...scene.edges.values()].filter((edge) => edge.from === edge.to);
    let most = 1;
    for (const node of scene.nodes.values()) most = Math.max(most, node.degree);
    for (const node of scene.nodes.values())
      this.graph.addNode(node.key, {
        x: node.x,
        y: node.y,
        label: node.label,
        size: 5 + 9 * Math.sqrt(node.degree / most),
      });
    for (const edge of scene.edges.values()) this.graph.addEdgeWithKey(edge.key, edge.from, edge.to, { size: 1.4, label: edge.type });
    this.renderer.setSetting("renderEdgeLabels", scene.edges.size <= NAMED_EDGES);
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
    return {
      ...data,
      color: quiet ? (this.dark ? "#4d5866" : "#b9c1cb") : (this.colours.get(node.type) ?? "#888888"),
      hidden: !this.isShown(node.mark),
      forceLabel: node.mark !== "same" && (this.scene?.nodes.size ?? 0) < 60,
      highlighted: key === this.selected,
      zIndex: node.mark === "same" ? 0 : 1,
    };
  }

  private reduceEdge(key: string, data: object): Partial<EdgeDisplayData> {
    const edge = this.scene?.edges.get(key);
    if (!edge) return data;
    const plain = this.dark ? "#46515e" : "#c3cad3";
    return {
      ...data,
      color: edge.mark === "same" ? plain : this.tint(edge.mark),
      size: edge.mark === "same" ? 1.2 : 2.4,
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
    this.drawLoops(paper);
    if (!hasMarks(this.scene)) return;
    for (const edge of this.scene.edges.values())
      if (edge.mark === "removed" && this.isShown(edge.mark)) this.drawRemovedEdge(paper, edge.from, edge.to);
    for (const node of this.scene.nodes.values())
      if (node.mark !== "same" && this.isShown(node.mark)) this.drawMark(paper, node, node.mark);
  }

  /** Edges from a node to itself, which WebGL leaves out: a ring beside the node. */
  private drawLoops(paper: CanvasRenderingContext2D): void {
    for (const edge of this.loops) {
      if (!this.isShown(edge.mark)) continue;
      const place = this.placeOf(edge.from);
      if (!place) continue;
      paper.strokeStyle = edge.mark === "same" ? (this.dark ? "#7b8794" : "#9aa4b0") : this.tint(edge.mark);
      paper.lineWidth = 1.5;
      paper.setLineDash(edge.mark === "removed" ? [4, 4] : []);
      paper.beginPath();
      paper.arc(place.x, place.y - place.size - 6, 8, 0.75 * Math.PI, 2.25 * Math.PI);
      paper.stroke();
      paper.setLineDash([]);
      if (this.loops.length > NAMED_EDGES || !edge.type) continue;
      paper.fillStyle = this.dark ? QUIET.dark : QUIET.light;
      paper.font = "11px system-ui, sans-serif";
      paper.textAlign = "center";
      paper.fillText(edge.type, place.x, place.y - place.size - 20);
    }
  }

  private placeOf(key: string): { x: number; y: number; size: number } | null {
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

  private drawMark(paper: CanvasRenderingContext2D, node: SceneNode, mark: Exclude<Mark, "same">): void {
    const place = this.placeOf(node.key);
    if (!place) return;
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

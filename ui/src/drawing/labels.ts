/** Names of nodes and edges, put where they cover neither a node nor another name; a name without room is left out. */

export interface Disc {
  x: number;
  y: number;
  size: number;
  text: string;
  /** Names of higher ranks are placed first. */
  rank: number;
  /** The chosen node has a plate of its own, which the others leave free. */
  chosen: boolean;
  marked: boolean;
}

export interface Line {
  from: { x: number; y: number };
  to: { x: number; y: number };
  text: string;
}

export interface Label {
  x: number;
  y: number;
  text: string;
  quiet: boolean;
}

const NAMES_MAX = 140;
/** Of a crowd the most important have names, which may cover discs too small to be told apart. */
const CROWD = 600;
const CROWD_NAMES = 30;
const DOT = 3;
const CELL = 3;
const HIGH = 14;
const LONG = 34;
const NODE_FONT = "12px system-ui, sans-serif";
const EDGE_FONT = "11px system-ui, sans-serif";

/** What of the picture is covered, in cells of a few pixels: fewer than lie between a disc and its name. */
class Cover {
  private readonly wide: number;
  private readonly cells: Uint8Array;
  private readonly crossed: Uint8Array;

  constructor(
    private readonly width: number,
    private readonly height: number,
  ) {
    this.wide = Math.ceil(width / CELL) + 1;
    this.cells = new Uint8Array(this.wide * (Math.ceil(height / CELL) + 1));
    this.crossed = new Uint8Array(this.cells.length);
  }

  private each(x: number, y: number, wide: number, high: number, look: (cell: number) => boolean): boolean {
    const right = Math.min(x + wide, this.width);
    const bottom = Math.min(y + high, this.height);
    for (let row = Math.floor(Math.max(0, y) / CELL); row * CELL < bottom; row++)
      for (let column = Math.floor(Math.max(0, x) / CELL); column * CELL < right; column++)
        if (look(row * this.wide + column)) return true;
    return false;
  }

  take(x: number, y: number, wide: number, high: number): void {
    this.each(x, y, wide, high, (cell) => ((this.cells[cell] = 1), false));
  }

  /** Mark the cells that an edge crosses; a name may stand there when there is no other room. */
  draw({ from, to }: Line): void {
    const steps = Math.ceil(Math.hypot(to.x - from.x, to.y - from.y) / CELL);
    for (let step = 0; step <= steps; step++) {
      const part = steps ? step / steps : 0;
      this.each(from.x + (to.x - from.x) * part, from.y + (to.y - from.y) * part, 1, 1, (cell) => ((this.crossed[cell] = 1), false));
    }
  }

  countCrossed(x: number, y: number, wide: number, high: number): number {
    let count = 0;
    this.each(x, y, wide, high, (cell) => ((count += this.crossed[cell]!), false));
    return count;
  }

  isFree(x: number, y: number, wide: number, high: number): boolean {
    if (x < 2 || y < 2 || x + wide > this.width - 2 || y + high > this.height - 2) return false;
    return !this.each(x, y, wide, high, (cell) => this.cells[cell] === 1);
  }
}

/** The names of discs and of `lines`; names of discs keep away from `strokes` where they can. */
export function placeLabels(paper: CanvasRenderingContext2D, discs: Disc[], lines: Line[], strokes: Line[], width: number, height: number): Label[] {
  const cover = new Cover(width, height);
  for (const stroke of strokes) cover.draw(stroke);
  paper.font = NODE_FONT;
  const crowded = discs.length > CROWD;
  for (const disc of discs) {
    if (crowded && disc.size < DOT && !disc.chosen) continue;
    cover.take(disc.x - disc.size, disc.y - disc.size, 2 * disc.size, 2 * disc.size);
    if (disc.marked && !crowded) cover.take(disc.x + disc.size * 0.8 - 4, disc.y - disc.size * 0.8 - 10, 14, 14);
    if (disc.chosen) cover.take(disc.x + disc.size + 6, disc.y - 11, paper.measureText(disc.text).width * 1.1 + 16, 22);
  }
  const placed: Label[] = [];
  const ranked = [...discs].sort((one, other) => other.rank - one.rank).slice(0, crowded ? CROWD_NAMES : NAMES_MAX);
  for (const disc of ranked) {
    if (disc.chosen) continue;
    const text = disc.text.length > LONG ? `${disc.text.slice(0, LONG - 1)}…` : disc.text;
    const wide = paper.measureText(text).width + 4;
    const gap = disc.size + (disc.marked ? 7 : 4);
    const spot = chooseSpot(cover, disc, gap, wide);
    if (!spot) continue;
    cover.take(spot[0], spot[1], wide, HIGH);
    placed.push({ x: spot[0] + 2, y: spot[1] + HIGH / 2, text, quiet: false });
  }
  paper.font = EDGE_FONT;
  for (const line of lines) {
    if (!line.text) continue;
    const wide = paper.measureText(line.text).width + 4;
    for (const part of [0.5, 0.38, 0.62, 0.28, 0.72]) {
      const x = line.from.x + (line.to.x - line.from.x) * part - wide / 2;
      const y = line.from.y + (line.to.y - line.from.y) * part - HIGH / 2;
      if (!cover.isFree(x, y, wide, HIGH)) continue;
      cover.take(x, y, wide, HIGH);
      placed.push({ x: x + 2, y: y + HIGH / 2, text: line.text, quiet: true });
      break;
    }
  }
  return placed;
}

/** The free spot beside a disc that the fewest edges cross; the first of equals. */
function chooseSpot(cover: Cover, disc: Disc, gap: number, wide: number): [number, number] | undefined {
  const slant = gap * 0.7;
  const spots: [number, number][] = [
    [disc.x + gap, disc.y - HIGH / 2],
    [disc.x - gap - wide, disc.y - HIGH / 2],
    [disc.x - wide / 2, disc.y + gap],
    [disc.x - wide / 2, disc.y - gap - HIGH],
    [disc.x + slant, disc.y + slant],
    [disc.x + slant, disc.y - slant - HIGH],
    [disc.x - slant - wide, disc.y + slant],
    [disc.x - slant - wide, disc.y - slant - HIGH],
  ];
  const free = spots.filter(([x, y]) => cover.isFree(x, y, wide, HIGH)).map((spot) => ({ spot, crossed: cover.countCrossed(...spot, wide, HIGH) }));
  const least = Math.min(...free.map((one) => one.crossed));
  return free.find((one) => one.crossed === least)?.spot;
}

/** Draw names with a rim of the paper's colour, so that they are legible above edges. */
export function paintLabels(paper: CanvasRenderingContext2D, labels: Label[], dark: boolean): void {
  paper.textAlign = "left";
  paper.textBaseline = "middle";
  paper.lineJoin = "round";
  paper.lineWidth = 3.5;
  paper.strokeStyle = dark ? "#1a2029" : "#ffffff";
  for (const label of labels) {
    paper.font = label.quiet ? EDGE_FONT : NODE_FONT;
    paper.strokeText(label.text, label.x, label.y);
    paper.fillStyle = label.quiet ? (dark ? "#a2afbd" : "#55616f") : dark ? "#e8edf3" : "#16202c";
    paper.fillText(label.text, label.x, label.y);
  }
}

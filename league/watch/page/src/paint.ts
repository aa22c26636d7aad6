import type { Recording } from "./recording";

const CIRCLE = 0;
const BOX = 1;
const ROW = 10; // numbers of a shape, see warp_kernels/drawing/rasterizer.py
const GAP = 6; // between worlds [px]
const TRAIL = 1; // length of a trail [s]
const CORNERS = 10; // of a whole trail
const FADES = [0.75, 0.5, 0.3, 0.15]; // opacity of a trail's quarters, newest first
const REACH = 10; // an agent is also picked this far from its edge [px]

/** How a world lies on the canvas: world units to CSS pixels, y up to y down. */
interface View {
  world: number;
  left: number;
  top: number;
  width: number;
  height: number;
  scale: number;
  x: number;
  y: number;
}

export interface Shown {
  frame: number;
  world: number;
  tiles: boolean;
  agent: number | null;
  trails: boolean;
}

/** Paints frames of a recording on a canvas; nothing is kept between frames but colors as text. */
export class Painter {
  private readonly context: CanvasRenderingContext2D;
  private readonly colors = new Map<number, string>();
  private views: View[] = [];
  private of: Recording | null = null;
  private trailColors: string[] = [];
  private ground = 0;

  constructor(private readonly canvas: HTMLCanvasElement) {
    const context = canvas.getContext("2d", { alpha: false });
    if (!context) throw new Error("This browser gives no 2D canvas.");
    this.context = context;
  }

  paint(recording: Recording, shown: Shown, accent: string): void {
    const { canvas, context } = this;
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    if (this.of !== recording) {
      this.of = recording;
      const bodies = recording.agents.map((_, agent) => body(recording, agent));
      this.trailColors = bodies.map((at) => (at === null ? "rgb(102 112 128)" : this.color(recording.shapes, at, 1)));
      const places = bodies.filter((at) => at !== null).map((at) => (at / ROW) % recording.shapesPerWorld);
      this.ground = Math.min(recording.shapesPerWorld, ...places);
    }
    this.views = layout(recording, shown, width, height);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = getComputedStyle(canvas).backgroundColor;
    context.fillRect(0, 0, width, height);
    for (const view of this.views) this.world(recording, shown, view, accent);
  }

  /** The world and agent at a point of the canvas [CSS px]; null beside all worlds, the agent null where none is. */
  pick(recording: Recording, frame: number, x: number, y: number): { world: number; agent: number | null } | null {
    const view = this.views.find(
      (each) => x >= each.left && x < each.left + each.width && y >= each.top && y < each.top + each.height,
    );
    if (!view) return null;
    let agent: number | null = null;
    let nearest = REACH;
    const { places } = recording;
    for (let i = 0; places && i < recording.agents.length; i++) {
      const at = recording.placeAt(frame, view.world, i);
      const away = Math.hypot(toX(view, places[at]) - x, toY(view, places[at + 1]) - y) - places[at + 2] * view.scale;
      if (away < nearest) {
        nearest = away;
        agent = i;
      }
    }
    return { world: view.world, agent };
  }

  private world(recording: Recording, shown: Shown, view: View, accent: string): void {
    const { context } = this;
    const { background, surround, border } = recording.answer;
    const [x0, y0, x1, y1] = recording.bounds(shown.frame, view.world);
    context.save();
    context.beginPath();
    context.roundRect(view.left, view.top, view.width, view.height, 5);
    context.clip();
    context.fillStyle = css(surround);
    context.fillRect(view.left, view.top, view.width, view.height);
    const arena = [toX(view, x0), toY(view, y1), (x1 - x0) * view.scale, (y1 - y0) * view.scale] as const;
    context.fillStyle = css(background);
    context.fillRect(...arena);
    if (border) {
      context.strokeStyle = css(border);
      context.lineWidth = Math.max(1, Math.min(view.width, view.height) / 200);
      context.strokeRect(...arena);
    }
    this.shapes(recording, shown.frame, view, 0, this.ground);
    if (shown.trails) this.trails(recording, shown.frame, view);
    this.shapes(recording, shown.frame, view, this.ground, recording.shapesPerWorld);
    if (shown.agent !== null && view.world === shown.world) this.mark(recording, shown.frame, view, shown.agent, accent);
    context.restore();
    if (this.views.length > 1) this.label(recording, shown, view, accent);
  }

  /** Shapes in their order; neighbors of one style go into one path. */
  private shapes(recording: Recording, frame: number, view: View, from: number, to: number): void {
    const { context } = this;
    const rows = recording.shapes;
    const first = (frame * recording.worlds + view.world) * recording.shapesPerWorld;
    const { scale } = view;
    let style = -1;
    let line = -1;
    let open = false;
    const flush = (): void => {
      if (!open) return;
      if (line > 0) context.stroke();
      else context.fill();
      open = false;
    };
    context.lineCap = context.lineJoin = "round";
    for (let i = first + from; i < first + to; i++) {
      const at = i * ROW;
      const alpha = rows[at + 9];
      const x = toX(view, rows[at + 1]);
      const y = toY(view, rows[at + 2]);
      const halfX = rows[at + 3] * scale;
      const halfY = rows[at + 4] * scale;
      const width = rows[at + 5] * scale;
      const kind = rows[at];
      if (!(alpha > 0) || !Number.isFinite(x + y + halfX + halfY + width)) continue;
      const drawn = kind > BOX ? Math.max(width, 0.01) : width;
      const key = pack(rows, at, alpha);
      if (!open || key !== style || drawn !== line || alpha < 1) {
        flush();
        style = key;
        line = drawn;
        open = true;
        context.beginPath();
        if (line > 0) {
          context.strokeStyle = this.color(rows, at, alpha);
          context.lineWidth = line;
        } else context.fillStyle = this.color(rows, at, alpha);
      }
      if (kind === CIRCLE) {
        context.moveTo(x + halfX, y);
        context.arc(x, y, Math.max(0, halfX), 0, 2 * Math.PI);
      } else if (kind === BOX) context.rect(x - halfX, y - halfY, 2 * halfX, 2 * halfY);
      else {
        context.moveTo(x - halfX, y + halfY);
        context.lineTo(x + halfX, y - halfY);
      }
    }
    flush();
  }

  /** Where agents have been, fading; one path per color and quarter. */
  private trails(recording: Recording, frame: number, view: View): void {
    const { places } = recording;
    if (!places) return;
    const { context } = this;
    const steps = Math.max(FADES.length, Math.round(recording.answer.fps * TRAIL));
    const [x0, y0, x1, y1] = recording.bounds(frame, view.world);
    const leap = Math.max(x1 - x0, y1 - y0) / 4; // agents that are set elsewhere leave no trail
    const colors = new Set(this.trailColors);
    const stride = Math.max(1, Math.round(steps / CORNERS)); // corners stay where they are from frame to frame
    context.lineCap = "butt";
    context.lineJoin = "bevel";
    context.lineWidth = 1; // wider ones take seven times as long where no GPU paints
    FADES.forEach((opacity, quarter) => {
      const newest = frame - Math.round((quarter * steps) / FADES.length);
      const oldest = Math.max(0, frame - Math.round(((quarter + 1) * steps) / FADES.length));
      context.globalAlpha = opacity;
      for (const color of colors) {
        context.strokeStyle = color;
        context.beginPath();
        for (let agent = 0; agent < recording.agents.length; agent++) {
          if (this.trailColors[agent] !== color) continue;
          let pen = false;
          let x = NaN;
          let y = NaN;
          for (let t = newest; t >= oldest; t--) {
            if (t % stride !== 0 && t !== newest && t !== oldest) continue;
            const at = recording.placeAt(t, view.world, agent);
            const nextX = places[at];
            const nextY = places[at + 1];
            const near = Math.abs(nextX - x) + Math.abs(nextY - y) < leap; // false for NaN
            if (near) {
              if (!pen) context.moveTo(toX(view, x), toY(view, y));
              context.lineTo(toX(view, nextX), toY(view, nextY));
            }
            pen = near;
            x = nextX;
            y = nextY;
          }
        }
        context.stroke();
      }
    });
    context.globalAlpha = 1;
  }

  private mark(recording: Recording, frame: number, view: View, agent: number, accent: string): void {
    const { places } = recording;
    if (!places) return;
    const at = recording.placeAt(frame, view.world, agent);
    if (Number.isNaN(places[at])) return;
    const radius = Math.max(6, places[at + 2] * view.scale) + 4;
    const { context } = this;
    for (const [color, width] of [["#fff", 5], [accent, 2.5]] as const) {
      context.beginPath();
      context.arc(toX(view, places[at]), toY(view, places[at + 1]), radius, 0, 2 * Math.PI);
      context.strokeStyle = color;
      context.lineWidth = width;
      context.stroke();
    }
  }

  private label(recording: Recording, shown: Shown, view: View, accent: string): void {
    const { context } = this;
    if (view.world === shown.world) {
      context.beginPath();
      context.roundRect(view.left + 1, view.top + 1, view.width - 2, view.height - 2, 4);
      context.strokeStyle = accent;
      context.lineWidth = 2;
      context.stroke();
    }
    context.font = "600 11px system-ui, sans-serif";
    context.textBaseline = "top";
    const text = recording.ended(shown.frame, view.world) ? `${view.world + 1} · ended` : `${view.world + 1}`;
    const width = context.measureText(text).width + 10;
    context.fillStyle = "rgb(255 255 255 / 0.85)";
    context.beginPath();
    context.roundRect(view.left + 6, view.top + 6, width, 17, 4);
    context.fill();
    context.fillStyle = "#33383f";
    context.fillText(text, view.left + 11, view.top + 9);
  }

  /** A shape's color as text. */
  private color(rows: Float32Array, at: number, alpha: number): string {
    const key = pack(rows, at, alpha);
    let text = this.colors.get(key);
    if (text === undefined) {
      const [r, g, b, a] = [key >>> 24, (key >>> 16) & 255, (key >>> 8) & 255, key & 255];
      text = a === 255 ? `rgb(${r} ${g} ${b})` : `rgb(${r} ${g} ${b} / ${(a / 255).toFixed(3)})`;
      this.colors.set(key, text);
    }
    return text;
  }
}

/** Proportions of a world, with its margin. */
export function aspect(recording: Recording): number {
  const { width, height } = sides(recording, 0, 0);
  return width / height;
}

/** Rows and columns that show `count` worlds of some proportions largest in a frame. */
export function grid(count: number, proportions: number, width: number, height: number): { columns: number; rows: number } {
  let best = { columns: 1, rows: count, size: 0 };
  for (let columns = 1; columns <= count; columns++) {
    const rows = Math.ceil(count / columns);
    const size = Math.min((width - GAP * (columns - 1)) / columns / proportions, (height - GAP * (rows - 1)) / rows);
    if (size > best.size) best = { columns, rows, size };
  }
  return best;
}

function sides(recording: Recording, frame: number, world: number): { width: number; height: number } {
  const [x0, y0, x1, y1] = recording.bounds(frame, world);
  const margin = 2 * recording.answer.margin * Math.max(x1 - x0, y1 - y0);
  return { width: Math.max(x1 - x0 + margin, 1e-6), height: Math.max(y1 - y0 + margin, 1e-6) };
}

function layout(recording: Recording, shown: Shown, width: number, height: number): View[] {
  const worlds = shown.tiles ? Array.from({ length: recording.worlds }, (_, world) => world) : [shown.world];
  const { columns, rows } = grid(worlds.length, aspect(recording), width, height);
  const cellWidth = (width - GAP * (columns - 1)) / columns;
  const cellHeight = (height - GAP * (rows - 1)) / rows;
  return worlds.map((world, i) => {
    const left = (i % columns) * (cellWidth + GAP);
    const top = Math.floor(i / columns) * (cellHeight + GAP);
    const [x0, y0, x1, y1] = recording.bounds(shown.frame, world);
    const side = sides(recording, shown.frame, world);
    const scale = Math.min(cellWidth / side.width, cellHeight / side.height);
    const x = left + cellWidth / 2 - ((x0 + x1) / 2) * scale;
    const y = top + cellHeight / 2 + ((y0 + y1) / 2) * scale;
    return { world, left, top, width: cellWidth, height: cellHeight, scale, x, y };
  });
}

/** Where the row of an agent's body begins: the smallest shape on its place, in the frame that first shows it. */
function body(recording: Recording, agent: number): number | null {
  const { places, shapes, shapesPerWorld } = recording;
  for (let frame = 0; places && frame < recording.frames; frame++) {
    const place = recording.placeAt(frame, 0, agent);
    if (Number.isNaN(places[place])) continue;
    const first = frame * recording.worlds * shapesPerWorld * ROW;
    let found: number | null = null;
    for (let at = first; at < first + shapesPerWorld * ROW; at += ROW) {
      const there = Math.abs(shapes[at + 1] - places[place]) + Math.abs(shapes[at + 2] - places[place + 1]) < 1e-4;
      const seen = there && shapes[at] <= BOX && shapes[at + 5] === 0 && shapes[at + 9] > 0;
      if (seen && (found === null || shapes[at + 3] < shapes[found + 3])) found = at;
    }
    if (found !== null) return found;
  }
  return null;
}

function toX(view: View, x: number): number {
  return view.x + x * view.scale;
}

function toY(view: View, y: number): number {
  return view.y - y * view.scale;
}

function pack(rows: Float32Array, at: number, alpha: number): number {
  return ((byte(rows[at + 6]) << 24) | (byte(rows[at + 7]) << 16) | (byte(rows[at + 8]) << 8) | byte(alpha)) >>> 0;
}

function byte(value: number): number {
  return value >= 1 ? 255 : value > 0 ? Math.round(255 * value) : 0;
}

function css(color: number[]): string {
  return `rgb(${color.map((value) => byte(value)).join(" ")})`;
}

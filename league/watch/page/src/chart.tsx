import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { SIGNS } from "./players";
import { property, useDark } from "./theme";
import { fixed, number } from "./text";

// Steps and iterations are counted: 1, 2, 5, 10, ...
const WHOLE = Array.from({ length: 14 }, (_, i) => [1, 2, 5].map((each) => each * 10 ** i)).flat();

export interface Line {
  label: string;
  values: (number | null)[];
  /** A color, or the custom property that names one. */
  color: string;
  /** Values shown on hover, if they differ from the drawn ones. */
  told?: (number | null)[];
  faint?: boolean;
  dash?: number[];
  points?: boolean;
  /** Lower and upper ends of intervals around the values, which are filled. */
  interval?: [(number | null)[], (number | null)[]];
  /** Shape of its points, of `SIGNS`; discs if not given. */
  shape?: number;
  /** The line below, up to which an area is filled: lines are stacked from the last to the first. */
  downTo?: number | null;
  fill?: string;
}

interface Props {
  title: string;
  xLabel: string;
  x: number[];
  lines: Line[];
  height?: number;
  range?: [number, number];
  /** Charts of one key share their cursor. */
  shared?: string;
  /** Maximum number of values shown on hover, the largest ones. */
  most?: number;
  /** Decimals of values shown on hover; as many as needed, if not given. */
  decimals?: number;
  logarithmic?: boolean;
}

/** Lines over a common x, with values on hover or by the arrow keys. */
export function Chart(props: Props) {
  const { title, x, lines, height = 170 } = props;
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const dark = useDark();
  const shape = JSON.stringify([lines.map(({ values: _, told: __, interval, ...line }) => [line, !interval]), props.logarithmic, props.range]);

  useLayoutEffect(() => {
    const box = frame.current;
    if (!box) return;
    const made = new uPlot(options(props, box.clientWidth, height, setAt), data(x, lines), box);
    plot.current = made;
    const watch = new ResizeObserver(() => {
      if (box.clientWidth !== made.width) made.setSize({ width: box.clientWidth, height });
    });
    watch.observe(box);
    return () => {
      watch.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, dark, height]);
  useEffect(() => plot.current?.setData(data(x, lines)), [x, lines]);

  const index = at !== null && at < x.length ? at : null;
  const shown = index ?? x.length - 1;
  const move = (event: KeyboardEvent): void => {
    const to = { ArrowLeft: shown - 1, ArrowRight: shown + 1, Home: 0, End: x.length - 1 }[event.key];
    if (to === undefined || !plot.current) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(to, x.length - 1));
    setAt(next);
    plot.current.setCursor({ left: plot.current.valToPos(x[next], "x"), top: 0 });
  };
  const values = readout(props, shown, index === null);
  const written = ({ value, ends }: Value): string =>
    (props.decimals === undefined ? number(value) : fixed(value, props.decimals)) + (ends ? ` [${ends.map(number).join(", ")}]` : "");
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <ul class="values">
        <li>
          {x.length ? `${props.xLabel} ${number(x[shown])}` : "nothing yet"}
        </li>
        {values.map((entry) => [entry, entry] as const).map(([entry, { label, color, dash, shape, from }]) => (
          <li>
            {dash || shape !== undefined ? (
              <svg class="sample" viewBox="0 0 22 10" aria-hidden="true">
                <path d="M0 5h22" stroke={resolve(color)} stroke-dasharray={dash?.join()} />
                {shape !== undefined && <path d={SIGNS[shape]} transform="translate(11 5) scale(.7)" style={{ fill: resolve(color) }} />}
              </svg>
            ) : (
              <i class="dot" style={{ background: resolve(color) }} />
            )}
            {label} <b>{written(entry)}</b>
            {from !== shown && ` at ${number(x[from])}`}
          </li>
        ))}
      </ul>
      <div
        ref={frame}
        class="plot"
        data-arrows
        tabIndex={0}
        role="slider"
        aria-label={`${title}: values along ${props.xLabel}`}
        aria-valuemin={0}
        aria-valuemax={Math.max(0, x.length - 1)}
        aria-valuenow={Math.max(0, shown)}
        aria-valuetext={x.length ? `${props.xLabel} ${number(x[shown])}: ${values.map((v) => `${v.label} ${written(v)}`).join(", ")}` : "nothing yet"}
        onKeyDown={move}
      />
    </figure>
  );
}

interface Value {
  label: string;
  value: number | null;
  /** Ends of the interval around it. */
  ends: (number | null)[] | null;
  color: string;
  dash: number[] | undefined;
  shape: number | undefined;
  /** Index of the value along x. */
  from: number;
}

/** The values at an index, or the last value of every line if the pointer is not on the chart. */
function readout({ lines, most }: Props, index: number, last: boolean): Value[] {
  const all = lines
    .filter((line) => !line.faint)
    .map((line): Value => {
      const values = line.told ?? line.values;
      const known = last ? values.findLastIndex((value) => value !== null) : index;
      const from = known < 0 ? index : known;
      const ends = line.interval?.map((end) => end[from] ?? null) ?? null;
      return { label: line.label, value: values[from] ?? null, ends, color: line.fill ?? line.color, dash: line.dash, shape: line.shape, from };
    });
  if (!most || all.length <= most) return all;
  return all.filter(({ value }) => value !== null && value > 0).sort((a, b) => (b.value ?? 0) - (a.value ?? 0)).slice(0, most);
}

function resolve(color: string): string {
  return color.startsWith("--") ? `var(${color})` : color;
}

function stroke(color: string): string {
  return color.startsWith("--") ? property(color) : color;
}

function data(x: number[], lines: Line[]): uPlot.AlignedData {
  return [x, ...lines.map((line) => line.values), ...lines.flatMap((line) => line.interval ?? [])];
}

function options(props: Props, width: number, height: number, hover: (index: number | null) => void): uPlot.Options {
  const { lines, logarithmic, range, shared } = props;
  const ends = lines.flatMap((line) => line.interval?.map(() => line) ?? []); // the lower and the upper one in turn
  const soft = property("--soft");
  const axis: uPlot.Axis = {
    stroke: soft,
    font: "11px system-ui, sans-serif",
    grid: { stroke: property("--grid"), width: 1 },
    ticks: { show: false },
  };
  return {
    width,
    height,
    legend: { show: false },
    padding: [8, 20, 0, 0],
    scales: {
      x: { time: false },
      y: { ...(range && { range }), ...(logarithmic && { distr: 3 as const }) },
    },
    axes: [
      { ...axis, incrs: WHOLE, space: 70, size: 26, gap: 4, values: (_, splits) => splits.map(short) },
      { ...axis, size: 50, gap: 6, space: 28, values: (_, splits) => splits.map((value) => (value === null ? "" : short(value))) },
    ],
    cursor: {
      ...(shared && { sync: { key: shared } }),
      drag: { x: true, y: false },
      points: { size: (_, i) => (i > lines.length ? 0 : 7) },
    },
    series: [
      {},
      ...lines.map((line): uPlot.Series => ({
        label: line.label,
        stroke: stroke(line.color),
        width: line.fill ? 0.75 : line.faint ? 1 : 1.75,
        alpha: line.faint ? 0.3 : 1,
        points: { show: (line.points ?? false) && line.shape === undefined, size: 5, fill: stroke(line.color) },
        ...(line.fill && line.downTo === null && { fill: line.fill }),
        spanGaps: true,
        ...(line.dash && { dash: line.dash }),
      })),
      ...ends.map((line): uPlot.Series => ({ stroke: stroke(line.color), width: 0, alpha: 0.2, points: { show: false }, spanGaps: true })),
    ],
    bands: [
      ...lines.flatMap((line, i) =>
        line.fill && typeof line.downTo === "number" ? [{ series: [i + 1, line.downTo + 1] as [number, number], fill: line.fill }] : [],
      ),
      ...ends.flatMap((line, i) =>
        i % 2 ? [{ series: [lines.length + i + 1, lines.length + i] as [number, number], fill: stroke(line.color) }] : [],
      ),
    ],
    hooks: { setCursor: [(plot) => hover(plot.cursor.idx ?? null)], draw: [(plot) => marks(plot, lines)] },
  };
}

/** The points of lines that have a shape. */
function marks(plot: uPlot, lines: Line[]): void {
  const { ctx } = plot;
  const scale = 0.7 * devicePixelRatio;
  lines.forEach((line, i) => {
    if (line.shape === undefined || line.faint) return;
    const sign = new Path2D(SIGNS[line.shape]);
    plot.data[i + 1].forEach((value, at) => {
      const x = plot.data[0][at];
      if (value === null || value === undefined || x < (plot.scales.x.min ?? x) || x > (plot.scales.x.max ?? x)) return;
      ctx.save();
      ctx.translate(plot.valToPos(x, "x", true), plot.valToPos(value, "y", true));
      ctx.scale(scale, scale);
      ctx.fillStyle = stroke(line.color);
      ctx.strokeStyle = property("--panel");
      ctx.lineWidth = 1;
      ctx.fill(sign);
      ctx.stroke(sign);
      ctx.restore();
    });
  });
}

/** 1500000 as 1.5M, 0.000001 as 1e−6. */
function short(value: number): string {
  const size = Math.abs(value);
  for (const [unit, sign] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]] as const) {
    if (size >= unit) return `${number(value / unit)}${sign}`;
  }
  const rounded = Number(value.toPrecision(6));
  return size > 0 && size < 1e-3 ? rounded.toExponential().replaceAll("-", "−") : number(rounded);
}

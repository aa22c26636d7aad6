import { useMemo, useState } from "preact/hooks";
import type { Metrics } from "./api";
import { Chart, type Line } from "./chart";
import { roleColor, series } from "./theme";
import { title, words } from "./text";

const RESULT = /(?<!\/episode_(return|length))_mean$/; // win rates, deliveries, survivors
const FIRST = [/return|score|nash_conv|exploitability/, /entropy/, /value_loss/, /policy_loss/];
const AT_FIRST = 4;
const FEW = 40; // points that are drawn as they are, at first
const CLOCK = new Set(["iteration", "env_steps", "seconds"]);

/** Columns of metrics.csv, each in a chart of its own. */
export function Curves({ metrics, colors }: { metrics: Metrics; colors: Record<string, string> }) {
  const columns = metrics.columns.filter((name) => !CLOCK.has(name) && name !== metrics.x);
  const [chosen, choose] = useState<string[] | null>(null);
  const [smooth, setSmooth] = useState(metrics.rows.length < FEW ? 0 : 0.6);
  const shown = columns.filter((name) => (chosen ?? telling(columns)).includes(name));
  const x = useMemo(() => column(metrics, metrics.x).map((value) => value ?? 0), [metrics]);
  const toggle = (name: string, on: boolean): void => choose(on ? [...shown, name] : shown.filter((each) => each !== name));
  return (
    <section class="panel" aria-labelledby="curves">
      <h2 id="curves">Curves</h2>
      <div class="row options">
        <label class="range">
          Smoothing
          <input
            type="range"
            min={0}
            max={0.95}
            step={0.05}
            value={smooth}
            onInput={(event) => setSmooth(event.currentTarget.valueAsNumber)}
          />
          <output>{smooth.toFixed(2)}</output>
        </label>
        <details class="choice">
          <summary>
            Columns <span class="soft">{`${shown.length} of ${columns.length}`}</span>
          </summary>
          <div class="columns">
            {grouped(columns).map(([group, names]) => (
              <fieldset>
                <legend>{words(group)}</legend>
                {names.map((name) => (
                  <label class="check">
                    <input
                      type="checkbox"
                      checked={shown.includes(name)}
                      onChange={(event) => toggle(name, event.currentTarget.checked)}
                    />
                    {title(name).slice(name.indexOf("/") + 1)}
                  </label>
                ))}
              </fieldset>
            ))}
          </div>
        </details>
      </div>
      {metrics.rows.length === 0 && <p class="hint">No iteration is finished yet.</p>}
      <div class="charts">
        {shown.map((name) => (
          <Curve key={name} metrics={metrics} name={name} x={x} smooth={smooth} color={hue(columns, name, colors)} />
        ))}
      </div>
    </section>
  );
}

function Curve(props: { metrics: Metrics; name: string; x: number[]; smooth: number; color: string }) {
  const { metrics, name, x, smooth, color } = props;
  const lines = useMemo((): Line[] => {
    const values = column(metrics, name);
    if (values.filter((value) => value !== null).length < values.length / 2) {
      return [{ label: "value", values, color, points: true }]; // measured now and then
    }
    if (smooth === 0) return [{ label: "value", values, color }];
    return [
      { label: "value", values, color, faint: true },
      { label: "smoothed", values: smoothed(values, smooth), color },
    ];
  }, [metrics, name, smooth, color]);
  return <Chart title={title(name)} xLabel={words(metrics.x)} x={x} lines={lines} shared="curves" />;
}

export function column(metrics: Metrics, name: string): (number | null)[] {
  const at = metrics.columns.indexOf(name);
  return metrics.rows.map((row) => row[at] ?? null);
}

/** An exponential mean that begins at the first value without a bias to it. */
function smoothed(values: (number | null)[], weight: number): (number | null)[] {
  let mean = 0;
  let mass = 0;
  return values.map((value) => {
    if (value === null) return null;
    mean = weight * mean + (1 - weight) * value;
    mass = weight * mass + (1 - weight);
    return mean / mass;
  });
}

/** The columns that tell most, at first: results of the environment, then returns and losses. */
function telling(columns: string[]): string[] {
  const results = columns.filter((name) => RESULT.test(name)).slice(0, AT_FIRST);
  const known = FIRST.flatMap((pattern) => columns.filter((name) => pattern.test(name)));
  const others = [...new Set([...known, ...columns])].filter((name) => !results.includes(name));
  return [...results, ...others.slice(0, AT_FIRST)];
}

function grouped(columns: string[]): [string, string[]][] {
  const groups = new Map<string, string[]>();
  for (const name of columns) {
    const group = name.includes("/") ? name.slice(0, name.indexOf("/")) : "run";
    groups.set(group, [...(groups.get(group) ?? []), name]);
  }
  return [...groups];
}

/** The color of the role that a column is about; without one, a color for each group of columns. */
function hue(columns: string[], name: string, colors: Record<string, string>): string {
  const role = name.split("/").find((part) => colors[part]);
  if (role) return roleColor(colors, role, 0);
  const free = grouped(columns).filter(([group]) => !colors[group]);
  return series(free.findIndex(([, names]) => names.includes(name)));
}

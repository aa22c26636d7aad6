import { useState } from "preact/hooks";
import type { Cell, Experiment, Source } from "./api";
import { Chart, type Line } from "./chart";
import { Head } from "./head";
import { Scroll } from "./scroll";
import { number, title } from "./text";
import { dashes, series } from "./theme";
import { useRun } from "./told";

/** The page of an experiment: curves by task, final scores, and the runs of every cell. */
export function ExperimentPage({ source }: { source: Source }) {
  const { told, lost } = useRun(source);
  const [hidden, setHidden] = useState<string[]>([]); // "task NAME" and "algorithm NAME"
  if (!told?.experiment) return <p class="hello" role="status">{lost ?? "Loading the experiment …"}</p>;
  const { run, experiment } = told;
  const algorithms = [...new Set(experiment.cells.map((cell) => cell.algorithm))];
  const tasks = Object.keys(experiment.tasks);
  const isShown = (kind: string, name: string): boolean => !hidden.includes(`${kind} ${name}`);
  const cells = experiment.cells.filter((cell) => isShown("task", cell.task) && isShown("algorithm", cell.algorithm));
  const filter = (kind: string, names: string[]) => (
    <fieldset class="row">
      <legend>{kind}s</legend>
      {names.map((name, i) => (
        <label class="check">
          <input
            type="checkbox"
            checked={isShown(kind, name)}
            onChange={({ currentTarget: { checked } }) =>
              setHidden(checked ? hidden.filter((other) => other !== `${kind} ${name}`) : [...hidden, `${kind} ${name}`])
            }
          />
          {kind === "algorithm" && <i class="dot" style={{ background: `var(${series(i)})` }} />}
          {name}
        </label>
      ))}
    </fieldset>
  );
  return (
    <>
      <Head run={run} live={source.live} lost={lost} player={null} trail={[]} />
      <main>
        <div class="left">
          <section class="panel" aria-labelledby="curves">
            <h2 id="curves">
              Curves <small>mean over seeds, 95 % interval</small>
            </h2>
            {filter("task", tasks)}
            {filter("algorithm", algorithms)}
            <div class="charts">
              {tasks.map((task) => (
                <TaskCurves key={task} task={task} experiment={experiment} cells={cells} algorithms={algorithms} />
              ))}
            </div>
            {!cells.some((cell) => cell.curve.length) && <p class="hint">These cells have no evaluation of all seeds yet.</p>}
          </section>
        </div>
        <div class="right">
          <section class="panel" aria-labelledby="runs">
            <h2 id="runs">Runs</h2>
            <Scroll kind="long" label="runs">
              <table>
                <thead>
                  <tr>
                    {["task", "algorithm", "final score", "runs by seed"].map((name) => (
                      <th scope="col">{name}</th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {cells.map((cell) => (
                    <tr>
                      <td>{cell.task}</td>
                      <td>{cell.algorithm}</td>
                      <td class="nowrap">{finalText(cell)}</td>
                      <td>
                        <Runs cell={cell} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Scroll>
          </section>
        </div>
      </main>
    </>
  );
}

/** The mean of the final scores with its interval, which one run does not have. */
function finalText({ final }: Cell): string {
  if (!final) return "–";
  const [mean, low, high] = final;
  return low === null ? number(mean) : `${number(mean)} [${number(low)}, ${number(high)}]`;
}

/** The curves of a task, one per algorithm. */
function TaskCurves(props: { task: string; experiment: Experiment; cells: Cell[]; algorithms: string[] }) {
  const { task, experiment, cells, algorithms } = props;
  const { score, threshold } = experiment.tasks[task];
  const shown = cells.filter((cell) => cell.task === task && cell.curve.length > 0);
  const x = [...new Set(shown.flatMap((cell) => cell.curve.map(([steps]) => steps)))].sort((a, b) => a - b);
  const lines = shown.map((cell): Line => {
    const points = new Map(cell.curve.map((point) => [point[0], point]));
    const [values, low, high] = [1, 2, 3].map((at) => x.map((steps) => points.get(steps)?.[at] ?? null));
    const index = algorithms.indexOf(cell.algorithm);
    const dash = dashes(index);
    return { label: cell.algorithm, values, interval: [low, high], color: series(index), points: x.length < 2, ...(dash && { dash }) };
  });
  if (threshold !== null) lines.push({ label: "threshold", values: x.map(() => threshold), color: "--soft", faint: true });
  const heading = `${task}: ${title(score)}${threshold === null ? "" : `, threshold ${number(threshold)}`}`;
  return x.length ? <Chart title={heading} xLabel="env steps" x={x} lines={lines} shared="experiment" /> : null;
}

/** Links to the pages of the runs of a cell; a run that is not complete has the share of its steps. */
function Runs({ cell }: { cell: Cell }) {
  return (
    <span class="seeds">
      {cell.runs.map(({ name, seed, share, complete }) => {
        if (share === null) return <span class="soft">{seed}</span>;
        const text = complete ? String(seed) : `${seed} (${Math.floor(100 * share)} %)`;
        return (
          <a href={`#${name}`} aria-label={`${cell.algorithm} on ${cell.task}, seed ${text}`}>
            {text}
          </a>
        );
      })}
    </span>
  );
}

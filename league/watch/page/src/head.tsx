import { type Run, hasRuns } from "./api";
import { Help } from "./help";
import type { Player } from "./player";
import { number, words } from "./text";

/** Names of the experiment, the task and the algorithm that a run belongs to; empty for other runs. */
export type Trail = string[];

interface Props {
  run: Run;
  live: boolean;
  lost: string | null;
  player: Player | null;
  trail: Trail;
}

export function Head({ run, live, lost, player, trail }: Props) {
  const [state, sign] = lost ? [lost, "lost"] : [live ? stateOf(run) : run.state ? `recorded, ${stateOf(run)}` : "recorded", live && run.writing ? "writing" : "still"];
  return (
    <header>
      <h1>
        {trail.map((name, i) => (i ? `${name} / ` : [<a href="#">{name}</a>, " / "]))}
        {run.name}
      </h1>
      <dl>
        <Fact name="Kind" value={run.kind} />
        <Fact name="Environment" value={run.env_id} />
        <Fact name="Algorithm" value={run.algorithm} />
      </dl>
      <p class={`state ${sign}`} role="status">
        {state}
      </p>
      <details class="settings">
        <summary>Settings</summary>
        <div class="scroll">
          <table>
            <tbody>
              {flat(run.config).map(([name, value]) => (
                <tr>
                  <th scope="row">{words(name)}</th>
                  <td>{value}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
      {player && <Help player={player} />}
    </header>
  );
}

/** "running, 88 of 1,875 iterations", "stopped at 88 of 1,875 iterations" or "finished". */
function stateOf(run: Run): string {
  const { state, done, total } = run;
  if (state === "finished") return "finished";
  return `${state}${state === "running" ? "," : " at"} ${number(done)} of ${number(total)} ${hasRuns(run) ? "runs" : "iterations"}`;
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

/** Settings with those inside others named after them. */
function flat(config: Record<string, unknown>, before = ""): [string, string][] {
  return Object.entries(config).flatMap(([name, value]): [string, string][] => {
    if (value !== null && typeof value === "object" && !Array.isArray(value)) {
      return flat(value as Record<string, unknown>, `${before}${name} / `);
    }
    return [[before + name, typeof value === "string" ? value : JSON.stringify(value)]];
  });
}

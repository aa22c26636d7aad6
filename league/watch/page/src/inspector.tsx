import { useEffect, useRef } from "preact/hooks";
import { type Player, usePlayer } from "./player";
import type { Recording } from "./recording";
import { fixed, words } from "./text";

/** Everyone's action, reward and return; of one agent also what it sees. */
export function Inspector({ player }: { player: Player }) {
  usePlayer(player, true);
  const { recording } = player;
  if (!recording) return null;
  return (
    <section class="panel" aria-labelledby="agents">
      <h2 id="agents">
        Agents <small>world {player.world}</small>
      </h2>
      <div class="inspector">
        <Agents player={player} recording={recording} />
        <Seen player={player} recording={recording} />
      </div>
    </section>
  );
}

function Agents({ player, recording }: { player: Player; recording: Recording }) {
  const body = useRef<HTMLTableSectionElement>(null);
  const { frame, world, agent } = player;
  useEffect(() => {
    if (agent === null) return;
    const row = body.current?.rows[agent];
    const box = body.current?.closest<HTMLElement>(".scroll");
    if (!row || !box) return;
    // Scrolls the list, never the page.
    const top = row.offsetTop - (box.querySelector("thead")?.offsetHeight ?? 0);
    box.scrollTop = Math.max(row.offsetTop + row.offsetHeight - box.clientHeight, Math.min(box.scrollTop, top));
    if (box.contains(document.activeElement)) row.querySelector("button")?.focus({ preventScroll: true });
  }, [agent]);
  const keys = (event: KeyboardEvent): void => {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!by) return;
    event.preventDefault();
    player.cycle(by);
  };
  return (
    <div class="scroll agents" data-arrows>
      <table>
        <thead>
          <tr>
            <th scope="col">Agent</th>
            <th scope="col">Action</th>
            <th scope="col" class="number">
              Reward
            </th>
            <th scope="col" class="number">
              Return
            </th>
            <th scope="col">Alive</th>
          </tr>
        </thead>
        <tbody ref={body} onKeyDown={keys}>
          {recording.agents.map((name, row) => {
            const alive = recording.isAlive(frame, world, row);
            return (
              <tr class={row === agent ? "chosen" : alive ? "" : "gone"}>
                <th scope="row">
                  <button
                    type="button"
                    class="plain"
                    aria-pressed={row === agent}
                    tabIndex={row === (agent ?? 0) ? 0 : -1}
                    onClick={() => player.set({ agent: row })}
                  >
                    {name}
                  </button>
                </th>
                <td>{action(recording, frame, world, row)}</td>
                <td class="number">{alive ? fixed(recording.reward.value(frame, world, row), 2) : "–"}</td>
                <td class="number">{fixed(recording.returnAt(frame, world, row), 2)}</td>
                <td>{alive ? "yes" : "no"}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function action(recording: Recording, frame: number, world: number, agent: number): string {
  const taken = recording.action.row(frame, world, agent);
  if (!taken.length || !recording.isAlive(frame, world, agent)) return "–";
  const names = recording.answer.action_names?.[recording.group[agent]];
  if (taken.length === 1 && Number.isInteger(taken[0])) return names?.[taken[0]] ?? String(taken[0]);
  return Array.from(taken, (value) => (Number.isInteger(value) ? value : fixed(value, 2))).join(", ");
}

function Seen({ player, recording }: { player: Player; recording: Recording }) {
  const { frame, world, agent } = player;
  if (agent === null) {
    return <p class="hint">Choose an agent, here or by a click on it, to see what it observes.</p>;
  }
  const name = recording.agents[agent];
  const { obs } = recording;
  if (!obs) return <p class="hint">The observations of this rollout are too large to be shown.</p>;
  const seen = obs.row(frame, world, agent);
  const names = recording.answer.obs_names?.[recording.group[agent]];
  const entries = Array.from(seen.subarray(0, recording.answer.obs_widths[agent]));
  const most = Math.max(1e-9, ...entries.map(Math.abs).filter(Number.isFinite));
  return (
    <div class="scroll seen">
      <table>
        <caption>
          What <b>{name}</b> observes <span class="soft">({recording.group[agent]})</span>
        </caption>
        <thead>
          <tr>
            <th scope="col">Entry</th>
            <th scope="col" class="number">
              Value
            </th>
            <td />
          </tr>
        </thead>
        <tbody>
          {entries.map((value, entry) => (
            <tr>
              <th scope="row">{names?.[entry] ? words(names[entry]) : entry}</th>
              <td class="number">{fixed(value, 3)}</td>
              <td class="gauge" aria-hidden="true">
                <i
                  class={value < 0 ? "below" : ""}
                  style={{ width: `${(50 * Math.abs(value || 0)) / most}%` }}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

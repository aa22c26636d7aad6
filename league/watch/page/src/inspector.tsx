import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Player, usePlayer } from "./player";
import type { Recording } from "./recording";
import { fixed } from "./text";

const MANY = 12; // entries of a block that are shown before the rest is asked for

/** Everyone's action, reward and return; of one agent also what it sees. */
export function Inspector({ player }: { player: Player }) {
  usePlayer(player, true);
  const { recording } = player;
  if (!recording) return null;
  return (
    <section class="panel" aria-labelledby="agents">
      <h2 id="agents">
        Agents <small>world {player.world + 1}</small>
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
  const names = recording.named(recording.answer.action_names, agent) ?? [];
  const parts = (Array.isArray(names[0]) ? names : [names]) as string[][];
  const components = recording.named(recording.answer.action_parts, agent);
  if (components) {
    return Array.from(taken, (value, part) => whole(`${components[part] ?? part} ${fixed(value, 2)}`)).join(", ");
  }
  return Array.from(taken, (value, part) =>
    Number.isInteger(value) ? whole(parts[part]?.[value] ?? String(value)) : fixed(value, 2),
  ).join(", ");
}

/** A name that breaks at commas only. */
function whole(name: string): string {
  return name.replace(/(?<!,) /g, "\u00a0").replace(/^-(?=\d)/, "−");
}

function Seen({ player, recording }: { player: Player; recording: Recording }) {
  const { frame, world, agent } = player;
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  if (agent === null) {
    return <p class="hint">Choose an agent here or in the picture to see its observation.</p>;
  }
  const { obs } = recording;
  if (!obs) return <p class="hint">The observations of this rollout are too large to be shown.</p>;
  const seen = Array.from(obs.row(frame, world, agent).subarray(0, recording.answer.obs_widths[agent]));
  const most = Math.max(1e-9, ...seen.map(Math.abs).filter(Number.isFinite));
  const row = (name: ComponentChildren, at: number, part = false) => (
    <tr key={at}>
      <th scope="row" class={part ? "part" : ""} title={`Entry ${at}`}>
        {name}
      </th>
      <td class="number">{fixed(seen[at], 3)}</td>
      <td class="gauge" aria-hidden="true">
        <i class={seen[at] < 0 ? "below" : ""} style={{ width: `${(50 * Math.abs(seen[at] || 0)) / most}%` }} />
      </td>
    </tr>
  );
  let next = 0;
  return (
    <div class="scroll seen">
      <table>
        <caption>
          Observation of <b>{recording.agents[agent]}</b> <span class="soft">({recording.group[agent]})</span>
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
        {recording.blocks(agent).map((block) => {
          const first = next;
          next += block.entries.length;
          const title = (
            <>
              {block.meaning} {block.unit && <span class="soft">[{block.unit}]</span>}
            </>
          );
          if (block.meaning && block.entries.length === 1) return <tbody>{row(title, first)}</tbody>;
          const rest = block.entries.length - MANY;
          const all = rest < 2 || open.has(block.meaning);
          return (
            <tbody>
              {block.meaning && (
                <tr>
                  <th scope="rowgroup" colSpan={3}>
                    {title}
                  </th>
                </tr>
              )}
              {block.entries.slice(0, all ? undefined : MANY).map((name, i) => row(name, first + i, block.meaning !== ""))}
              {rest > 1 && (
                <tr>
                  <td colSpan={3}>
                    <button type="button" class="plain more" aria-expanded={all} onClick={() => setOpen(toggled(open, block.meaning))}>
                      {all ? "Fewer" : `… and ${rest} more`}
                    </button>
                  </td>
                </tr>
              )}
            </tbody>
          );
        })}
      </table>
    </div>
  );
}

function toggled(names: ReadonlySet<string>, name: string): ReadonlySet<string> {
  const next = new Set(names);
  if (!next.delete(name)) next.add(name);
  return next;
}

import type { Seat, Source } from "./api";
import { same } from "./payoffs";

const LATEST = "latest"; // as in a request
const WORLDS = [1, 2, 4, 9, 16];

/** The policies that a seat can be given, the latest last. */
export interface Slot extends Seat {
  names: string[];
  /** The policy that "latest" means; undefined before there is one. */
  latest: string | undefined;
  mixture: string | null;
}

/** The policies that are chosen, as in a request. */
export function named(chosen: Chosen, slots: Slot[]): string[] {
  return slots.map((_, i) => chosen.policies[i] ?? LATEST);
}

/** What "latest" means, for the list of policies: a main agent and the mixture are not the last of their list. */
function usual({ names, latest, mixture }: Slot): string {
  if (latest === undefined) return "latest";
  if (latest === mixture) return "final meta-strategy";
  return latest === names.at(-1) ? "latest" : `latest main agent`;
}

export interface Chosen {
  /** By seat; null for the latest. */
  policies: (string | null)[];
  seed: number;
  worlds: number;
}

interface Props {
  source: Source;
  slots: Slot[];
  chosen: Chosen;
  choose: (chosen: Chosen) => void;
  play: (chosen: Chosen) => void;
  busy: boolean;
  follow: boolean;
  setFollow: (on: boolean) => void;
}

/** Who plays: any policies where a server answers, else one of the rollouts that the file holds. */
export function Match({ source, slots, chosen, choose, play, busy, follow, setFollow }: Props) {
  if (!source.live) {
    const { recorded } = source;
    if (recorded.length < 2) return null;
    const at = recorded.findIndex((each) => same(each.policies, named(chosen, slots)));
    return (
      <div class="row options">
        <label>
          Recorded
          <select
            value={String(at)}
            onChange={(event) => play({ ...chosen, policies: recorded[Number(event.currentTarget.value)].policies })}
          >
            {recorded.map((each, i) => (
              <option value={String(i)}>{each.policies.join(" – ")}</option>
            ))}
          </select>
        </label>
      </div>
    );
  }
  return (
    <form
      class="row options"
      onSubmit={(event) => {
        event.preventDefault();
        play(chosen);
      }}
    >
      {slots.map((slot, i) => (
        <label>
          {slot.name}
          <select
            value={chosen.policies[i] ?? LATEST}
            onChange={({ currentTarget: { value } }) =>
              choose({
                ...chosen,
                policies: slots.map((_, j) => (i === j ? (value === LATEST ? null : value) : (chosen.policies[j] ?? null))),
              })
            }
          >
            <option value={LATEST}>{usual(slot)}</option>
            {slot.mixture !== null && slot.mixture !== slot.latest && <option value={slot.mixture}>final meta-strategy</option>}
            {slot.names.toReversed().map((name) => (
              <option value={name}>{name}</option>
            ))}
          </select>
        </label>
      ))}
      <label>
        Seed
        <input
          type="number"
          min={0}
          max={2 ** 31 - 1}
          required
          value={chosen.seed}
          onInput={(event) => choose({ ...chosen, seed: event.currentTarget.valueAsNumber })}
        />
      </label>
      <label>
        Worlds
        <select
          value={String(chosen.worlds)}
          onChange={(event) => choose({ ...chosen, worlds: Number(event.currentTarget.value) })}
        >
          {WORLDS.map((worlds) => (
            <option value={String(worlds)}>{worlds}</option>
          ))}
        </select>
      </label>
      <label class="check">
        <input type="checkbox" checked={follow} onChange={(event) => setFollow(event.currentTarget.checked)} />
        Follow latest
      </label>
      <button type="submit" class="main" disabled={busy}>
        Roll out
      </button>
    </form>
  );
}

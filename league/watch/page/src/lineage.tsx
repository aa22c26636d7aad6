import { useMemo, useRef, useState } from "preact/hooks";
import type { Ancestor } from "./api";
import { SIGNS, type Sign, playerOf } from "./players";
import { Scroll } from "./scroll";
import { number, shortNames } from "./text";

const LANE = 40; // from one line of descent to the next [px]
const STEP = 46; // from one iteration to the next, at least [px]
const LEFT = 24;
const LABEL = 7; // characters of a label
const TOP = 30;

interface Placed extends Ancestor {
  lane: number;
  x: number;
  y: number;
  from: Placed | null;
}

interface Props {
  lineage: Ancestor[];
  roles: string[];
  players: Map<string, Sign>;
  choose?: (policy: Ancestor) => void;
}

/** Who came from whom. Left and right go from policy to policy; Enter takes one into the match. */
export function Lineage({ lineage, roles, players, choose }: Props) {
  const tree = useRef<SVGSVGElement>(null);
  const [active, setActive] = useState(0);
  const { placed, width, height, iterations } = useMemo(() => place(lineage, roles), [lineage, roles]);
  const short = useMemo(() => shortNames(lineage.map((each) => each.name)), [lineage]);
  const label = ({ name }: Ancestor): string => cut(short.get(name) ?? name);
  if (!placed.length) return null;
  const at = Math.min(active, placed.length - 1);
  const told = placed[at];
  const keys = (event: KeyboardEvent): void => {
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: placed.length - 1 }[event.key];
    if (to !== undefined) {
      const next = Math.max(0, Math.min(to, placed.length - 1));
      setActive(next);
      tree.current?.querySelectorAll<SVGGElement>("g[role=button]")[next]?.focus();
    } else if (event.key === "Enter" || event.key === " ") choose?.(told);
    else return;
    event.preventDefault();
  };
  return (
    <section class="panel" aria-labelledby="lineage">
      <h2 id="lineage">Lineage</h2>
      <p class="soft">A mark for each policy, by player. Larger marks have more weight in the final meta-strategy.</p>
      <Scroll kind="lineage">
        <svg ref={tree} width={width} height={height} role="group" aria-label="Lineage of the policies" data-arrows onKeyDown={keys}>
          {iterations.map(({ iteration, x }) => (
            <g class="mark" aria-hidden="true">
              <line x1={x} x2={x} y1={18} y2={height - 6} />
              <text x={x} y={11}>
                {iteration}
              </text>
            </g>
          ))}
          {placed.map((each) => each.from && <path class="descent" d={bend(each.from, each)} />)}
          {placed.map((each, i) => (
            <g
              role="button"
              tabIndex={i === at ? 0 : -1}
              aria-label={label(each) === each.name ? spoken(each) : `${label(each)}: ${spoken(each)}`}
              transform={`translate(${each.x} ${each.y})`}
              style={{ color: `var(${players.get(playerOf(each))?.color})` }}
              onFocus={() => setActive(i)}
              onMouseEnter={() => setActive(i)}
              onClick={() => choose?.(each)}
            >
              <title>{spoken(each)}</title>
              <circle r={11} class="halo" />
              <path transform={`scale(${(0.75 + 0.75 * Math.sqrt(each.weight ?? 0)).toFixed(3)})`} d={SIGNS[players.get(playerOf(each))?.shape ?? 0]} class="sign" />
              <text y={20} aria-hidden="true">
                {label(each)}
              </text>
            </g>
          ))}
        </svg>
      </Scroll>
      <div class="legend">
        {[...players.values()].map(({ name, shape, color }) => (
          <span>
            <svg class="key" viewBox="-8 -8 16 16" aria-hidden="true">
              <path d={SIGNS[shape]} style={{ fill: `var(${color})` }} />
            </svg>
            {name}
          </span>
        ))}
        <p>
          <b>{told.name}</b> {told.kind}, iteration {told.iteration}
          {told.parent !== null && `, from ${told.parent}`}
          {told.weight !== null && `, weight ${number(told.weight)}`}
        </p>
      </div>
    </section>
  );
}

function place(lineage: Ancestor[], roles: string[]) {
  const numbers = [...new Set(lineage.map((each) => each.iteration))].sort((a, b) => a - b);
  const iterations = numbers.map((iteration, i) => ({ iteration, x: LEFT + i * STEP }));
  const placed: Placed[] = [];
  let lanes = 0;
  for (const role of [...roles, ...new Set(lineage.map((each) => each.role))].filter((each, i, all) => all.indexOf(each) === i)) {
    const taken = new Set<string>(); // places: lane and iteration
    const first = lanes;
    const sorted = lineage.filter((each) => each.role === role).sort((a, b) => a.iteration - b.iteration);
    for (const each of sorted) {
      const from = placed.find((other) => other.name === each.parent && other.role === role) ?? placed.find((other) => other.name === each.parent) ?? null;
      // A first child goes on in its parent's lane; another one opens the next that is free.
      let lane = from?.role === role ? from.lane : first;
      while (taken.has(`${lane} ${each.iteration}`) || (from && lane === from.lane && placed.some((other) => other.from === from && other.lane === lane))) lane++;
      taken.add(`${lane} ${each.iteration}`);
      lanes = Math.max(lanes, lane + 1);
      placed.push({ ...each, lane, from, x: LEFT + numbers.indexOf(each.iteration) * STEP, y: TOP + lane * LANE });
    }
  }
  return { placed, iterations, width: 2 * LEFT + Math.max(0, numbers.length - 1) * STEP, height: TOP + lanes * LANE };
}

function cut(name: string): string {
  return name.length > LABEL ? `${name.slice(0, LABEL - 1)}…` : name;
}

function bend(from: Placed, to: Placed): string {
  const middle = (from.x + to.x) / 2;
  return `M${from.x} ${from.y}C${middle} ${from.y} ${middle} ${to.y} ${to.x} ${to.y}`;
}

function spoken({ name, kind, iteration, parent }: Placed): string {
  return `${name}, ${kind}, iteration ${iteration}${parent === null ? "" : `, from ${parent}`}`;
}

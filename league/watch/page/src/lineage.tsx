import { useMemo, useRef, useState } from "preact/hooks";
import type { Ancestor } from "./api";
import { series } from "./theme";
import { number } from "./text";

const LANE = 30; // from one line of descent to the next [px]
const STEP = 46; // from one iteration to the next, at least [px]
const LEFT = 14;
const TOP = 30;

interface Placed extends Ancestor {
  lane: number;
  x: number;
  y: number;
  from: Placed | null;
}

/** Who came from whom. Left and right go from policy to policy; Enter takes one into the match. */
export function Lineage({ lineage, roles, choose }: { lineage: Ancestor[]; roles: string[]; choose?: (policy: Ancestor) => void }) {
  const tree = useRef<SVGSVGElement>(null);
  const [active, setActive] = useState(0);
  const { placed, width, height, kinds, iterations } = useMemo(() => place(lineage, roles), [lineage, roles]);
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
      <p class="soft">Larger marks have more weight in the final meta-strategy.</p>
      <div class="scroll lineage">
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
              aria-label={spoken(each)}
              transform={`translate(${each.x} ${each.y})`}
              style={{ color: `var(${series(roles.indexOf(each.role))})` }}
              onFocus={() => setActive(i)}
              onMouseEnter={() => setActive(i)}
              onClick={() => choose?.(each)}
            >
              <circle r={11} class="halo" />
              <path transform={`scale(${(0.75 + 0.75 * Math.sqrt(each.weight ?? 0)).toFixed(3)})`} d={SIGNS[kinds.indexOf(each.kind) % SIGNS.length]} class="sign" />
            </g>
          ))}
        </svg>
      </div>
      <div class="legend">
        {roles.map((role, i) => (
          <span>
            <i class="dot" style={{ background: `var(${series(i)})` }} />
            {role}
          </span>
        ))}
        {kinds.length > 1 &&
          kinds.map((kind, i) => (
            <span>
              <svg class="key" viewBox="-8 -8 16 16" aria-hidden="true">
                <path d={SIGNS[i % SIGNS.length]} />
              </svg>
              {kind}
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

const SIGNS = [
  "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0z",
  "M-5.5-5.5h11v11h-11z",
  "M0-7 7 0 0 7-7 0z",
  "M0-7 6.5 5h-13z",
  "M0 7-6.5-5h13z",
];

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
  const kinds = [...new Set(lineage.map((each) => each.kind))];
  return { placed, kinds, iterations, width: 2 * LEFT + Math.max(0, numbers.length - 1) * STEP, height: TOP + lanes * LANE - 6 };
}

function bend(from: Placed, to: Placed): string {
  const middle = (from.x + to.x) / 2;
  return `M${from.x} ${from.y}C${middle} ${from.y} ${middle} ${to.y} ${to.x} ${to.y}`;
}

function spoken({ name, kind, iteration, parent }: Placed): string {
  return `${name}, ${kind}, iteration ${iteration}${parent === null ? "" : `, from ${parent}`}`;
}

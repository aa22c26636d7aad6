import { useMemo } from "preact/hooks";
import type { Ancestor, League, Metrics, Rating, Run, Strategy } from "./api";
import { Chart, type Line } from "./chart";
import { column } from "./curves";
import { type Sign, playerOf } from "./players";
import { dashes, ordered, rgb, series } from "./theme";

const TOLD = 5; // policies of a meta-strategy that are listed
const LEAST = 1e-6; // lower limit of a logarithmic axis, as a share of the largest value
const GAINS = { nash_conv: "NashConv", best_nash_conv: "best so far", population_gain: "gain by own policies" };

/** Exploitability, ratings and meta-strategies of a league by iteration. */
export function Measures({ league, metrics, run, signs }: { league: League; metrics: Metrics; run: Run; signs: Map<string, Sign> }) {
  const { strategies } = league;
  const ratings = league.ratings.filter((each) => each.elo !== null);
  const gains = useMemo(() => gainsOf(league, metrics), [league, metrics]);
  return (
    <>
      {gains.lines.length > 0 && (
        <section class="panel" aria-labelledby="exploitability">
          <h2 id="exploitability">Exploitability</h2>
          <p class="soft">
            NashConv, if it is shown, is the exact gain of all seats by best responses. The gain by own policies is a lower
            bound, apart from the noise of sampled payoffs.
          </p>
          <Chart xLabel="iteration" {...gains} />
        </section>
      )}
      {ratings.length > 0 && (
        <section class="panel" aria-labelledby="ratings">
          <h2 id="ratings">Ratings</h2>
          <p class="soft">A lead of 400 points means odds of 10 to 1. A faint line shows the highest rating of a player so far. The lineage has the same shapes and colors.</p>
          <Ratings ratings={ratings} lineage={league.lineage} signs={signs} />
        </section>
      )}
      {strategies.length > 0 && (
        <section class="panel" aria-labelledby="strategies">
          <h2 id="strategies">Meta-strategy</h2>
          <div class="charts">
            {run.roles.map((role) => (
              <Stack key={role} role={role} strategies={strategies} names={run.policies[role] ?? []} />
            ))}
          </div>
        </section>
      )}
    </>
  );
}

/** Gains of all seats by iteration; on a logarithmic axis if they differ by more than a factor of ten. */
function gainsOf({ learned_responses: learned }: League, metrics: Metrics) {
  const x = column(metrics, "iteration").map((value) => value ?? 0);
  const all = Object.entries(GAINS).map(([name, label]) => ({ label, told: column(metrics, name) }));
  if (learned) all.push({ label: "learned responses (lower bound)", told: x.map((each) => (each === learned.iteration ? learned.nash_conv : null)) });
  const shown = all.filter(({ told }) => told.some((value) => value !== null));
  const positive = shown.flatMap(({ told }) => told.filter((value) => value !== null && value > 0)) as number[];
  const most = positive.reduce((one, other) => Math.max(one, other), 0);
  const least = positive.reduce((one, other) => Math.min(one, other), Infinity);
  const logarithmic = most > 10 * least;
  const floor = Math.max(least / 10, LEAST * most); // zeros and rounding errors are drawn there
  const floored = logarithmic && shown.some(({ told }) => told.some((value) => value !== null && value < floor));
  const lines = shown.map(({ label, told }, i): Line => {
    const values = logarithmic ? told.map((value) => (value === null ? null : Math.max(value, floor))) : told;
    return { label, values, told, color: series(i), points: true };
  });
  const title = `Gain of all seats against the meta-strategy${floored ? "; 0 is drawn at the bottom" : ""}`;
  return { title, x, lines, logarithmic };
}

/** Elo of every policy, by player, over the iteration in which it was added. */
function Ratings({ ratings, lineage, signs }: { ratings: Rating[]; lineage: Ancestor[]; signs: Map<string, Sign> }) {
  const { x, lines } = useMemo(() => {
    const stage = ({ role, name }: Rating): string =>
      playerOf({ role, name, player: lineage.find((each) => each.role === role && each.name === name)?.player ?? null });
    const x = [...new Set(ratings.map((each) => each.iteration))].sort((a, b) => a - b);
    const owners = ratings.map(stage);
    const lines = [...new Set(owners)].flatMap((key): Line[] => {
      const { name, color, index, shape } = signs.get(key) ?? { name: key.split("\n").at(-1) ?? key, color: series(0), index: 0, shape: 0 };
      const dash = dashes(index);
      const found: (number | null)[][] = []; // more than one where a player has several policies of an iteration
      for (const each of ratings.filter((_, i) => owners[i] === key)) {
        const at = x.indexOf(each.iteration);
        const line = found.find((values) => values[at] === null) ?? found[found.push(x.map(() => null)) - 1];
        line[at] = each.elo;
      }
      let most = -Infinity;
      const best = x.map((_, at) => {
        for (const values of found) most = Math.max(most, values[at] ?? most);
        return Number.isFinite(most) ? most : null;
      });
      return [
        { label: `best of ${name}`, values: best, color, faint: true, ...(dash && { dash }) },
        ...found.map((values, nth) => ({ label: nth ? `${name} (${nth + 1})` : name, values, color, shape, points: true, ...(dash && { dash }) })),
      ];
    });
    return { x, lines };
  }, [ratings, lineage, signs]);
  return <Chart title="Elo of each policy by the iteration in which it was added" xLabel="iteration" x={x} lines={lines} />;
}

/** Shares of a role's policies, one area on the other. */
function Stack({ role, strategies, names }: { role: string; strategies: Strategy[]; names: string[] }) {
  const { x, lines } = useMemo(() => {
    const shares = strategies.map((each) => (each[role] as number[] | null) ?? []);
    const count = Math.max(0, ...shares.map((each) => each.length));
    const total = shares.map(() => 0);
    const lines = Array.from({ length: count }, (_, policy): Line => {
      const told = shares.map((each) => each[policy] ?? 0);
      told.forEach((share, i) => (total[i] += share));
      const fill = rgb(ordered(count > 1 ? policy / (count - 1) : 0.5));
      return { label: names[policy] ?? String(policy), values: [...total], told, color: "--panel", fill, downTo: policy ? policy - 1 : null };
    });
    return { x: strategies.map((each) => each.iteration), lines };
  }, [strategies, role, names]);
  return <Chart title={role} xLabel="iteration" x={x} lines={lines} range={[0, 1]} most={TOLD} decimals={3} shared="strategies" />;
}

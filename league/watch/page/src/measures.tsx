import { useMemo } from "preact/hooks";
import type { Ancestor, League, Rating, Run, Strategy } from "./api";
import { Chart, type Line } from "./chart";
import { ordered, rgb, series } from "./theme";

const TOLD = 5; // policies of a meta-strategy that are listed

/** What a league measures from iteration to iteration. */
export function Measures({ league, run }: { league: League; run: Run }) {
  const { exploitability, strategies, left_out } = league;
  const ratings = league.ratings.filter((each) => each.elo !== null);
  const known = exploitability.filter(([, value]) => value !== null);
  const positive = known.length > 0 && known.every(([, value]) => (value ?? 0) > 0);
  const gap = useMemo(
    () => ({
      x: exploitability.map(([iteration]) => iteration),
      lines: [{ label: "exploitability", values: exploitability.map(([, value]) => value), color: series(1), points: true }],
    }),
    [exploitability],
  );
  return (
    <>
      {known.length > 0 && (
        <section class="panel" aria-labelledby="exploitability">
          <h2 id="exploitability">Exploitability</h2>
          <Chart title="Mean gain of the seats by a best response" xLabel="iteration" {...gap} logarithmic={positive} />
        </section>
      )}
      {ratings.length > 0 && (
        <section class="panel" aria-labelledby="ratings">
          <h2 id="ratings">Ratings</h2>
          <Ratings ratings={ratings} lineage={league.lineage} />
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
      {Object.keys(left_out).length > 0 && (
        <details class="panel">
          <summary>Measures left out</summary>
          <dl class="why">
            {Object.entries(left_out).map(([name, why]) => (
              <div>
                <dt>{name}</dt>
                <dd>{why}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </>
  );
}

function Ratings({ ratings, lineage }: { ratings: Rating[]; lineage: Ancestor[] }) {
  const { x, lines } = useMemo(() => {
    const player = ({ role, name }: Rating): string =>
      lineage.find((each) => each.role === role && each.name === name)?.player ?? role;
    const x = [...new Set(ratings.map((each) => each.iteration))].sort((a, b) => a - b);
    const players = [...new Set(ratings.map(player))];
    const lines = players.map((name, i): Line => {
      const values: (number | null)[] = x.map(() => null);
      for (const each of ratings) if (player(each) === name) values[x.indexOf(each.iteration)] = each.elo;
      return { label: name, values, color: series(i), points: true };
    });
    return { x, lines };
  }, [ratings, lineage]);
  return <Chart title="Elo of the policy of each iteration" xLabel="iteration" x={x} lines={lines} />;
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

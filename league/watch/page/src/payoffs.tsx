import { useMemo, useRef, useState } from "preact/hooks";
import type { Payoff, Seat } from "./api";
import { Scroll } from "./scroll";
import { diverging, ink, rgb, roleColor, useDark } from "./theme";
import { fixed, number, shortNames } from "./text";

const TEXTS = 16; // policies of a seat up to which every cell has room for its numbers
const MEANS = 18; // ... for its mean alone
const MOST = 60; // policies of a seat that are shown at a time

interface Props {
  seats: Seat[];
  policies: string[][];
  payoff: Payoff;
  colors: Record<string, string>;
  /** The policies of the match that is shown, by seat. */
  current: string[];
  /** Whether a match can be played, or is in the exported file. */
  playable: (policies: string[]) => boolean;
  play: (policies: string[]) => void;
}

/** What the policies of one seat earn against those of another; a cell plays its match. */
export function Payoffs(props: Props) {
  const { seats, policies, payoff } = props;
  const [rowSeat, setRow] = useState(0);
  const [columnSeat, setColumn] = useState(Math.min(1, seats.length - 1));
  const [of, setOf] = useState(0);
  const [others, setOthers] = useState<Record<number, number>>({});
  const [starts, setStarts] = useState<Record<number, number>>({});
  const rest = seats.map((_, seat) => seat).filter((seat) => seat !== rowSeat && seat !== columnSeat);
  const axes = rowSeat === columnSeat ? [rowSeat] : [rowSeat, columnSeat];
  const ranges = axes.filter((seat) => payoff.shape[seat] > MOST).map((seat) => ({
    seat,
    name: seats[seat].name,
    from: rangesOf(payoff.shape[seat]),
    at: range(payoff.shape[seat], starts[seat]),
    count: payoff.shape[seat],
  }));
  return (
    <section class="panel" aria-labelledby="payoffs">
      <h2 id="payoffs">
        Payoffs <small>{ranges.map(({ name, at, count }) => `${name} ${span(at, count)}`).join(", ")}</small>
      </h2>
      <p class="soft">
        {payoff.count === null ? "Exact payoffs." : "Means of episodes, ± half of the 95 % interval."}
      </p>
      <div class="row options">
        <Choice label="Payoff of" value={of} names={seats.map((seat) => seat.name)} set={setOf} />
        {seats.length > 2 && (
          <>
            <Choice label="Rows" value={rowSeat} names={seats.map((seat) => seat.name)} set={(seat) => {
              if (seat === columnSeat) setColumn(rowSeat);
              setRow(seat);
            }} />
            <Choice label="Columns" value={columnSeat} names={seats.map((seat) => seat.name)} set={(seat) => {
              if (seat === rowSeat) setRow(columnSeat);
              setColumn(seat);
            }} />
            {rest.map((seat) => (
              <Choice
                label={seats[seat].name}
                value={others[seat] ?? payoff.shape[seat] - 1}
                names={policies[seat].slice(0, payoff.shape[seat])}
                set={(policy) => setOthers({ ...others, [seat]: policy })}
              />
            ))}
          </>
        )}
        {ranges.map(({ seat, name, from, at, count }) => (
          <Choice
            label={`Policies of ${name}`}
            value={from.indexOf(at)}
            names={from.map((start) => span(start, count))}
            set={(index) => setStarts({ ...starts, [seat]: index === from.length - 1 ? NEWEST : from[index] })}
          />
        ))}
      </div>
      <Map
        {...props}
        of={of}
        rowSeat={rowSeat}
        columnSeat={columnSeat}
        fixed={seats.map((_, seat) => others[seat] ?? payoff.shape[seat] - 1)}
        firstRow={range(payoff.shape[rowSeat], starts[rowSeat])}
        firstColumn={range(payoff.shape[columnSeat], starts[columnSeat])}
      />
    </section>
  );
}

const NEWEST = -1;

/** Where the ranges of so many policies begin that can be shown: one after another, and the newest, which is full. */
function rangesOf(count: number): number[] {
  const newest = Math.max(0, count - MOST);
  return [...Array.from({ length: Math.ceil(newest / MOST) }, (_, i) => i * MOST), newest];
}

/** Where the range begins that is shown: the newest, unless another was chosen. */
function range(count: number, chosen = NEWEST): number {
  const from = rangesOf(count);
  return from.includes(chosen) ? chosen : from[from.length - 1];
}

function span(start: number, count: number): string {
  return `${start + 1}–${Math.min(start + MOST, count)} of ${count}`;
}

function Choice(props: { label: string; value: number; names: string[]; set: (value: number) => void }) {
  return (
    <label>
      {props.label}
      <select value={String(props.value)} onChange={(event) => props.set(Number(event.currentTarget.value))}>
        {props.names.map((name, i) => (
          <option value={String(i)}>{name}</option>
        ))}
      </select>
    </label>
  );
}

interface Cell {
  choice: string[];
  mean: number | null;
  half: number | null;
  count: number | null;
}

interface Shown {
  of: number;
  rowSeat: number;
  columnSeat: number;
  /** Policies of all seats; those of rows and columns do not count. */
  fixed: number[];
  firstRow: number;
  firstColumn: number;
}

function Map(props: Props & Shown) {
  const { seats, policies, payoff, colors, of, rowSeat, columnSeat, firstRow, firstColumn, current } = props;
  const dark = useDark();
  const table = useRef<HTMLTableElement>(null);
  const [active, setActive] = useState<[number, number] | null>(null);
  const held = props.fixed.join();
  const cells = useMemo(() => {
    const { mean, half, count } = payoff;
    const tables = [mean[of], count && half[of], count?.[of]]; // exact payoffs have no interval
    return Array.from({ length: Math.min(MOST, payoff.shape[rowSeat]) }, (_, row) =>
      Array.from({ length: Math.min(MOST, payoff.shape[columnSeat]) }, (_, column): Cell => {
        const at = held.split(",").map(Number);
        at[rowSeat] = firstRow + row;
        at[columnSeat] = firstColumn + column;
        const flat = at.reduce((sum, policy, seat) => sum * payoff.shape[seat] + policy, 0);
        const [mean, half, count] = tables.map((each) => each?.[flat] ?? null);
        return { choice: at.map((policy, seat) => policies[seat][policy]), mean, half, count };
      }),
    );
  }, [payoff, policies, of, rowSeat, columnSeat, firstRow, firstColumn, held]);
  const short = useMemo(() => shortNames(policies.flat()), [policies]);
  const { center, reach } = useMemo(() => reachOf(payoff.mean[of]), [payoff, of]);
  const shown = [
    policies[rowSeat].indexOf(current[rowSeat]) - firstRow,
    policies[columnSeat].indexOf(current[columnSeat]) - firstColumn,
  ];
  const at = active ?? shown; // the match on the stage, until another is pointed at
  const [row, column] = [clamp(at[0], cells.length), clamp(at[1], cells[0]?.length ?? 1)];
  const told = cells[row]?.[column];
  if (!told) return <p class="hint">No policies have played each other yet.</p>;

  const most = Math.max(cells.length, cells[0].length);
  const size = most <= TEXTS ? "large" : most <= MEANS ? "middle" : "small";
  const decimals = center + reach >= 100 ? 0 : center + reach >= 10 ? 1 : 2;
  const focus = (to: [number, number]): void => {
    setActive(to);
    table.current?.querySelector<HTMLElement>(`[data-at="${to}"]`)?.focus();
  };
  const keys = (event: KeyboardEvent): void => {
    const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -column], End: [0, cells[0].length - 1 - column] }[event.key];
    if (by) {
      focus([clamp(row + by[0], cells.length), clamp(column + by[1], cells[0].length)]);
    } else if (event.key === "Enter" || event.key === " ") {
      if (props.playable(told.choice)) props.play(told.choice);
    } else return;
    event.preventDefault();
  };
  return (
    <>
      <Scroll kind="heat">
        <table ref={table} role="grid" class={size} aria-label={`Payoff of ${seats[of].name}`} data-arrows onKeyDown={keys}>
          <thead>
            <tr>
              <th class="corner">
                {[rowSeat, columnSeat].map((seat, i) => (
                  <div>
                    <i class="dot" style={{ background: `var(${roleColor(colors, colors[seats[seat].name] ? seats[seat].name : seats[seat].role, seat)})` }} />
                    {seats[seat].name} {i ? "→" : "↓"}
                  </div>
                ))}
              </th>
              {cells[0].map((cell) => (
                <th scope="col">
                  <span title={cell.choice[columnSeat]}>{short.get(cell.choice[columnSeat])}</span>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {cells.map((line, i) => (
              <tr>
                <th scope="row" title={line[0].choice[rowSeat]}>
                  {short.get(line[0].choice[rowSeat])}
                </th>
                {line.map((cell, j) => {
                  const color = cell.mean === null ? null : diverging((cell.mean - center) / reach, dark);
                  const can = props.playable(cell.choice);
                  return (
                    <td
                      role="gridcell"
                      data-at={`${i},${j}`}
                      tabIndex={i === row && j === column ? 0 : -1}
                      aria-selected={same(cell.choice, current)}
                      aria-disabled={!can}
                      aria-label={size === "small" ? spoken(cell, rowSeat, columnSeat) : undefined}
                      title={`${can ? "Play " : ""}${cell.choice.join(" – ")}`}
                      style={color ? { background: rgb(color), color: ink(color) } : {}}
                      onFocus={() => setActive([i, j])}
                      onMouseEnter={() => setActive([i, j])}
                      onClick={() => can && props.play(cell.choice)}
                    >
                      {size !== "small" && fixed(cell.mean, decimals)}
                      {size === "large" && cell.half !== null && <small>±{fixed(cell.half, decimals)}</small>}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <div class="legend">
        <span>{number(center - reach)}</span>
        <i aria-hidden="true" style={{ background: `linear-gradient(90deg, ${[-1, -0.5, 0, 0.5, 1].map((v) => rgb(diverging(v, dark))).join()})` }} />
        <span>{number(center + reach)}</span>
        <p>
          <b>{told.choice.join(" – ")}</b>{" "}
          {told.mean === null
            ? "not played yet"
            : `${number(told.mean)}${told.half === null ? "" : ` ± ${number(told.half)}`}${told.count === null ? "" : `, ${number(told.count)} episodes`}`}
        </p>
      </div>
    </>
  );
}

/** The middle of the colors and how far they reach: around 0 where payoffs have both signs. */
function reachOf(mean: (number | null)[]): { center: number; reach: number } {
  const known = mean.filter((value) => value !== null);
  const low = known.reduce((least, value) => Math.min(least, value), Infinity);
  const high = known.reduce((most, value) => Math.max(most, value), -Infinity);
  if (!known.length) return { center: 0, reach: 1 };
  const center = low <= 0 && high >= 0 ? 0 : (low + high) / 2;
  return { center, reach: Math.max(high - center, center - low) || 1 };
}

function spoken(cell: Cell, row: number, column: number): string {
  const who = `${cell.choice[row]} against ${cell.choice[column]}`;
  if (cell.mean === null) return `${who}: not played yet`;
  const half = cell.half === null ? "" : ` plus or minus ${number(cell.half)}`;
  return `${who}: ${number(cell.mean)}${half}`;
}

export function same(one: string[], other: string[]): boolean {
  return one.length === other.length && one.every((name, i) => name === other[i]);
}

function clamp(value: number, count: number): number {
  return Math.max(0, Math.min(value, count - 1));
}

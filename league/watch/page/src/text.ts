const LARGE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** A number as short as it can be read: four digits, the exponent where it would be long, – where there is none. */
export function number(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (size >= 1e9 || size < 1e-4) return minus(value.toExponential(2));
  if (size >= 1000) return minus(LARGE.format(value));
  if (Number.isInteger(value)) return minus(String(value));
  return minus(String(Number(value.toPrecision(4))));
}

/** With so many decimals, for columns. */
export function fixed(value: number | null | undefined, decimals: number): string {
  return value === null || value === undefined || Number.isNaN(value) ? "–" : minus(value.toFixed(decimals));
}

function minus(text: string): string {
  return text.replace("-", "−");
}

/** A column name for display: `adversary/episode_return_mean` as "adversary/episode return mean". */
export function words(name: string): string {
  return name.replaceAll("_", " ");
}

const LONG = 7; // characters of a name that is written out

/** Short names of policies, such as LE0:1 for league_exploiter_0:1; long ones where two would be equal. */
export function shortNames(names: string[]): Map<string, string> {
  const short = names.map((name) => (name.length <= LONG ? name : initials(name)));
  const owner = new Map<string, string>(); // a short name's first long one
  const shared = new Set<string>();
  names.forEach((name, i) => {
    if ((owner.get(short[i]) ?? name) !== name) shared.add(short[i]);
    owner.set(short[i], name);
  });
  return new Map(names.map((name, i) => [name, shared.has(short[i]) ? name : short[i]]));
}

function initials(name: string): string {
  return name.replace(/[A-Za-z]+_?/g, (word) => word[0].toUpperCase());
}

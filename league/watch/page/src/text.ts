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

/** The title of a column of a training: a return says whether it is per agent, or per team as the sum over its agents. */
export function title(column: string): string {
  if (column === "eval/score") return "eval/score (return per team)";
  if (column.startsWith("eval/") && column.endsWith("/return")) return words(`${column} per team`);
  return words(column.replace(/\/episode_return_mean$/, "/return per agent"));
}

const LONG = 7; // characters of a name that is written out
const NUMBERED = 4; // ... of one with a number, so that agent-1 and adversary-1 are shortened alike

/**
 * Short names of policies, such as LE0:1 for league_exploiter_0:1. Words that tell two names apart get more letters where
 * their initials are equal: MAd0:1 and MAg0:1 for main_adversary_0:1 and main_agent_0:1.
 */
export function shortNames(names: string[]): Map<string, string> {
  const letters = new Map<string, number>(); // of a word
  for (;;) {
    const short = new Map(names.map((name) => [name, name.length <= (/\d/.test(name) ? NUMBERED : LONG) ? name : initials(name, letters)]));
    const owner = new Map<string, string>(); // a short name's first long one
    const shared = new Set<string>();
    const apart = new Set<string>(); // words that tell apart names of one short name
    for (const [name, text] of short) {
      const other = owner.get(text);
      if (other === undefined) owner.set(text, name);
      else {
        shared.add(text);
        const [mine, others] = [wordsOf(name), wordsOf(other)];
        for (const word of mine) if (!others.includes(word)) apart.add(word);
        for (const word of others) if (!mine.includes(word)) apart.add(word);
      }
    }
    const growing = [...apart].filter((word) => (letters.get(word) ?? 1) < word.length);
    for (const word of growing) letters.set(word, (letters.get(word) ?? 1) + 1);
    if (!growing.length) return new Map([...short].map(([name, text]) => [name, shared.has(text) ? name : text]));
  }
}

function wordsOf(name: string): string[] {
  return name.match(/[A-Za-z]+/g) ?? [];
}

function initials(name: string, letters: Map<string, number>): string {
  return name.replace(/([A-Za-z]+)_?/g, (_, word: string) => word[0].toUpperCase() + word.slice(1, letters.get(word) ?? 1));
}

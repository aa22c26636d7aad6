import type { Ancestor } from "./api";
import { roleColor, series } from "./theme";

/** Shapes of marks, about 14 pixels wide. */
export const SIGNS = [
  "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0z",
  "M-5.5-5.5h11v11h-11z",
  "M0-7 7 0 0 7-7 0z",
  "M0-7 6.5 5h-13z",
  "M0 7-6.5-5h13z",
  "M-2-7h4v5h5v4h-5v5h-4v-5h-5v-4h5z",
  "M-3-6.5h6l4 6.5-4 6.5h-6l-4-6.5z",
  "M-6-6 0-2.8 6-6 2.8 0 6 6 0 2.8-6 6-2.8 0z",
];
const RANDOM = "random";

/** How a player is drawn in every panel. */
export interface Sign {
  name: string;
  shape: number;
  color: string;
  /** Place among the players, without the random policy: -1. */
  index: number;
}

/** Key of the player that a policy is a stage of: its role where a role has one player; the random policies are one. */
export function playerOf({ name, role, player }: { name: string; role: string; player?: string | null }): string {
  return name === RANDOM ? RANDOM : `${role}\n${player ?? role}`;
}

/** Shape and color of every player: the color of its role where there are several roles. */
export function playersOf(lineage: Ancestor[], roles: string[], colors: Record<string, string>): Map<string, Sign> {
  const found = new Map<string, Sign>();
  const taken = new Set<string>(); // shapes of a role; that of the random policy is its own
  const several = new Set(lineage.map((each) => each.role)).size > 1;
  let index = 0;
  for (const each of lineage) {
    const key = playerOf(each);
    if (found.has(key)) continue;
    if (key === RANDOM) {
      found.set(key, { name: RANDOM, shape: 0, color: "--soft", index: -1 });
      continue;
    }
    const color = several ? roleColor(colors, each.role, roles.indexOf(each.role)) : series(index);
    const count = SIGNS.length - 1;
    const places = Array.from({ length: count }, (_, i) => ((index + i) % count) + 1);
    const shape = places.find((place) => !taken.has(`${each.role} ${place}`)) ?? places[0];
    taken.add(`${each.role} ${shape}`);
    found.set(key, { name: each.player ?? each.role, shape, color, index });
    index++;
  }
  return found;
}

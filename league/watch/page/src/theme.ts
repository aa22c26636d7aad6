import { useEffect, useState } from "preact/hooks";

const dark = matchMedia("(prefers-color-scheme: dark)");

/** Whether the page is dark; a component that asks follows the change. */
export function useDark(): boolean {
  const [is, set] = useState(dark.matches);
  useEffect(() => {
    const follow = (): void => set(dark.matches);
    dark.addEventListener("change", follow);
    return () => dark.removeEventListener("change", follow);
  }, []);
  return is;
}

/** A custom property of style.css. */
export function property(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Names of colors, as in gpu_envs/rendering/palette.py, in the order in which lines take them. */
const PALETTE = ["blue", "red", "green", "purple", "olive", "pink", "orange", "slate"];
const DASHES: (number[] | undefined)[] = [undefined, [7, 4], [2, 3], [9, 3, 2, 3]];

/** The custom property of a series' color. With its dashes every one of 32 lines is another. */
export function series(index: number): string {
  return `--${PALETTE[index % PALETTE.length]}`;
}

/** The dashes of a series: lines beyond the last color repeat the colors. */
export function dashes(index: number): number[] | undefined {
  return DASHES[Math.floor(index / PALETTE.length) % DASHES.length];
}

/** The color of a role, seat or group; that of its place where it has none. */
export function roleColor(colors: Record<string, string>, name: string, index: number): string {
  return colors[name] ? `--${colors[name]}` : series(index);
}

type Rgb = [number, number, number];

// Diverging, red to blue by way of the panel's color, as in the worlds and the figures: a high payoff is blue; and cividis, dark to light, for policies in their order.
const DIVERGING: Record<"light" | "dark", Rgb[]> = {
  light: [[178, 34, 34], [240, 150, 125], [247, 247, 246], [146, 190, 222], [33, 102, 172]],
  dark: [[240, 120, 100], [150, 60, 48], [38, 43, 50], [50, 104, 155], [116, 184, 240]],
};
const CIVIDIS: Rgb[] = [[0, 34, 78], [53, 69, 110], [102, 105, 112], [148, 142, 119], [200, 184, 102], [254, 232, 56]];

/** Color of a value in -1..1. */
export function diverging(value: number, isDark: boolean): Rgb {
  return between(DIVERGING[isDark ? "dark" : "light"], (value + 1) / 2);
}

/** Color of a value in 0..1. */
export function ordered(value: number): Rgb {
  return between(CIVIDIS, value);
}

export function rgb(color: Rgb): string {
  return `rgb(${color.map(Math.round).join(" ")})`;
}

/** Black or white, whichever is read better on a color. */
export function ink(color: Rgb): string {
  const [r, g, b] = color.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
}

function between(stops: Rgb[], value: number): Rgb {
  const at = Math.max(0, Math.min(value, 1)) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  return stops[low].map((part, i) => part + (stops[low + 1][i] - part) * (at - low)) as Rgb;
}

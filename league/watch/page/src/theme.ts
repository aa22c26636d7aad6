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

const SERIES = 6;

/** The custom property of a series' color; they stay apart for color-blind readers (after Okabe and Ito, 2008). */
export function series(index: number): string {
  return `--series-${(index % SERIES) + 1}`;
}

type Rgb = [number, number, number];

// Diverging, blue to orange by way of the panel's color; and cividis, dark to light, for policies in their order.
const DIVERGING: Record<"light" | "dark", Rgb[]> = {
  light: [[33, 102, 172], [146, 190, 222], [247, 247, 246], [247, 180, 110], [179, 88, 6]],
  dark: [[116, 184, 240], [50, 104, 155], [38, 43, 50], [150, 86, 26], [245, 166, 80]],
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

/** Answers of the viewer (see league/watch/api.py), from a server or from an exported file. */

/** An array as little-endian float32 in base64, the last axis fastest. */
export interface Packed {
  shape: number[];
  data: string;
}

/** Who plays in a rollout: a policy of the role. */
export interface Seat {
  name: string;
  role: string;
}

export interface Run {
  name: string;
  kind: "training" | "league" | "experiment" | "seeds";
  env_id: string;
  writing: boolean;
  /** Absent in a report. */
  state?: "running" | "finished" | "stopped" | "ended";
  /** Completed iterations, or runs of an experiment, and all. */
  done: number;
  total: number;
  version: number;
  algorithm: string;
  env: Record<string, unknown>;
  config: Record<string, unknown>;
  /** Why the files cannot be read again now. */
  problem: string | null;
  roles: string[];
  seats: Seat[];
  /** By role, the latest last. */
  policies: Record<string, string[]>;
  /** By role, the policy that is the present result. */
  latest: Record<string, string>;
  /** A further policy of every role; null if there is none. */
  mixture: string | null;
  /** Names of colors of style.css, by role, seat or group. */
  colors: Record<string, string>;
}

/** Whether the page shows several runs: an experiment, or the seeds of a training. */
export function hasRuns({ kind }: { kind: string }): boolean {
  return kind === "experiment" || kind === "seeds";
}

export interface Metrics {
  /** Of the run. */
  version: number;
  x: string;
  columns: string[];
  rows: (number | null)[][];
  /** Points that each row is the mean of. */
  every: number;
}

/** Numbers of every joint choice of policies, by seat: flat, the last seat's policies fastest. */
export interface Payoff {
  shape: number[];
  mean: (number | null)[][];
  half: (number | null)[][];
  /** Episodes; null where payoffs are exact. */
  count: (number | null)[][] | null;
}

export interface Rating {
  role: string;
  name: string;
  iteration: number;
  elo: number | null;
}

export interface Ancestor {
  name: string;
  role: string;
  parent: string | null;
  iteration: number;
  kind: string;
  /** Of which player it is a stage, where a league has several in a role. */
  player: string | null;
  /** In the final meta-strategy; null if it is unknown. */
  weight: number | null;
}

/** A table of the report, as text. */
export interface Table {
  title: string;
  /** Names of the columns; empty for no header. */
  head: string[];
  rows: string[][];
  /** Whether a column has numbers only. */
  numeric: boolean[];
}

export type Strategy = { iteration: number } & Record<string, number[] | number | null>;

export interface League {
  version: number;
  payoff: Payoff | null;
  ratings: Rating[];
  strategies: Strategy[];
  lineage: Ancestor[];
  /** Gain of all seats by best responses that were learned for a report. */
  learned_responses: { iteration: number; nash_conv: number | null } | null;
  tables: Table[];
}

/** One algorithm on one task of an experiment. */
export interface Cell {
  task: string;
  algorithm: string;
  /** Environment steps, mean over seeds, and the ends of its 95 % interval. */
  curve: [number, number, number | null, number | null][];
  /** Mean of the final scores, and the ends of its interval, which one run does not have. */
  final: [number, number | null, number | null] | null;
  /** `share` is that of its steps; null if a run has not begun. */
  runs: { name: string; seed: number; share: number | null; complete: boolean }[];
}

export interface Experiment {
  version: number;
  tasks: Record<string, { score: string; threshold: number | null }>;
  cells: Cell[];
}

/** Consecutive entries of an observation that mean the same thing. */
export interface Block {
  meaning: string;
  unit: string;
  entries: string[];
}

export interface Rollout {
  env_id: string;
  fps: number;
  agents: string[];
  groups: Record<string, number[]>;
  seats: (Seat & { policy: string })[];
  worlds: number;
  steps: number;
  /** Sum of an agent's rewards in the episode, if the rollout is only its latest part. */
  returns?: number[];
  /** Whether each world's episode was played to its end. */
  complete: boolean[];
  /** x_min, y_min, x_max, y_max of each world; or of each world in each frame. */
  bounds: number[][] | number[][][];
  background: number[];
  surround: number[];
  border: number[] | null;
  margin: number;
  shapes: Packed;
  places: Packed | null;
  /** null where they would be too large. */
  obs: Packed | null;
  obs_widths: number[];
  action: Packed;
  reward: Packed;
  alive: Packed;
  /** Of a group; of an agent where those of its group differ. */
  obs_names: Record<string, Block[]> | null;
  action_names: Record<string, string[] | string[][]> | null;
  /** Components of continuous actions. */
  action_parts: Record<string, string[]> | null;
}

/** What a person plays (league/watch/play.py). */
export interface Game {
  kind: "play";
  env_id: string;
  agents: string[];
  /** The person's. */
  agent: string;
  /** In words. */
  opponents: string;
  fps: number;
  /** Whether the world moves on at its pace at first. */
  realtime: boolean;
  /** Names of the choices of every component; null where actions are continuous. */
  choices: string[][] | null;
  parts: { name: string; low: number; high: number }[] | null;
}

/** What has happened since the last action of the person. */
export interface Turn extends Rollout {
  turn: number;
  legal: boolean[][] | null;
  over: boolean;
}

/** A rollout that an exported file holds. */
export interface Recorded {
  path: string;
  policies: string[];
}

const RUN = "api/run";

export class Source {
  /** The rollouts of an exported file, in its order. */
  readonly recorded: Recorded[];
  private readonly answers: Record<string, unknown> | null;

  /** @param folder of the answers: "api/", or that of a run of an experiment. */
  constructor(
    page: Document,
    private readonly folder = "api/",
  ) {
    const text = page.getElementById("recorded")?.textContent;
    this.answers = text ? (JSON.parse(text) as Record<string, unknown>) : null;
    this.recorded = Object.entries(this.answers ?? {})
      .filter(([path]) => path.startsWith("api/rollout"))
      .map(([path, answer]) => ({ path, policies: (answer as Rollout).seats.map((seat) => seat.policy) }));
  }

  /** Whether a server answers: it can be asked for any match. */
  get live(): boolean {
    return this.answers === null;
  }

  async get<T>(path: string, signal?: AbortSignal): Promise<T> {
    if (this.answers) {
      if (!(path in this.answers)) throw new Error(`This file does not hold ${path}.`);
      return this.answers[path] as T;
    }
    let response: Response;
    try {
      response = await fetch(path.replace("api/", this.folder), { cache: "no-store", ...(signal && { signal }) });
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") throw error;
      throw new Error("The server does not answer. Is gpu-envs watch still running?");
    }
    const answer: unknown = await response.json().catch(() => null);
    if (!response.ok || answer === null) throw new Error(told(answer) ?? `${path}: the server answered ${response.status}.`);
    return answer as T;
  }

  run(): Promise<Run> {
    return this.get<Run>(RUN);
  }

  /** What the page shows. */
  subject(): Promise<Run | Game> {
    return this.get<Run | Game>(RUN);
  }
}

function told(answer: unknown): string | null {
  const error = (answer as { error?: unknown } | null)?.error;
  return typeof error === "string" ? error : null;
}

/** The path of a rollout of a policy for each seat. */
export function rolloutPath(policies: string[], seed: number, worlds: number): string {
  return `api/rollout?policies=${policies.map(encodeURIComponent).join(",")}&seed=${seed}&worlds=${worlds}`;
}

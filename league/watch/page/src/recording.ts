import type { Block, Packed, Rollout } from "./api";

/** A rollout, unpacked: frames of every world, and what each agent saw, did and got. */
export class Recording {
  readonly frames: number;
  readonly worlds: number;
  readonly agents: string[];
  /** Group of each agent. */
  readonly group: string[];
  /** Rows of ten numbers (see warp_kernels/drawing/rasterizer.py), [frame][world][shape]. */
  readonly shapes: Float32Array;
  readonly shapesPerWorld: number;
  /** x, y, radius, [frame][world][agent]; NaN where an agent is not to be seen. */
  readonly places: Float32Array | null;
  readonly obs: Table | null;
  readonly action: Table;
  readonly reward: Table;
  readonly alive: Table;
  private readonly returns: Float32Array;

  constructor(readonly answer: Rollout) {
    const [frames, worlds, count] = answer.shapes.shape;
    this.frames = frames;
    this.worlds = worlds;
    this.shapesPerWorld = count;
    this.shapes = unpack(answer.shapes);
    this.agents = answer.agents;
    this.group = answer.agents.map(
      (_, row) => Object.keys(answer.groups).find((name) => answer.groups[name].includes(row)) ?? "",
    );
    this.places = answer.places && unpack(answer.places);
    this.obs = answer.obs && table(answer.obs);
    this.action = table(answer.action);
    this.reward = table(answer.reward);
    this.alive = table(answer.alive);
    this.returns = sums(this.reward);
  }

  /** x_min, y_min, x_max, y_max of a world's arena. */
  bounds(frame: number, world: number): number[] {
    const { bounds } = this.answer;
    return Array.isArray(bounds[0][0]) ? (bounds as number[][][])[frame][world] : (bounds as number[][])[world];
  }

  /** Where the numbers of an agent's place begin. */
  placeAt(frame: number, world: number, agent: number): number {
    return ((frame * this.worlds + world) * this.agents.length + agent) * 3;
  }

  /** Whether an agent acts on the step that follows. */
  isAlive(frame: number, world: number, agent: number): boolean {
    return this.alive.value(frame, world, agent) > 0.5;
  }

  /** Whether a world's episode is over in a frame. */
  ended(frame: number, world: number): boolean {
    return this.agents.every((_, agent) => !this.isAlive(frame, world, agent));
  }

  /** Description of an agent, or of its group. */
  named<T>(names: Record<string, T> | null, agent: number): T | undefined {
    return names?.[this.agents[agent]] ?? names?.[this.group[agent]];
  }

  /** What an agent observes, in order; without names, one block of numbers. */
  blocks(agent: number): Block[] {
    const entries = Array.from({ length: this.answer.obs_widths[agent] }, (_, entry) => String(entry));
    return this.named(this.answer.obs_names, agent) ?? [{ meaning: "", unit: "", entries }];
  }

  /** Sum of an agent's rewards before a frame. */
  returnAt(frame: number, world: number, agent: number): number {
    const since = (at: number): number => (at === 0 ? 0 : this.returns[this.reward.at(at - 1, world, agent)]);
    const total = this.answer.returns?.[agent];
    return since(frame) + (total === undefined ? 0 : total - since(this.reward.steps));
  }
}

/** Values of every agent, [step][world][agent][entry]. */
export class Table {
  readonly steps: number;
  readonly worlds: number;
  readonly agents: number;
  readonly width: number;

  constructor(
    shape: number[],
    readonly data: Float32Array,
  ) {
    [this.steps, this.worlds, this.agents] = shape;
    this.width = shape[3] ?? 1;
  }

  at(step: number, world: number, agent: number): number {
    return ((step * this.worlds + world) * this.agents + agent) * this.width;
  }

  /** NaN after the last step. */
  value(step: number, world: number, agent: number, entry = 0): number {
    return step < this.steps ? this.data[this.at(step, world, agent) + entry] : NaN;
  }

  /** The entries of an agent; none after the last step. */
  row(step: number, world: number, agent: number): Float32Array {
    const at = this.at(step, world, agent);
    return step < this.steps ? this.data.subarray(at, at + this.width) : this.data.subarray(0, 0);
  }
}

function table(packed: Packed): Table {
  return new Table(packed.shape, unpack(packed));
}

function sums(reward: Table): Float32Array {
  const total = reward.data.slice();
  const stride = reward.worlds * reward.agents;
  for (let i = stride; i < total.length; i++) total[i] += total[i - stride];
  return total;
}

function unpack(packed: Packed): Float32Array {
  const text = atob(packed.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Float32Array(bytes.buffer);
}

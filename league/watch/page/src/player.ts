import { useEffect, useReducer } from "preact/hooks";
import type { Recording } from "./recording";

export const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4, 8];
const PAUSE = 0.7; // a loop shows the last frame so long [s]
const TABLES = 100; // tables follow the frames at most this often [ms]

/** What is shown of a recording, and the clock that moves it on. */
export class Player {
  recording: Recording | null = null;
  frame = 0;
  playing = false;
  speed = 1;
  trails = true;
  /** Whether playback starts again at the end. */
  loop = false;
  /** The world that is looked into. */
  world = 0;
  /** Whether all worlds are shown beside each other, or only `world`. */
  tiles = true;
  agent: number | null = null;

  private readonly onChange = new Set<() => void>();
  private readonly onFrame = new Set<() => void>();
  private readonly onEnd = new Set<() => void>();
  private clock = 0;
  private before = 0;
  private ticking = 0;

  /** Shows another recording from its start. */
  load(recording: Recording, play: boolean): void {
    this.recording = recording;
    this.frame = 0;
    this.world = Math.min(this.world, recording.worlds - 1);
    if (this.agent !== null && this.agent >= recording.agents.length) this.agent = null;
    this.pause();
    if (play) this.play();
  }

  get last(): number {
    return this.recording ? this.recording.frames - 1 : 0;
  }

  play(): void {
    if (!this.recording || this.playing) return;
    if (this.frame >= this.last) this.frame = 0;
    this.playing = true;
    this.before = performance.now();
    this.clock = this.frame;
    const tick = (now: number): void => {
      if (!this.playing || !this.recording) return;
      this.clock += (Math.max(0, now - this.before) / 1000) * this.recording.answer.fps * this.speed;
      this.before = now;
      const frame = Math.min(Math.floor(this.clock), this.last); // a loop rests at the last frame
      if (frame !== this.frame) this.show(frame);
      if (frame >= this.last && !this.loop) {
        this.pause();
        return this.ended();
      }
      if (frame >= this.last && this.clock - this.last > PAUSE * this.recording.answer.fps * this.speed) {
        this.clock = 0;
        this.ended();
      }
      this.ticking = requestAnimationFrame(tick);
    };
    this.ticking = requestAnimationFrame(tick);
    this.changed();
  }

  pause(): void {
    this.playing = false;
    cancelAnimationFrame(this.ticking);
    this.changed();
  }

  toggle(): void {
    if (this.playing) this.pause();
    else this.play();
  }

  seek(frame: number): void {
    const next = Math.max(0, Math.min(frame, this.last));
    this.clock = next;
    this.show(next);
  }

  step(by: number): void {
    this.pause();
    this.seek(this.frame + by);
  }

  faster(by: number): void {
    const at = SPEEDS.indexOf(this.speed);
    this.set({ speed: SPEEDS[Math.max(0, Math.min(at + by, SPEEDS.length - 1))] });
  }

  /** The next agent, or with -1 the one before. */
  cycle(by: number): void {
    const count = this.recording?.agents.length ?? 0;
    if (!count) return;
    this.set({ agent: this.agent === null ? (by > 0 ? 0 : count - 1) : (this.agent + by + count) % count });
  }

  set(values: Partial<Pick<Player, "speed" | "trails" | "loop" | "world" | "tiles" | "agent">>): void {
    Object.assign(this, values);
    this.changed();
  }

  /** Calls back on every frame that is shown; returns what stops it. */
  frames(call: () => void): () => void {
    this.onFrame.add(call);
    return () => this.onFrame.delete(call);
  }

  /** Calls back when anything but the frame changes; returns what stops it. */
  changes(call: () => void): () => void {
    this.onChange.add(call);
    return () => this.onChange.delete(call);
  }

  private ended(): void {
    for (const call of this.onEnd) call();
  }

  /** Calls back at the end of an episode, also when a loop starts again; returns what stops it. */
  ends(call: () => void): () => void {
    this.onEnd.add(call);
    return () => this.onEnd.delete(call);
  }

  private show(frame: number): void {
    this.frame = frame;
    for (const call of this.onFrame) call();
  }

  private changed(): void {
    for (const call of this.onChange) call();
    for (const call of this.onFrame) call();
  }
}

/** Renders a component again when the player changes; with `frames` also as frames go by, some times a second. */
export function usePlayer(player: Player, frames = false): void {
  const [, render] = useReducer<number, void>((count) => count + 1, 0);
  useEffect(() => {
    const stop = player.changes(() => render());
    if (!frames) return stop;
    let waiting = 0;
    const later = player.frames(() => {
      waiting ||= window.setTimeout(() => {
        waiting = 0;
        render();
      }, player.playing ? TABLES : 0);
    });
    return () => {
      stop();
      later();
      clearTimeout(waiting);
    };
  }, [player, frames]);
}

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Painter, aspect, grid } from "./paint";
import { type Player, SPEEDS, usePlayer } from "./player";
import { property, useDark } from "./theme";

/** The canvas with the rollout and what moves it. */
export function Stage({ player, busy, told }: { player: Player; busy: boolean; told: string | null }) {
  usePlayer(player);
  const { recording } = player;
  return (
    <div class="stage">
      <div class="screen" aria-busy={busy}>
        <Canvas player={player} />
        {told !== null && (
          <p class="notice" role="status">
            {told}
          </p>
        )}
      </div>
      <Transport player={player} />
      <div class="row options">
        <label>
          World
          <select
            value={player.tiles ? "all" : String(player.world)}
            disabled={!recording}
            onChange={({ currentTarget: { value } }) => choose(player, value)}
          >
            {(recording?.worlds ?? 0) > 1 && <option value="all">all, tiled</option>}
            {Array.from({ length: recording?.worlds ?? 0 }, (_, world) => (
              <option value={String(world)}>{world + 1}</option>
            ))}
          </select>
        </label>
        <label>
          Speed
          <select value={String(player.speed)} onChange={(event) => player.set({ speed: Number(event.currentTarget.value) })}>
            {SPEEDS.map((speed) => (
              <option value={String(speed)}>{speed} ×</option>
            ))}
          </select>
        </label>
        <label class="check">
          <input
            type="checkbox"
            checked={player.trails}
            onChange={(event) => player.set({ trails: event.currentTarget.checked })}
          />
          Trails
        </label>
        <label class="check">
          <input type="checkbox" checked={player.loop} onChange={(event) => player.set({ loop: event.currentTarget.checked })} />
          Loop
        </label>
        {recording?.answer.complete.includes(false) && (
          <span class="soft">cut after {recording.answer.steps} steps</span>
        )}
      </div>
    </div>
  );
}

function choose(player: Player, value: string): void {
  if (value === "all") player.set({ tiles: true });
  else player.set({ tiles: false, world: Number(value) });
}

export function Canvas({ player }: { player: Player }) {
  const ref = useRef<HTMLCanvasElement>(null);
  const dark = useDark();
  const { recording } = player;

  useLayoutEffect(() => {
    const canvas = ref.current;
    if (!canvas || !recording) return;
    const painter = new Painter(canvas);
    painters.set(canvas, painter);
    const accent = property("--mark");
    let asked = 0;
    const paint = (): void => {
      asked = 0;
      painter.paint(recording, player, accent);
    };
    // However many changes there are, a frame of the screen is painted once.
    const ask = (): void => {
      asked ||= requestAnimationFrame(paint);
    };
    const fit = (): void => {
      const proportions = aspect(recording);
      const most = Math.max(260, window.innerHeight * 0.62);
      const width = canvas.parentElement?.clientWidth ?? 600;
      const { columns, rows } = grid(player.tiles ? recording.worlds : 1, proportions, width, most);
      canvas.style.height = `${Math.round(Math.min(most, ((width / columns) * rows) / proportions))}px`;
      ask();
    };
    const stop = [player.frames(ask), player.changes(fit)];
    const watch = new ResizeObserver(fit);
    watch.observe(canvas.parentElement as Element);
    fit();
    return () => {
      for (const each of stop) each();
      watch.disconnect();
      cancelAnimationFrame(asked);
    };
  }, [player, recording, dark]);

  const click = (event: MouseEvent): void => {
    const canvas = ref.current;
    if (!canvas || !recording) return;
    const found = painters.get(canvas)?.pick(recording, player.frame, event.offsetX, event.offsetY);
    if (found) player.set({ world: found.world, agent: found.agent ?? player.agent });
  };
  return (
    <canvas
      ref={ref}
      role="img"
      aria-label={recording ? `Rollout of ${recording.answer.env_id}` : "No rollout"}
      onClick={click}
      onDblClick={() => player.set({ tiles: !player.tiles })}
    />
  );
}

const painters = new WeakMap<HTMLCanvasElement, Painter>();

function Transport({ player }: { player: Player }) {
  const range = useRef<HTMLInputElement>(null);
  const count = useRef<HTMLOutputElement>(null);
  const { recording, playing } = player;
  useEffect(() => {
    const follow = (): void => {
      if (!range.current || !count.current) return;
      const text = recording ? `${player.frame} / ${player.last}` : "–";
      range.current.value = String(player.frame);
      range.current.setAttribute("aria-valuetext", `step ${player.frame} of ${player.last}`);
      range.current.style.setProperty("--done", `${(100 * player.frame) / Math.max(1, player.last)}%`);
      count.current.value = text;
    };
    follow();
    return player.frames(follow);
  }, [player, recording]);
  return (
    <div class="row transport" role="group" aria-label="Playback">
      <Icon name="Back to the start" path="M5 4v12M16 4 7 10l9 6z" off={!recording} act={() => player.seek(0)} />
      <Icon name="Step back" path="M13 4 6 10l7 6z" off={!recording} act={() => player.step(-1)} />
      <Icon
        name={playing ? "Pause" : "Play"}
        path={playing ? "M5.5 3.5h3v13h-3zM11.5 3.5h3v13h-3z" : "M5 3l12 7-12 7z"}
        off={!recording}
        act={() => player.toggle()}
        main
      />
      <Icon name="Step forward" path="m7 4 7 6-7 6z" off={!recording} act={() => player.step(1)} />
      <input
        ref={range}
        type="range"
        min={0}
        max={player.last}
        step={1}
        disabled={!recording}
        aria-label="Step"
        onInput={(event) => {
          const frame = event.currentTarget.valueAsNumber;
          if (player.playing) player.pause();
          player.seek(frame);
        }}
      />
      <output ref={count} class="count" aria-live="off" />
    </div>
  );
}

function Icon(props: { name: string; path: string; off: boolean; act: () => void; main?: boolean }) {
  return (
    <button
      type="button"
      class={props.main ? "icon main" : "icon"}
      aria-label={props.name}
      title={props.name}
      disabled={props.off}
      onClick={props.act}
    >
      <svg viewBox="0 0 20 20" aria-hidden="true">
        <path d={props.path} />
      </svg>
    </button>
  );
}

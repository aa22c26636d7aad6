import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Game, Source, Turn } from "./api";
import { Inspector } from "./inspector";
import { Player } from "./player";
import { Recording } from "./recording";
import { Canvas } from "./stage";
import { fixed } from "./text";

const ARROWS: [RegExp, string][] = [
  [/\b(left|west)\b|^-x/, "ArrowLeft"],
  [/\b(right|east)\b|^\+x/, "ArrowRight"],
  [/\b(up|north)\b|^\+y/, "ArrowUp"],
  [/\b(down|south)\b|^-y/, "ArrowDown"],
];
const IDLE = /^(nothing|none|no-?op|stay|wait)\b/;
const SPARE = "1234567890qwertyuiopasdfghjklzxcvbnm";
const SIGNS: Record<string, string> = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", " ": "Space" };

/** What a key does: it sets a component of the action to a value. */
interface Control {
  key: string;
  name: string;
  part: number;
  value: number;
}

/** A person acts for one agent of one world; the server plays the others (league/watch/play.py). */
export function Play({ source, game }: { source: Source; game: Game }) {
  const player = useMemo(() => {
    const viewer = new Player();
    viewer.set({ agent: game.agents.indexOf(game.agent) });
    return viewer;
  }, [game]);
  const controls = useMemo(() => controlsOf(game), [game]);
  const [turn, setTurn] = useState<Turn | null>(null);
  const [trouble, setTrouble] = useState<string | null>(null);
  const [moving, setMoving] = useState(game.realtime);
  const [started, setStarted] = useState(false); // a world that does not wait begins with the first key
  const [visible, setVisible] = useState(true);
  const chosen = useRef<number[]>([]); // choices of a discrete action, by component
  const held = useRef(new Set<Control>()); // keys that are down
  const asking = useRef(false);
  const [, refresh] = useState(0);

  const ask = useCallback(
    async (query: string): Promise<void> => {
      if (asking.current) return;
      asking.current = true;
      try {
        const next = await source.get<Turn>(`api/turn${query}`);
        const recording = new Recording(next);
        player.load(recording, false);
        player.seek(Math.min(1, player.last)); // the person's step at once, those of others at their pace
        if (player.last > 1) player.play();
        setTurn(next);
        setTrouble(null);
      } catch (error) {
        setTrouble(error instanceof Error ? error.message : String(error));
      }
      asking.current = false;
    },
    [source, player],
  );
  useEffect(() => void ask(""), [ask]);

  const act = useCallback(
    (control?: Control): void => {
      if (!turn || turn.over) return;
      const pressed = new Set(held.current);
      if (control) pressed.add(control);
      const idle = moving && (game.choices ?? []).length === 1;
      const action = game.parts ? forces(game, pressed) : choices(game, controls, chosen.current, pressed, turn, idle);
      void ask(`?turn=${turn.turn}&action=${action.join(",")}`);
    },
    [ask, turn, game, controls, moving],
  );
  const restart = (): void => {
    setStarted(false);
    if (turn) void ask(`?turn=${turn.turn}&action=new`);
  };
  const press = (control: Control): void => {
    if (game.choices) chosen.current[control.part] = control.value;
    refresh((count) => count + 1);
    setStarted(true);
    if (!moving && (game.parts || game.choices?.length === 1)) act(control);
  };

  useEffect(() => {
    if (!moving || !started) return;
    const timer = window.setInterval(() => act(), 1000 / game.fps);
    return () => clearInterval(timer);
  }, [moving, started, act, game]);
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const control = controls.find(({ key }) => key === event.key);
      if (event.key === "Enter") turn?.over ? restart() : act();
      else if (control && legal(turn, control)) {
        held.current.add(control);
        if (!event.repeat) press(control);
      } else return;
      event.preventDefault();
    };
    const onKeyUp = (event: KeyboardEvent): void => {
      for (const control of held.current) if (control.key === event.key) held.current.delete(control);
    };
    document.addEventListener("keydown", onKeyDown);
    document.addEventListener("keyup", onKeyUp);
    const release = (): void => held.current.clear(); // no keyup comes while another window has the focus
    window.addEventListener("blur", release);
    return () => {
      window.removeEventListener("blur", release);
      document.removeEventListener("keydown", onKeyDown);
      document.removeEventListener("keyup", onKeyUp);
    };
  });

  const state = turn?.over ? "The episode is over: Enter starts a new one." : moving && !started ? "Any key starts." : "Your move.";
  const hasParts = (game.choices?.length ?? 0) > 1; // the action has several components
  return (
    <>
      <header>
        <h1>{game.env_id}</h1>
        <p>
          You are <b>{game.agent}</b>, with {game.opponents}.
        </p>
        <p class="state still" role="status">
          {trouble ?? state}
        </p>
      </header>
      <main>
        <div class="left short">
          <section class="panel" aria-labelledby="world">
            <h2 id="world">World</h2>
            {visible && (
              <div class="stage">
                <div class="screen">
                  <Canvas player={player} />
                </div>
              </div>
            )}
            <div class="row options">
              <label class="check">
                <input type="checkbox" checked={moving} onChange={(event) => setMoving(event.currentTarget.checked)} />
                The world does not wait
              </label>
              <label class="check">
                <input type="checkbox" checked={visible} onChange={(event) => setVisible(event.currentTarget.checked)} />
                Picture, which shows what is hidden from agents
              </label>
            </div>
          </section>
        </div>
        <div class="right">
          <section class="panel" aria-labelledby="actions">
            <h2 id="actions">
              Actions <small>return {fixed(turn?.returns?.[player.agent ?? 0] ?? 0, 2)}</small>
            </h2>
            {(game.choices ?? [[]]).map((_, part) => (
              <div class="row">
                {controls
                  .filter((control) => !game.choices || control.part === part)
                  .map((control) => (
                    <button
                      type="button"
                      disabled={!legal(turn, control)}
                      aria-pressed={hasParts && chosen.current[part] === control.value}
                      onPointerDown={() => held.current.add(control)}
                      onPointerUp={() => held.current.delete(control)}
                      onPointerLeave={() => held.current.delete(control)}
                      onClick={(event) => {
                        event.currentTarget.blur(); // keys are for the world
                        press(control);
                      }}
                    >
                      {control.key && <kbd>{SIGNS[control.key] ?? control.key}</kbd>}
                      {control.name}
                    </button>
                  ))}
              </div>
            ))}
            <div class="row">
              <button type="button" class="main" onClick={turn?.over ? restart : () => act()}>
                <kbd>Enter</kbd>
                {turn?.over ? "New episode" : "Next step"}
              </button>
              {!turn?.over && (
                <button type="button" onClick={restart}>
                  New episode
                </button>
              )}
            </div>
          </section>
          <Inspector player={player} />
        </div>
      </main>
    </>
  );
}

/** Keys and names of all actions: arrows for directions, Space for doing nothing, digits and letters for others. */
function controlsOf(game: Game): Control[] {
  const parts = game.parts ?? [];
  const actions: Omit<Control, "key">[] = (game.choices ?? []).flatMap((names, part) => names.map((name, value) => ({ name, part, value })));
  for (const [part, { name, low, high }] of parts.entries()) {
    if (low < 0) actions.push({ name: `${name} −`, part, value: low });
    actions.push({ name: low < 0 ? `${name} +` : name, part, value: high });
  }
  const keys = new Set<string>();
  const claim = (key: string | undefined): string => {
    if (!key || keys.has(key)) return "";
    keys.add(key);
    return key;
  };
  const controls = actions.map((control) => {
    const text = control.name.toLowerCase();
    const arrows = ARROWS.filter(([pattern]) => pattern.test(text));
    return { ...control, key: claim(IDLE.test(text) ? " " : arrows.length === 1 ? arrows[0][1] : undefined) };
  });
  if (parts.length && !keys.size) {
    const pairs = ["ArrowLeft", "ArrowRight", "ArrowDown", "ArrowUp"];
    for (const control of controls.slice(0, 4)) control.key = claim(pairs.shift());
  }
  for (const control of controls) control.key ||= claim([...SPARE].find((key) => !keys.has(key)));
  return controls;
}

function legal(turn: Turn | null, { part, value }: Control): boolean {
  return turn !== null && !turn.over && (turn.legal?.[part]?.[value] ?? true);
}

/** Components of a continuous action: the values of the keys that are down, else 0 or what is nearest to it. */
function forces(game: Game, held: ReadonlySet<Control>): number[] {
  return (game.parts ?? []).map(({ low, high }, part) => {
    const pressed = [...held].filter((control) => control.part === part);
    return Math.max(low, Math.min(high, pressed.reduce((sum, control) => sum + control.value, 0)));
  });
}

/** Choices of a discrete action: of keys that are down, else the idle one if `idles`, else the last ones. */
function choices(game: Game, controls: Control[], last: number[], held: ReadonlySet<Control>, turn: Turn, idles: boolean): number[] {
  return (game.choices ?? []).map((_, part) => {
    const options = controls.filter((control) => control.part === part && legal(turn, control));
    const idle = options.find((control) => IDLE.test(control.name.toLowerCase()));
    const repeated = options.find((control) => control.value === last[part]);
    const pressed = options.find((control) => held.has(control));
    return (pressed ?? (idles ? (idle ?? repeated) : (repeated ?? idle)) ?? options[0])?.value ?? 0;
  });
}

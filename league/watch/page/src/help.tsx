import { useEffect, useRef, useState } from "preact/hooks";
import type { Player } from "./player";

const KEYS: [string, string][] = [
  ["Space", "play and pause"],
  ["← →", "step back, step forward"],
  ["Home End", "first frame, last frame"],
  ["− +", "slower, faster"],
  ["[ ]", "previous agent, next agent"],
  ["0", "all worlds, or one"],
  ["1 … 9", "world 1 to 9"],
  ["T", "trails on and off"],
  ["?", "this help"],
];
const STORED = "gpu-envs watch: keys";

/** Keyboard shortcuts and their list. They can be turned off, for example with speech input. */
export function Help({ player }: { player: Player }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [on, setOn] = useState(stored);
  useEffect(() => {
    if (!on) return;
    const listen = (event: KeyboardEvent): void => {
      if (press(player, event, dialog.current)) event.preventDefault();
    };
    document.addEventListener("keydown", listen);
    return () => document.removeEventListener("keydown", listen);
  }, [player, on]);
  return (
    <>
      <button type="button" onClick={() => dialog.current?.showModal()}>
        Help
      </button>
      <dialog ref={dialog} aria-labelledby="help">
        <h2 id="help">Keys</h2>
        <table>
          <tbody>
            {KEYS.map(([keys, does]) => (
              <tr>
                <th scope="row">
                  {keys.split(" ").map((key) => (
                    <kbd>{key}</kbd>
                  ))}
                </th>
                <td>{does}</td>
              </tr>
            ))}
          </tbody>
        </table>
        <p>
          In the payoffs, the lineage, the curves and the list of agents, arrow keys select the next item. Enter on a
          payoff simulates its match. A click on the canvas chooses an agent, a double click shows its world alone.
        </p>
        <div class="row">
          <label class="check">
            <input
              type="checkbox"
              checked={on}
              onChange={(event) => {
                setOn(event.currentTarget.checked);
                store(event.currentTarget.checked);
              }}
            />
            Use these keys
          </label>
          <form method="dialog">
            <button type="submit">Close</button>
          </form>
        </div>
      </dialog>
    </>
  );
}

/** Does what a key stands for; false where it belongs to what has the focus. */
function press(player: Player, event: KeyboardEvent, help: HTMLDialogElement | null): boolean {
  const target = event.target instanceof Element ? event.target : document.body;
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || help?.open) return false;
  if (target.closest("select, textarea, input:not([type=range], [type=checkbox])")) return false;
  const { key } = event;
  if (key === " " && target.closest("button, summary, input, [role=button], [role=gridcell]")) return false;
  if (/^(Arrow|Home|End)/.test(key) && target.closest("[data-arrows], input")) return false;
  const world = Number(key);
  if (key === " ") player.toggle();
  else if (key === "ArrowLeft") player.step(-1);
  else if (key === "ArrowRight") player.step(1);
  else if (key === "Home") player.seek(0);
  else if (key === "End") player.seek(player.last);
  else if (key === "-") player.faster(-1);
  else if (key === "+" || key === "=") player.faster(1);
  else if (key === "[") player.cycle(-1);
  else if (key === "]") player.cycle(1);
  else if (key === "t" || key === "T") player.set({ trails: !player.trails });
  else if (key === "0") player.set({ tiles: !player.tiles });
  else if (world >= 1 && world <= (player.recording?.worlds ?? 0)) player.set({ world: world - 1, tiles: false });
  else if (key === "?") help?.showModal();
  else return false;
  return true;
}

// A page opened from a file may have no storage.
function stored(): boolean {
  try {
    return localStorage.getItem(STORED) !== "off";
  } catch {
    return true;
  }
}

function store(on: boolean): void {
  try {
    localStorage.setItem(STORED, on ? "on" : "off");
  } catch {
    return;
  }
}

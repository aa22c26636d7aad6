import { render } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Game, type Rollout, type Run, Source, hasRuns, rolloutPath } from "./api";
import { Curves } from "./curves";
import { ExperimentPage } from "./experiment";
import { Head, type Trail } from "./head";
import { Inspector } from "./inspector";
import { Lineage } from "./lineage";
import { type Chosen, Match, type Slot, named } from "./match";
import { Measures } from "./measures";
import { Payoffs, same } from "./payoffs";
import { Play } from "./play";
import { Player } from "./player";
import { playersOf } from "./players";
import { Recording } from "./recording";
import { Stage } from "./stage";
import { Tables } from "./tables";
import { roleColor } from "./theme";
import { type Told, useRun } from "./told";
import "./style.css";

const still = matchMedia("(prefers-reduced-motion: reduce)");
const narrow = matchMedia("(max-width: 720px)");

function App({ source, trail }: { source: Source; trail: Trail }) {
  const player = useMemo(() => {
    const made = new Player();
    if (narrow.matches) made.set({ tiles: false }); // one world first
    return made;
  }, []);
  const { told, lost } = useRun(source);
  const [chosen, choose] = useState<Chosen>({ policies: [], seed: 0, worlds: 4 });
  const [shown, setShown] = useState<string[]>([]);
  const [busy, setBusy] = useState(false);
  const [trouble, setTrouble] = useState<string | null>(null);
  const [followed, setFollow] = useState<boolean | null>(null); // null: while the run is live
  const wanted = useRef("");
  const [quiet, setQuiet] = useState(false); // nothing covers the picture while the next rollout is awaited
  const wasLive = useRef(false); // so that the last policies of a run that ends are shown, too
  const asked = useRef<AbortController | null>(null);
  const stage = useRef<HTMLElement>(null);
  const left = useRef<HTMLDivElement>(null);
  const slots = useMemo(() => (told ? slotsOf(told) : []), [told]);
  const signs = useMemo(
    () => playersOf(told?.league?.lineage ?? [], told?.run.roles ?? [], told?.run.colors ?? {}),
    [told],
  );
  const tables = useMemo(() => told?.league && <Tables tables={told.league.tables} />, [told]);
  const [summary, others] = useMemo(() => {
    const all = told?.league?.tables ?? [];
    return [<Tables tables={all.slice(0, 1)} />, all.length > 1 && <Tables tables={all.slice(1)} first={1} />];
  }, [told]);

  const load = useCallback(
    async (next: Chosen, path: string) => {
      asked.current?.abort();
      const asking = (asked.current = new AbortController());
      choose(next);
      setBusy(true);
      setTrouble(null);
      try {
        const recording = new Recording(await source.get<Rollout>(path, asking.signal));
        player.load(recording, player.playing || !still.matches);
        setShown(recording.answer.seats.map((seat) => seat.policy));
      } catch (error) {
        if (asking.signal.aborted) return;
        setTrouble(error instanceof Error ? error.message : String(error));
      }
      if (asked.current !== asking) return;
      setBusy(false);
      setQuiet(false);
    },
    [source, player],
  );
  const play = useCallback(
    (next: Chosen) => {
      const policies = named(next, slots);
      const path = source.live
        ? rolloutPath(policies, next.seed, next.worlds)
        : source.recorded.find((each) => same(each.policies, policies))?.path;
      if (path) void load(next, path);
    },
    [source, load, slots],
  );

  const live = source.live && told?.run.state === "running";
  wasLive.current ||= live;
  const follow = followed ?? wasLive.current;
  useEffect(() => {
    if (live) player.set({ loop: true });
  }, [live]);
  // Newer policies are shown at the end of an episode; a rollout that was paused stays.
  useEffect(() => {
    const next = (): void => {
      const latest = slots.map((slot, i) => chosen.policies[i] ?? slot.latest ?? "");
      if (!follow || !source.live || busy || !player.recording || latest.includes("") || same(latest, shown)) return;
      if (wanted.current === latest.join()) return; // it was asked for, and newer ones came
      wanted.current = latest.join();
      setQuiet(true);
      play(chosen);
    };
    if (!player.playing && (player.frame === 0 || player.frame >= player.last)) next();
    return player.ends(next);
  }, [follow, slots, busy, shown, chosen, play]);

  // The first rollout comes by itself; a run that has no policy yet is asked again when it has grown.
  const version = told?.run.version;
  useEffect(() => {
    if (!told || player.recording || busy) return;
    if (source.live) play(chosen);
    else if (source.recorded.length) play({ ...chosen, policies: source.recorded[0].policies });
    else setTrouble("This file contains no rollout.");
  }, [version]);

  useEffect(() => {
    const column = left.current;
    if (!column) return;
    const watch = new ResizeObserver(() => column.style.setProperty("--height", `${column.offsetHeight}px`));
    watch.observe(column);
    return () => watch.disconnect();
  }, [told === null]);

  if (!told) return <p class="hello" role="status">{lost ?? "Loading the run …"}</p>;
  const { run, league, metrics } = told;
  const { seats } = run;
  const curveColors = Object.fromEntries([...Object.entries(run.colors), ...[...signs.values()].map(({ name, color }) => [name, color.slice(2)])]);
  const report = league !== null && !source.live && source.recorded.length === 0; // a file without rollouts
  return (
    <>
      <Head run={run} live={source.live} lost={lost} player={report ? null : player} trail={trail} />
      <main>
        <div ref={left} class={league ? "left" : "left short"}>
          {report ? (
            tables
          ) : (
            <section ref={stage} class="panel" aria-labelledby="rollout">
              <h2 id="rollout">
                Rollout <small>{run.env_id}</small>
              </h2>
              <Match {...{ source, slots, chosen, choose, play, busy, follow, setFollow }} />
              <Playing slots={slots} shown={shown} colors={run.colors} />
              <Stage player={player} busy={busy} told={trouble ?? (busy && !quiet ? "Simulating episodes …" : null)} />
            </section>
          )}
          {!report && <Inspector player={player} />}
          {league && (
            <div class="later">
              {metrics && <Curves metrics={metrics} colors={curveColors} />}
              {!report && summary}
            </div>
          )}
        </div>
        <div class="right">
          {league?.payoff && (
            <Payoffs
              seats={seats}
              policies={seats.map((seat) => run.policies[seat.role] ?? [])}
              payoff={league.payoff}
              colors={run.colors}
              current={shown}
              playable={(policies) => source.live || source.recorded.some((each) => same(each.policies, policies))}
              play={(policies) => {
                play({ ...chosen, policies });
                stage.current?.scrollIntoView({ block: "nearest" });
              }}
            />
          )}
          {league && metrics && <Measures league={league} metrics={metrics} run={run} signs={signs} />}
          {league && league.lineage.length > 0 && (
            <Lineage
              lineage={league.lineage}
              roles={run.roles}
              players={signs}
              {...(source.live && {
                choose: ({ role, name }) =>
                  choose({ ...chosen, policies: slots.map((slot, i) => (slot.role === role ? name : (chosen.policies[i] ?? null))) }),
              })}
            />
          )}
          {!league && metrics && <Curves metrics={metrics} colors={run.colors} />}
        </div>
        {!report && others && <div class="wide">{others}</div>}
      </main>
    </>
  );
}

function slotsOf({ run }: Told): Slot[] {
  return run.seats.map((seat) => ({
    ...seat,
    names: run.policies[seat.role] ?? [],
    latest: run.latest[seat.role],
    mixture: run.mixture,
  }));
}

/** The policies of the rollout on the stage, by seat. */
function Playing({ slots, shown, colors }: { slots: Slot[]; shown: string[]; colors: Record<string, string> }) {
  if (!shown.length) return null;
  return (
    <p class="playing">
      {slots.map(({ name, role, latest, mixture }, i) => (
        <span>
          <i class="dot" style={{ background: `var(${roleColor(colors, colors[name] ? name : role, i)})` }} />
          {name}: <b>{shown[i] === mixture ? "final meta-strategy" : shown[i]}</b>
          {shown[i] === latest && shown[i] !== mixture && <span class="soft"> (latest)</span>}
        </span>
      ))}
    </p>
  );
}

/** The page of a run, of an experiment, or of a person who plays. The fragment of the URL names a run of an experiment. */
function Page({ source }: { source: Source }) {
  const [subject, setSubject] = useState<Run | Game | null>();
  const [fragment, setFragment] = useState(location.hash.slice(1));
  useEffect(() => void source.subject().then(setSubject, () => setSubject(null)), [source]); // a run is asked for again
  useEffect(() => {
    const follow = (): void => setFragment(location.hash.slice(1));
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  const run = useMemo(() => (source.live ? new Source(document, `api/${fragment}/`) : source), [source, fragment]);
  if (subject === undefined) return null;
  if (subject?.kind === "play") return <Play source={source} game={subject} />;
  if (!subject || !hasRuns(subject)) return <App source={source} trail={[]} />;
  if (!fragment) return <ExperimentPage source={source} />;
  return <App key={fragment} source={run} trail={[subject.name, ...fragment.split("/").slice(1, -1)]} />;
}

document.getElementById("report")?.remove(); // its tables as HTML, for browsers without JavaScript
const page = document.getElementById("app");
if (page) render(<Page source={new Source(document)} />, page);

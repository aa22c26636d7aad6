import { useEffect, useState } from "preact/hooks";
import { type Experiment, type League, type Metrics, type Run, type Source, hasRuns } from "./api";

const POLL = 2000; // a run that is still written is asked about this often [ms]

/** Answers about a run or an experiment that belong together. */
export interface Told {
  run: Run;
  metrics: Metrics | null;
  league: League | null;
  experiment: Experiment | null;
}

/** The run's answers; asked for again as long as the page is open, and read again when its files have changed. */
export function useRun(source: Source): { told: Told | null; lost: string | null } {
  const [told, setTold] = useState<Told | null>(null);
  const [lost, setLost] = useState<string | null>(null);
  useEffect(() => {
    let known: Run | null = null;
    let timer = 0;
    const look = async (): Promise<void> => {
      let wait = POLL;
      try {
        const run = document.hidden && known ? known : await source.run();
        if (run.version !== known?.version || run.writing !== known.writing) {
          const [metrics, league, experiment] = await Promise.all([
            hasRuns(run) ? null : source.get<Metrics>("api/metrics"),
            run.kind === "league" ? source.get<League>("api/league") : null,
            hasRuns(run) ? source.get<Experiment>("api/experiment") : null,
          ]);
          if ([metrics, league, experiment].every((each) => !each || each.version === run.version)) {
            known = run;
            setTold({ run, metrics, league, experiment });
          } else {
            wait = 100; // the run was read again between the answers: retry, so that they belong together
          }
        }
        setLost(run.problem);
      } catch (error) {
        setLost(error instanceof Error ? error.message : String(error));
      }
      if (source.live) timer = window.setTimeout(look, wait);
    };
    void look();
    return () => clearTimeout(timer);
  }, [source]);
  useEffect(() => {
    if (told) document.title = `${told.run.name} · gpu-envs`;
  }, [told?.run.name]);
  return { told, lost };
}

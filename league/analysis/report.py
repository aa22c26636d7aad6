"""What there is to say of a run: payoffs, ratings, exploitability, measures of its population, lineage and matches.

    report("runs/kuhn").text()

A run is read as it is now, while another process goes on with it, too. A measure that does not apply is left out, with
the reason in `Report.left_out`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from gpu_envs.errors import CheckpointError, ConfigError
from league import measures, ratings, solvers, tables
from league.evaluation import of_league, remembers
from league.executors import Executor
from league.exploit import exploit
from league.records import SUMMARY, check_strategy, finite
from league.run import sizes, table_of, training
from league.seating import LEARNER
from league.small import Small
from league.solvers import MetaStrategy
from league.standing import players_of
from league.store import Store, derived
from trainers.files import write_json
from trainers.logs import Progress

T = TypeVar("T")
FOLDER = "report"
"""In that of the run, where reports are written."""


@dataclass
class Report:
    """Plain data, JSON. Of numbers per seat the axes are as in the payoff table, (S, N_1, ..., N_S)."""

    run: str
    """Folder."""
    env_id: str
    """Id of the environment."""
    algorithm: str
    """Name, as `--algorithm` takes it."""
    seats: list[dict[str, Any]]
    """`name` and `role`."""
    finished: int | None
    """The last iteration that is over; None: none is."""
    policies: dict[str, list[dict[str, Any]]]
    """By role, oldest first: name, index, kind, player, parent (index), iteration, and what is known of weight, elo,
    alpharank, nash_average."""
    rated: dict[str, int]
    """By role: so many of the first policies have all their payoffs; the measures are of those."""
    payoffs: dict[str, Any]
    """`exact`, and as nested lists `mean` (S, ...), `half_width` (S, ...) of the 95 % interval, `count` and, where
    episodes were played, `win_rate` (...) of the first seat."""
    iterations: list[dict[str, Any]]
    """`iteration`, `seconds`, `episodes`, `policies`, `strategy` (one list per seat); exact, None where the game is too
    large or the run has not found them out yet: `nash_conv`, `exploitability`, `best_so_far`; `population_gain`: what
    the seats gain by those policies of the run that are rated, a lower bound on NashConv, or of sampled payoffs an
    estimate of it, which the choice of the best makes too large; `population_gain_half_width`, half of its 95 %
    interval for that choice. None where none of them came later."""
    strategy: dict[str, Any] | None
    """The meta-strategy of the end: `iteration`, `solver`, `weights` (one list per seat), and whether it is
    `of_the_run` or, where a run has none, made here of the payoffs."""
    best: dict[str, Any] | None
    """The iteration whose meta-strategy was least exploitable, and its NashConv."""
    exploit: dict[str, Any] | None
    """What learned best responses gain against the meta-strategy of the end, see `league.exploit`."""
    measures: dict[str, float]
    """By name; of a role as "name/role"."""
    matches: dict[str, Any]
    """Episodes of training `by_role` and `by_kind` of whoever asked for them, and `by_pair` (who, whom, how many)."""
    left_out: dict[str, str]
    """By name: why there is no such number."""
    files: list[str] = field(default_factory=list)
    """What was written."""

    def to_json(self) -> dict[str, Any]:
        """All of it, None for what is no finite number."""
        return finite(dataclasses.asdict(self))

    def text(self, width: int | None = None) -> str:
        """Tables for a terminal; None: as wide as it is."""
        return tables.text(self, width)


def report(
    run: Store | Path | str,
    out: Path | str | None = None,
    exploit_steps: int = 0,
    exploit_seconds: float | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Report:
    """Reports on a run of PSRO or of a league, and writes report.html, report.json and pictures.

    Args:
        run: Its folder, which is opened to be read, or an open store.
        out: Folder to write to; None: RUN/report.
        exploit_steps: Steps of worlds from which each role learns a response to the meta-strategy of the end, with the
            run's settings; 0: none is learned.
        exploit_seconds: The training of each response stops then.
        progress: Called while responses are learned in this process.
        executor: Who trains and plays responses; None: this process.

    Raises:
        ConfigError: There is no run.
        CheckpointError: It is damaged.
    """
    if not isinstance(run, Store):
        with Store.open(run, write=False) as store:
            return report(store, out, exploit_steps, exploit_seconds, progress, executor)
    from league.page import write_pages  # pictures take a while to load

    made = Reading(run).report(exploit_steps, exploit_seconds, progress, executor)
    folder = run.path / FOLDER if out is None else Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    made.files = [str(path) for path in (*write_pages(made, folder), folder / "report.json")]
    write_json(folder / "report.json", made.to_json())
    return made


class Reading:
    """A run as it is now, and what can be made of it."""

    def __init__(self, store: Store) -> None:
        """Reads tables; policies only where the game is small enough to know them whole."""
        self.store, self.game = store, store.game
        self.rows = store.iterations(SUMMARY)
        for number, row in self.rows.items():
            if "meta_strategy" in row:
                most = [self.sizes(number)[seat.role] for seat in self.game.seats]
                check_strategy(f"{store.file}: iterations: summary of {number}", row, most)
        self.left_out: dict[str, str] = {}
        self.small = self._measure("exact NashConv", lambda: Small.of(self.game, required=True))
        self.exact = store.config.get("payoffs") == "exact" and self.small is not None
        self.table = table_of(store)
        self.payoffs = self.table.meta_game()
        if self.exact and self.small is not None and all(sizes(store).values()):
            self.payoffs = self.small.payoffs(store.populations)
        self.solver = "nash" if self.game.zero_sum and len(self.game.seats) == 2 else "prd"
        self.last = max((n for n in self.rows if self._complete(self.sizes(n))), default=None)
        self.strategies = self._strategies()

    # ---------------------------------------------------------------- what is known at an iteration

    def sizes(self, iteration: int) -> dict[str, int]:
        """Policies by role that were there after an iteration."""
        return {
            role: sum(entry.iteration <= iteration for entry in population.entries)
            for role, population in self.store.populations.items()
        }

    def sub(self, sizes: Mapping[str, int], table: Tensor | None = None) -> Tensor:
        """(S, n_1, ..., n_S) of payoffs, or of another table, of the first policies."""
        return (self.payoffs if table is None else table)[
            (slice(None), *(slice(sizes[seat.role]) for seat in self.game.seats))
        ]

    def _complete(self, sizes: Mapping[str, int]) -> bool:
        return all(sizes.values()) and bool(self.sub(sizes).isfinite().all())

    def _strategies(self) -> dict[int, tuple[Tensor, ...]]:
        """By iteration: the run's own meta-strategies; of runs that have none, equilibria of the policies then."""
        found: dict[int, tuple[Tensor, ...]] = {}
        for number, row in self.rows.items():
            if "meta_strategy" in row:
                found[number] = tuple(torch.tensor(each, dtype=torch.float64) for each in row["meta_strategy"])
            elif self.last is not None and number <= self.last:
                before = found.get(number - 1)
                sizes = self.sizes(number)
                if before is not None and all(
                    len(each) == sizes[seat.role] for each, seat in zip(before, self.game.seats, strict=True)
                ):
                    found[number] = before
                else:
                    found[number] = self._solved(self.sub(sizes))
        return found

    def _solved(self, payoffs: Tensor) -> tuple[Tensor, ...]:
        if self.solver == "prd":  # steps suit payoffs of any unit, and are few enough for every iteration
            axes = tuple(range(1, payoffs.dim()))
            least, most = payoffs.amin(axes, keepdim=True), payoffs.amax(axes, keepdim=True)
            scaled = (payoffs - least) / (most - least).clamp(min=1e-12)
            strategy = solvers.solve("prd", scaled, iterations=10_000, dt=0.01)
        else:
            strategy = solvers.solve(self.solver, payoffs)
        if not self.game.shared:
            return strategy.marginals
        by_role = solvers.by_role(strategy, self.game)
        return tuple(by_role[seat.role] for seat in self.game.seats)

    # ---------------------------------------------------------------- all of it

    def report(
        self,
        exploit_steps: int,
        exploit_seconds: float | None,
        progress: Progress | None,
        executor: Executor | None,
    ) -> Report:
        """The report."""
        store, game = self.store, self.game
        rated = self.sizes(self.last) if self.last is not None else dict.fromkeys(game.roles, 0)
        if self.last is None:
            played = "no iteration is over yet" if not self.rows else "the payoff table is not played yet"
            self.left_out["ratings and measures"] = played
        elif rated != sizes(store):
            self.left_out["measures of the last policies"] = "their payoffs are not all played yet"
        if len(game.seats) != 2:
            self.left_out["picture of payoffs"] = f"it is of two seats, here are {len(game.seats)}; see report.json"
        iterations = self._iterations()
        known = [row for row in iterations if row["nash_conv"] is not None]
        best = min(known, key=lambda row: (row["nash_conv"], -row["iteration"]), default=None)
        columns, values = ({}, {}) if self.last is None else (self._ratings(rated), self._measures(rated))
        end = max(self.strategies, default=None)
        if store.config.get("anytime"):
            chosen = [row["best_iteration"] for row in self.rows.values() if row.get("best_iteration") is not None]
            end = chosen[-1] if chosen else end
        strategy = None
        if end is not None:
            own = "meta_strategy" in self.rows[end]
            solver = store.config.get("meta_solver", "auto")
            weights = [each.tolist() for each in self.strategies[end]]
            solver = self.solver if not own or solver == "auto" else solver
            strategy = {"iteration": end, "solver": solver, "of_the_run": own, "weights": weights}
            for role in game.roles:
                columns.setdefault(role, {})["weight"] = weights[game.seats_of(role)[0]]
        return Report(
            run=str(store.path),
            env_id=game.env_id,
            algorithm=str(store.config.get("algorithm", "")),
            seats=[{"name": seat.name, "role": seat.role} for seat in game.seats],
            finished=max(self.rows, default=None),
            policies={role: self._policies(role, columns.get(role, {})) for role in game.roles},
            rated=rated,
            payoffs=self._payoffs(),
            iterations=iterations,
            strategy=strategy,
            best=None if best is None else {key: best[key] for key in ("iteration", "nash_conv", "exploitability")},
            exploit=self._exploit(end, exploit_steps, exploit_seconds, progress, executor),
            measures=values,
            matches=self._matches(),
            left_out=self.left_out,
        )

    def _measure(self, name: str, made: Callable[[], T]) -> T | None:
        """A number, or None and why there is none."""
        try:
            return made()
        except ConfigError as error:
            self.left_out[name] = str(error)
            return None

    def _policies(self, role: str, columns: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
        return [
            {
                "name": entry.name,
                "index": entry.index,
                "kind": entry.kind,
                "player": entry.meta.get("player"),
                "parent": entry.parent,
                "iteration": entry.iteration,
                **{key: values[entry.index] if entry.index < len(values) else None for key, values in columns.items()},
            }
            for entry in self.store.populations[role].entries
        ]

    def _payoffs(self) -> dict[str, Any]:
        if self.exact:
            zero = torch.zeros_like(self.payoffs)
            return {"exact": True, "mean": self.payoffs.tolist(), "half_width": zero.tolist(), "count": None}
        table = self.table
        found = {"exact": False, "mean": table.mean.tolist(), "half_width": table.half_width.tolist()}
        return {**found, "count": table.count.tolist(), "win_rate": table.win_rate().tolist()}

    def _iterations(self) -> list[dict[str, Any]]:
        """What is known of the meta-strategy of every iteration."""
        found, best, pending, evaluated = [], math.inf, [], self._evaluated()
        rated = {} if self.last is None else self.sizes(self.last)
        last = None if self.last is None else self.sub(rated)
        for number, row in self.rows.items():
            strategy, nash_conv = self.strategies.get(number), row.get("nash_conv")
            lower = wide_lower = None
            if strategy is not None:
                if nash_conv is None and evaluated:
                    pending.append(number)
                elif nash_conv is None:
                    nash_conv = self._nash_conv(strategy)
                if last is not None and self.sizes(number) != rated:  # none came since: nothing is known
                    wide = zip(strategy, last.shape[1:], strict=True)
                    padded = tuple(pad(each, (0, size - len(each))) for each, size in wide)
                    lower = solvers.nash_gap(last, MetaStrategy(padded))
                    wide_lower = self._spread(rated, padded)
            best = min(best, math.inf if nash_conv is None else nash_conv)
            found.append(
                {
                    "iteration": number,
                    "policies": self.sizes(number),
                    "strategy": None if strategy is None else [each.tolist() for each in strategy],
                    "nash_conv": nash_conv,
                    "exploitability": None if nash_conv is None else nash_conv / len(self.game.seats),
                    "best_so_far": None if nash_conv is None else best,
                    "population_gain": lower,
                    "population_gain_half_width": wide_lower,
                    "seconds": row.get("seconds"),
                    "episodes": _total(row.get("episodes")),
                }
            )
        if pending:
            self.left_out[f"NashConv from iteration {pending[0]} on"] = "pending: the run finds it out as it goes on"
        return found

    def _evaluated(self) -> bool:
        """Whether the run itself finds out NashConv, so that nobody else has to."""
        train = training(self.game, "cpu", self.store.config.get("train", {}))
        if self.small is None or remembers(train):
            return False
        if any("meta_strategy" in row for row in self.rows.values()):
            return True
        return of_league(self.game, train)

    def _nash_conv(self, strategy: tuple[Tensor, ...]) -> float | None:
        """Of a meta-strategy that nobody has evaluated."""
        small = self.small
        if small is None:
            return None
        return self._measure("exact NashConv", lambda: small.nash_conv(self.store.populations, strategy))

    def _spread(self, rated: Mapping[str, int], marginals: Sequence[Tensor]) -> float:
        """Half of the 95 % interval of what the best policies gain; the seats' errors add up, which is at least due."""
        if self.exact:
            return 0.0
        payoffs, half = self.sub(rated), self.sub(rated, self.table.half_width)
        own, total = solvers.product(marginals), 0.0
        for seat, values in enumerate(solvers.deviations(payoffs, marginals)):
            best = torch.zeros_like(values)
            best[values.argmax()] = 1.0
            change = solvers.product([*marginals[:seat], best, *marginals[seat + 1 :]]) - own
            total += float(torch.where(change == 0, 0.0, change * half[seat]).norm())
        return total

    def _exploit(
        self,
        end: int | None,
        steps: int,
        seconds: float | None,
        progress: Progress | None,
        executor: Executor | None,
    ) -> dict[str, Any] | None:
        """Learned responses to the meta-strategy of the end."""
        if not steps:
            return None
        if end is None:
            self.left_out["learned best responses"] = "there is no meta-strategy to respond to yet"
            return None
        config = self.store.config
        settings = {**config.get("train", {}), "total_steps": steps}
        train = training(self.game, config.get("device", "cpu"), settings)
        seed = derived(config.get("seed", 0), "report")
        marginals = self.strategies[end]
        found = exploit(
            self.game,
            self.store.populations,
            marginals,
            train,
            seconds,
            seed=seed,
            progress=progress,
            executor=executor,
        )
        told = {each.name: getattr(found, each.name) for each in dataclasses.fields(found) if each.name != "responses"}
        told["seats"] = [{**dataclasses.asdict(each), "gain": each.gain} for each in found.seats]
        return {**told, "exploitability": found.exploitability, "lower_bound": True}

    # ---------------------------------------------------------------- ratings and measures

    def _ratings(self, rated: Mapping[str, int]) -> dict[str, dict[str, list[float]]]:
        """By role and name of a rating, a number for each policy that is rated."""
        payoffs, columns = self.sub(rated), {role: {} for role in self.game.roles}
        found = {
            "elo": self._measure("Elo", lambda: self._elo(rated)),
            "alpharank": self._measure("alpha-rank", lambda: ratings.alpharank(payoffs)),
            "nash_average": self._measure("Nash averaging", lambda: ratings.nash_average(payoffs).ratings),
        }
        for name, by_seat in found.items():
            if by_seat is None:
                continue
            for role in self.game.roles:
                seats = self.game.seats_of(role)
                columns[role][name] = torch.stack([by_seat[seat] for seat in seats]).mean(0).tolist()
        return columns

    def _elo(self, rated: Mapping[str, int]) -> tuple[Tensor, ...]:
        """Per seat."""
        if len(self.game.seats) != 2:
            raise ConfigError(f"expected two seats, got {len(self.game.seats)}; see alpha-rank")
        if self.exact:
            raise ConfigError("no episodes were played, payoffs are exact; see alpha-rank and Nash averaging")
        first, second = (rated[seat.role] for seat in self.game.seats)
        score, count = (each[:first, :second] for each in (self.table.win_rate(), self.table.count))
        if self.game.shared:  # (i, j) and (j, i) are the same episodes
            rating = ratings.elo(score, count.triu(1))
            return rating, rating
        # two populations that meet only each other, also if they are of one size
        rating = ratings.elo(pad(score, (first, 0, 0, second)), pad(count, (first, 0, 0, second)))
        return rating[:first], rating[first:]

    def _measures(self, rated: Mapping[str, int]) -> dict[str, float]:
        payoffs, found = self.sub(rated), {}
        for role in self.game.roles:
            seat = self.game.seats_of(role)[0]
            table = payoffs[seat].movedim(seat, 0).flatten(1)
            value = self._measure("expected cardinality", lambda table=table: measures.expected_cardinality(table))
            if value is not None:
                found[f"expected_cardinality/{role}"] = value
        diversity = self._measure("effective diversity", lambda: measures.effective_diversity(self._shared(payoffs)))
        if diversity is not None:
            found["effective_diversity"] = diversity
        shape = self._measure("transitive and cyclic share", lambda: measures.shape(self._shared(payoffs)))
        if shape is not None:
            found |= {"transitive_share": shape.transitive_share, "cyclic_share": shape.cyclic_share}
        return found

    def _shared(self, payoffs: Tensor) -> Tensor:
        if not self.game.shared:
            raise ConfigError(f"one population has to play all seats, here {', '.join(self.game.roles)} have their own")
        return payoffs

    # ---------------------------------------------------------------- matches

    def _matches(self) -> dict[str, Any]:
        """Who trained against whom, by role, kinds and pair of whoever asked for the episodes."""
        roles: dict[str, int] = {}
        kinds: dict[str, int] = {}
        pairs: dict[tuple[str, str], int] = {}

        def note(role: str, kind: str, who: str, whom: str, count: int) -> None:
            roles[role] = roles.get(role, 0) + count
            kinds[kind] = kinds.get(kind, 0) + count
            pairs[who, whom] = pairs.get((who, whom), 0) + count

        for match in self.store.matches():
            others = [
                self.store.populations[seat.role].entries[index]
                for seat, index in zip(self.game.seats, match.matchup, strict=True)
                if index != LEARNER
            ]
            whom = " + ".join(entry.name for entry in others) or match.role
            kind = " + ".join(entry.kind for entry in others) or "self"
            note(match.role, f"learner - {kind}", f"{match.role}, iteration {match.iteration}", whom, match.count)
        players = {player.name: player for player in players_of(self.store)}
        for row in self.rows.values():
            for who, met in row.get("matches", {}).items():
                for whom, count in met.items():
                    if who not in players or whom not in players:
                        raise CheckpointError(f"{self.store.file}: iterations: matches: {who!r:.80}: no such players")
                    one, other = players[who], players[whom]
                    kind = f"{one.kind} - {'frozen ' if other.parent else ''}{other.kind}"
                    note(one.role, kind, who, whom, count)
        by_pair = [[*pair, count] for pair, count in pairs.items()]
        return {"by_role": roles, "by_kind": kinds, "by_pair": by_pair}


def _total(episodes: Any) -> int | None:
    """Of all players, where they are told apart."""
    return sum(episodes.values()) if isinstance(episodes, dict) else episodes

"""What the viewer's page asks, and what it is told: GET only, JSON.

    api/run         what the run is, and whether there is something new
        name, kind "training" | "league", env_id, env (settings), algorithm, config (as recorded)
        writing         it seems to go on; of an exported file False
        version         an integer that grows when there is something new: ask for the rest again then
        problem         null, or why the files of the run cannot be read again now; the rest is from before
        roles           names of populations; of a training, of its policies
        seats           [{name, role}]: a rollout has a policy for each, in this order
        policies        {role: [name]}, the latest last; of a training "random" and the names of checkpoints
        agents          [name], in the order of rows
        groups          {group: [name of an agent]}

    api/metrics     curves
        x               the column to draw the others over: "steps" of a training, "iteration" of a league
        columns, rows   a list per point, null where nothing was measured. "OWNER/QUANTITY", "eval/OWNER/QUANTITY" and
                        "time/PHASE" are columns of a training; "PLAYER/return" of a league
        every           points that each row is the mean of

    api/league      404 of a training
        roles, seats    as above
        payoff          null where it would be too large, else
            shape           [N_1, ..., N_S], policies of every seat
            mean            what each seat earns: a flat list per seat, the last seat's policies fastest; null: unknown
            half            half of the 95 % interval, likewise
            count           episodes, likewise; null where payoffs are exact
            exact           payoffs are no means of episodes
        ratings         [{role, name, iteration, kind, elo, alpharank, nash_average, weight}], null: not rated
        strategies      [{iteration, ROLE: [weight], ...}], weights of the policies there were then
        lineage         [{name, role, parent, iteration, kind, player}], parent null or the name of one of that role
        exploitability  [[iteration, value]], value null where the game is too large to know it
        measures        {name: value} of the populations
        left_out        {name: why} there is no such number

    api/rollout?policies=NAME,NAME&seed=0&worlds=4      one episode per world, played here and now
        policies        one per seat, percent-encoded; one alone: for all seats; none: the latest of every role
        seed            0 if not given
        worlds          1 to 16, 4 if not given; there may be fewer in the answer, see `rollouts.BUDGET`
      gives
        env_id, seed, version, agents, groups {group: [row]}, seats [{name, role, policy}]
        fps             frames per second that show it at a natural pace
        worlds W, steps T   of the longest episode; frame t is before step t, frame T is the end of all
        complete        [W], whether the episode was played to its end
        shapes          (T + 1, W, M, 10), rows as in `warp_kernels.raster`, painted in order
        places          (T + 1, W, A, 3) x, y, radius; NaN: not to be seen. null: no agent has a place
        obs             (T + 1, W, A, D), zeros behind the `obs_widths` of each agent. null: they would be too large
        alive           (T + 1, W, A), 1: acts in the step that follows
        action          (T, W, A) or (T, W, A, K), as played: the no-op of agents that had left
        reward          (T, W, A)
                        arrays are {shape, data}: base64 of little-endian float32, the last axis fastest. A world whose
                        episode is over stays as it was then
        bounds          [W][4] x_min, y_min, x_max, y_max, or [T + 1][W][4] where the picture moves
        background, surround, border, margin    see `gpu_envs.rendering.Scene`; colours are [r, g, b] in 0..1
        obs_names       {group: [{meaning, unit, entries}]}: the entries of an observation in order, in blocks that mean
                        the same, a name for each. By agent where those of a group differ; null: nobody has said them
        action_names    {group: [name]}, or [[name]] by component; empty: they have numbers only. null: as above, or
                        actions are continuous. See `gpu_envs.meanings`

metrics, league and rollout have the `version` of the run that they are of.

What is wrong is {"error": a line}: 404 for what is not there, 400 for a bad question, 403 for one without the token,
503 for a rollout that newer ones were asked for instead of, 500 where files cannot be read.

An exported file is the page with `<script type="application/json" id="recorded">{PATH: ANSWER, ...}</script>` before
the end of its body, by paths as above; those of rollouts are the ones that `rollout_path` makes.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, unquote

from gpu_envs.errors import ConfigError, GpuEnvsError
from league.records import finite
from league.watch.rollouts import MAX_WORLDS, Rollouts, record
from league.watch.source import Latest, Snapshot
from trainers.settings import SEEDS

WORLDS = 4
"""Of a rollout, if the question names no number."""


class NotThere(GpuEnvsError):
    """There is no answer to this, or nobody of this name."""


class Api:
    """Answers questions about a run."""

    def __init__(self, latest: Latest, rollouts: Rollouts) -> None:
        """Takes what is read, and who plays."""
        self.latest, self.rollouts = latest, rollouts

    def answer(self, name: str, query: str = "") -> bytes:
        """The answer to `api/NAME?QUERY`, JSON.

        Raises:
            NotThere: No such answer, or no policy of this name.
            ConfigError: A bad question.
            GpuEnvsError, OSError: A file is damaged, or has gone.
        """
        snapshot, version = self.latest.get()
        if name == "rollout":
            return self._rollout(snapshot, version, query)
        if name not in snapshot.answers:
            known = ", ".join((*snapshot.answers, "rollout"))
            raise NotThere(f"api/{repr(name)[1:-1]:.80}: there is no such answer of this run; there are {known}")
        return encoded(self.told(name, snapshot, version))

    def told(self, name: str, snapshot: Snapshot, version: int) -> dict[str, Any]:
        """An answer of a snapshot: of the run at this moment, of all others with the version."""
        return self.run(snapshot, version) if name == "run" else {**snapshot.answers[name], "version": version}

    def run(self, snapshot: Snapshot, version: int) -> dict[str, Any]:
        """What the run is, at this moment."""
        source = self.latest.source
        moment = {"writing": source.writing(), "version": version, "problem": self.latest.problem}
        return {"name": source.path.resolve().name, **snapshot.answers["run"], **moment}

    def _rollout(self, snapshot: Snapshot, version: int, query: str) -> bytes:
        pairs = [part.partition("=") for part in query.split("&") if part]
        given = {name: value for name, _, value in pairs}
        if unknown := given.keys() - {"policies", "seed", "worlds"}:
            raise ConfigError(f"api/rollout: no parameter {min(unknown)!r:.80}; there are policies, seed, worlds")
        if len(given) < len(pairs):
            raise ConfigError("api/rollout: expected every parameter once, got one of them twice")
        names = chosen(snapshot, [unquote(name) for name in given.get("policies", "").split(",") if name])
        seed = _number(given, "seed", 0, 0, SEEDS - 1)
        worlds = _number(given, "worlds", WORLDS, 1, MAX_WORLDS)

        def make() -> bytes:
            played = record(snapshot.stage, names, seed, worlds, stopped=self.rollouts.closed.is_set)
            return encoded({**played, "version": version})

        return self.rollouts.get((version, names, seed, worlds), make)


def chosen(snapshot: Snapshot, names: list[str]) -> tuple[str, ...]:
    """A policy for each seat; NotThere where there is none of a name, ConfigError where there are too few names."""
    seats = snapshot.stage.seats
    for seat in seats:
        if not snapshot.policies[seat.role]:
            raise NotThere(f"{seat.role}: there is no policy yet")
    names = names or [snapshot.policies[seat.role][-1] for seat in seats]
    names = names * len(seats) if len(names) == 1 else names
    if len(names) != len(seats):
        raise ConfigError(
            f"policies: expected one, or one for each of {', '.join(s.name for s in seats)}, got {len(names)}"
        )
    for seat, name in zip(seats, names, strict=True):
        if name not in snapshot.policies[seat.role]:
            raise NotThere(f"policies: {seat.name}: there is no policy {name!r:.80} of {seat.role}")
    return tuple(names)


def rollout_path(names: tuple[str, ...], seed: int, worlds: int) -> str:
    """The path of a rollout, as the page writes it (encodeURIComponent)."""
    policies = ",".join(quote(name, safe="!*'()") for name in names)
    return f"api/rollout?policies={policies}&seed={seed}&worlds={worlds}"


def encoded(answer: dict[str, Any]) -> bytes:
    """JSON, with null for numbers that are not finite."""
    try:
        text = json.dumps(answer, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(finite(answer), allow_nan=False, separators=(",", ":"))
    return text.encode()


def _number(given: dict[str, str], name: str, usual: int, least: int, most: int) -> int:
    text = given.get(name, str(usual))
    # the length first: int() refuses numbers of thousands of digits
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most):
        raise ConfigError(f"{name}: expected a whole number from {least} to {most}, got {text!r:.40}")
    return int(text)

"""Requests of the viewer's page and their JSON responses; GET only.

The answers are::

    api/run         the run and its version
        - name, kind "training" | "league" | "experiment" | "seeds", env_id, env (settings), algorithm
        - config: settings as recorded
        - writing: whether a process seems to write the run; false in an exported file
        - state: "running"; "finished": all iterations are complete; "stopped" before; "ended" before, by a goal or for
          lack of progress, or stopped
        - done, total: number of completed and of all iterations; of an experiment and of several seeds, of runs
        - version: integer that increases with every change; then the page requests the rest again
        - problem: null, or the reason why the files cannot be read; the other fields are then from the last reading
        - roles: names of populations; for a training, of its policies
        - seats: [{name, role}]: seats of a rollout, in the order of its policies
        - policies: {role: [name]}, the latest last; for a training "random" and the names of checkpoints
        - latest: {role: name}: policies that a rollout shows if it names none: the last checkpoint; of a league the
          last main agent, if it has such, and of PSRO the mixture; empty: there is no policy yet
        - mixture: null, or the name of a further policy of every role: the mixture of the final meta-strategy
        - colors: {name: color} of roles, seats and groups, see `gpu_envs.rendering.palette`
        - agents: [name], in the order of rows
        - groups: {group: [name of an agent]}
      an experiment has only name to problem, with the names of its environments and of its algorithms; so have several
      seeds of a training, kind "seeds"

    api/experiment  cells of an experiment, or the cell of several seeds; 404 for a run
        - tasks: {task: {score, threshold}}: name of the column that is the score; null: no threshold
        - cells: [{task, algorithm, curve, final, runs}]
            - curve: [[env_steps, mean, low, high]]: mean of the score over seeds and its 95 % interval at every
              evaluation of all seeds that have begun, see `trainers.experiments.statistics.mean_curve`
            - final: [mean, low, high] of the final scores, of several seeds the last ones; null: no run is complete.
              low and high are null for one run, also in curve
            - runs: [{name, seed, share, complete}]. share: of its steps; null: it has not begun. complete: trained and
              evaluated

    api/RUN/ANSWER  answer about a run of an experiment by its name, such as api/runs/tag/ppo/seed-0/metrics, or about
                    one of several seeds, such as api/seed-0/metrics

    api/metrics     curves
        - x: column of the horizontal axis: "env_steps" for a training, "iteration" for a league
        - columns, rows: a list per point, null without a measurement. "OWNER/QUANTITY", "eval/OWNER/QUANTITY" and
          "time/PHASE" are columns of a training; "PLAYER/return" of a league
        - every: number of points that each row is the mean of

    api/league      404 for a training
        - roles, seats: as in api/run
        - payoff: null if it is too large, else
            - shape: [N_1, ..., N_S], number of policies of every seat
            - mean: a flat list of payoffs per seat, the last seat's policies fastest; null: unknown
            - half: half of the 95 % interval, likewise
            - count: episodes, likewise; null if payoffs are exact
            - exact: whether payoffs are exact
        - ratings: [{role, name, iteration, kind, elo, alpharank, nash_average, weight}], null: not rated
        - strategies: [{iteration, ROLE: [weight], ...}], weights of the policies of that iteration
        - lineage: [{name, role, parent, iteration, kind, player, weight}], parent: null or a name of the same role;
          weight: in the final meta-strategy, null: unknown
        - exploitability: [[iteration, value]], value null if the game is too large
        - learned_responses: {iteration, nash_conv, half_width}: gain by best responses that a report learned; null:
          none
        - measures: {name: value} of the populations
        - left_out: {name: reason} for missing measures
        - tables: [{title, head, rows, numeric}]: tables of the report as text. head: names of the columns, empty for no
          header. rows: a list of cells per row. numeric: whether each column has numbers only

    api/rollout?policies=NAME,NAME&seed=0&worlds=4      one episode per world
        - policies: one per seat, percent-encoded; a single one for all seats; none, or "latest": the role's latest. The
          latest also replaces a checkpoint that the training has removed meanwhile
        - seed: default 0
        - worlds: 1 to 16, default 4; the response may have fewer, see `rollouts.BUDGET`
      returns
        - env_id, seed, version, agents, groups {group: [row]}, seats [{name, role, policy}]
        - fps: frames per second for display
        - worlds W, steps T: of the longest episode; frame t is before step t, frame T is the end
        - complete: [W], whether the episode ended
        - shapes: (T + 1, W, M, 10), rows as in `warp_kernels.drawing.rasterizer`, painted in order
        - places: (T + 1, W, A, 3) x, y, radius; NaN: invisible. null: agents have no places
        - obs: (T + 1, W, A, D), zeros after the `obs_widths` of each agent. null: they are too large
        - alive: (T + 1, W, A), 1: the agent acts in the next step
        - action: (T, W, A) or (T, W, A, K), with no-ops for agents that have left
        - reward: (T, W, A)
        - bounds: [W][4] x_min, y_min, x_max, y_max, or [T + 1][W][4] if the view moves
        - background, surround, border, margin: see `gpu_envs.rendering.scene.Scene`; colors are [r, g, b] in 0..1
        - obs_names: {group: [{meaning, unit, entries}]}: descriptions of an observation's blocks and entries, in
          order; by agent if the agents of a group differ; null: a vector that is not described
        - action_names: {group: [name]}, or [[name]] by component; empty: actions have numbers only. null: not
          described, or continuous. See `gpu_envs.descriptions`
        - action_parts: {group: [name]}: names of the components of continuous actions. null: not described, or discrete

    Arrays are {shape, data}: base64 of little-endian float32, the last axis fastest. A world keeps its last frame after
    its episode has ended.

metrics, league and rollout have the `version` of the run that they show.

Errors are {"error": a line}: 404 for an unknown answer or policy, 400 for an invalid request, 403 without the token,
503 for a rollout that was replaced by newer requests, 500 if files cannot be read.

An exported file is the page with `<script type="application/json" id="recorded">{PATH: ANSWER, ...}</script>` before
the end of its body. The paths are those above; rollouts have paths of `rollout_path`. Before the script, the tables of
a league are in `<section id="report">`, for browsers without JavaScript. report.html of `gpu-envs league report` is
such a file without rollouts; its api/run has no agents and groups.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from gpu_envs.errors import ConfigError, GpuEnvsError
from league.storage import database
from league.storage.records import finite
from league.watch.rollouts import MAX_WORLDS, RolloutCache, record_rollout
from league.watch.sources.base import ExperimentSnapshot, LatestSnapshot, RunSnapshot, RunSource, Snapshot
from league.watch.sources.experiment import ExperimentRun
from league.watch.sources.league import LeagueRun
from league.watch.sources.seeds import SeedsRun
from league.watch.sources.training import TrainingRun
from trainers.base.random_streams import SEEDS
from trainers.storage.run_folder import EXPERIMENT, TRACES, run_kind

DEFAULT_WORLDS = 4
"""Default number of worlds in a rollout."""
LATEST = "latest"
"""Name in a request for the policy that `Snapshot.latest` names."""


class UnknownAnswerError(GpuEnvsError):
    """Error for an unknown answer or policy."""


def open_source(path: Path) -> RunSource:
    """Return the source of the training, its several seeds, the league or the experiment in a folder.

    Raises:
        ConfigError: The folder holds none of them.
    """
    kind = run_kind(path)
    if kind == "league":
        return LeagueRun(path)
    if kind == "training":
        return TrainingRun(path)
    if kind == "experiment":
        return ExperimentRun(path)
    if kind == "multi-seed":
        return SeedsRun(path)
    content = "no folder" if not path.is_dir() else "none of them"
    raise ConfigError(
        f"{path}: expected the folder of a run, with {database.DATABASE} (gpu-envs league train), "
        f"{EXPERIMENT} (gpu-envs experiment run) or {', '.join(TRACES)} (gpu-envs train), got {content}"
    )


@contextlib.contextmanager
def open_viewer(path: Path) -> Iterator[ViewerApi]:
    """Return the responses to requests about the run or the experiment in a folder.

    It is read again when its files change.
    """
    with (
        contextlib.closing(LatestSnapshot(open_source(path))) as latest,
        contextlib.closing(RolloutCache()) as rollouts,
    ):
        api = ViewerApi(latest, rollouts)
        with api.stack:
            yield api


class ViewerApi:
    """Responses to requests about a run, or about an experiment and its runs."""

    def __init__(self, latest: LatestSnapshot, rollouts: RolloutCache) -> None:
        """Serve the snapshots of a run, and rollouts from a cache."""
        self.latest: LatestSnapshot = latest
        self.rollouts: RolloutCache = rollouts
        self.stack: contextlib.ExitStack = contextlib.ExitStack()
        """Runs of an experiment that were opened, which it closes."""
        self._runs: dict[str, ViewerApi] = {}
        self._locks: dict[str, threading.Lock] = {}

    def answer(self, name: str, query: str = "") -> bytes:
        """Return the response to `api/NAME?QUERY`, JSON.

        Raises:
            UnknownAnswerError: There is no such answer, or no policy of this name.
            ConfigError: The request is invalid.
            GpuEnvsError, OSError: A file is damaged or missing.
        """
        snapshot, version = self.latest.get()
        is_run = isinstance(snapshot, RunSnapshot)
        if name == "rollout" and is_run:
            return self._rollout(snapshot, version, query)
        run, _, part = name.rpartition("/")
        if isinstance(snapshot, ExperimentSnapshot) and run in snapshot.runs:
            return self._open(run, snapshot.runs[run]).answer(part, query)
        if name not in snapshot.answers:
            names = ", ".join((*snapshot.answers, "rollout" if is_run else "RUN/run"))
            raise UnknownAnswerError(
                f"api/{repr(name)[1:-1]:.80}: there is no such answer of this run; there are {names}"
            )
        if name == "run":
            return encode_json(self.run(snapshot, version))
        return encode_json({**snapshot.answers[name], "version": version})

    def run(self, snapshot: Snapshot, version: int) -> dict[str, Any]:
        """Return the description of the run with its present state."""
        source = self.latest.source
        writing, (done, total, may_end) = source.writing(), source.progress()
        state = "running" if writing else "finished" if done >= total else "ended" if may_end else "stopped"
        moment = {"writing": writing, "version": version, "problem": self.latest.problem}
        moment |= {"state": state, "done": done, "total": total}
        return {"name": source.path.resolve().name, **snapshot.answers["run"], **moment}

    def _open(self, name: str, path: Path) -> ViewerApi:
        """Return the responses to requests about a run of an experiment; requests about other runs do not wait."""
        with self._locks.setdefault(name, threading.Lock()):
            if name not in self._runs:
                latest = LatestSnapshot(open_source(path))
                self.stack.callback(latest.close)
                self._runs[name] = ViewerApi(latest, self.rollouts)
            return self._runs[name]

    def _rollout(self, snapshot: RunSnapshot, version: int, query: str) -> bytes:
        pairs = [part.partition("=") for part in query.split("&") if part]
        arguments = {name: value for name, _, value in pairs}
        if unknown := arguments.keys() - {"policies", "seed", "worlds"}:
            raise ConfigError(f"api/rollout: no parameter {min(unknown)!r:.80}; there are policies, seed, worlds")
        if len(arguments) < len(pairs):
            raise ConfigError("api/rollout: expected every parameter once, got one of them twice")
        policies = [unquote(name) for name in arguments.get("policies", "").split(",") if name]
        names = self._resolve(snapshot, policies)
        seed = _number(arguments, "seed", 0, 0, SEEDS - 1)
        worlds = _number(arguments, "worlds", DEFAULT_WORLDS, 1, MAX_WORLDS)

        def make() -> bytes:
            played = record_rollout(snapshot.stage, names, seed, worlds, stopped=self.rollouts.closed.is_set)
            return encode_json({**played, "version": version})

        return self.rollouts.get((self.latest.source.path, version, names, seed, worlds), make)

    def _resolve(self, snapshot: RunSnapshot, names: list[str]) -> tuple[str, ...]:
        """Return one policy for each seat; the latest one replaces a removed checkpoint."""
        seats = snapshot.stage.seats
        if len(names) == len(seats):
            gone = [not snapshot.has(seat.role, name) for seat, name in zip(seats, names, strict=True)]
            gone = [
                is_gone and self.latest.was_seen(s.role, n) for is_gone, s, n in zip(gone, seats, names, strict=True)
            ]
            names = [LATEST if is_gone else name for is_gone, name in zip(gone, names, strict=True)]
        return resolve_policies(snapshot, names)


def resolve_policies(snapshot: RunSnapshot, names: list[str]) -> tuple[str, ...]:
    """Return one policy for each seat.

    Raises:
        UnknownAnswerError: A policy does not exist.
        ConfigError: The number of names is wrong.
    """
    seats = snapshot.stage.seats
    for seat in seats:
        if not snapshot.policies[seat.role]:
            raise UnknownAnswerError(f"{seat.role}: there is no policy yet")
    names = names or [LATEST]
    names = names * len(seats) if len(names) == 1 else names
    if len(names) != len(seats):
        raise ConfigError(
            f"policies: expected one, or one for each of {', '.join(s.name for s in seats)}, got {len(names)}"
        )
    names = [snapshot.latest[seat.role] if name == LATEST else name for seat, name in zip(seats, names, strict=True)]
    for seat, name in zip(seats, names, strict=True):
        if not snapshot.has(seat.role, name):
            raise UnknownAnswerError(f"policies: {seat.name}: there is no policy {name!r:.80} of {seat.role}")
    return tuple(names)


def rollout_path(names: tuple[str, ...], seed: int, worlds: int) -> str:
    """Return the path of a rollout as the page writes it (encodeURIComponent)."""
    policies = ",".join(quote(name, safe="!*'()") for name in names)
    return f"api/rollout?policies={policies}&seed={seed}&worlds={worlds}"


def encode_json(answer: dict[str, Any]) -> bytes:
    """Encode an answer as JSON, with null for numbers that are not finite."""
    try:
        text = json.dumps(answer, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(finite(answer), allow_nan=False, separators=(",", ":"))
    return text.encode()


def _number(arguments: dict[str, str], name: str, usual: int, lowest: int, highest: int) -> int:
    text = arguments.get(name, str(usual))
    # the length is checked first: int() raises for thousands of digits
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(highest)) and lowest <= int(text) <= highest):
        raise ConfigError(f"{name}: expected a whole number from {lowest} to {highest}, got {text!r:.40}")
    return int(text)

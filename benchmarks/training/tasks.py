"""Training tasks with their goals, read from tasks.yaml."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import yaml

Origin: TypeAlias = Literal["published", "measured", "chosen"]
"""Origin of a threshold: published; the original program, run by us; or chosen by us."""


@dataclass(frozen=True)
class Goal:
    """Evaluation of the final policies of a training over new episodes."""

    of: str
    """"return GROUP": mean over episodes of the sum over the group's agents.

    "return AGENT": return of one agent of a group whose agents have different policies. "survivors GROUP": agents that
    are still in the game at the end. "length": steps of an episode. "seconds": from start to exit. "RESULT GROUP":
    mean over the group's agents of a result that the environment declares (`EnvDefinition.results`), such as
    "won_battle ally". Others belong to an environment, see `benchmarks.training.goals.MEASURES`.
    """
    bound: float | str | None = None
    """The end of the 95 % interval that counts must reach it; None: only recorded.

    A number; or the policies that take the place of the trained ones, from whose interval it must lie apart.
    These are "random", "scripted", "checkpoint SHARE" and "zoo NAME": the run's own policies after this share of its
    steps, and those of the model zoo. "fixed places" are scripted agents that know no more than they observe, in
    SimpleFormation-v0. "jaxmarl NAME", "jaxmarl NAME SEAT", "openspiel NAME SEAT", "sb3 NAME GROUP",
    "jaxmarl_smax NAME" and "jaxmarl_smax NAME return" are results of other programs, see
    `benchmarks.training.baselines`.
    """
    playing: tuple[str, ...] = ()
    """Trained policies that are judged; () for all."""
    against: str = "random"
    """Policies of all other agents: "random", "scripted" or "trained"."""
    greedy: bool = True
    """True for the most probable actions instead of samples."""
    below: bool = False
    """True if smaller is better."""
    origin: Origin | None = None
    """Origin of the threshold if it differs from the task's."""
    unit: float = 1.0
    """Number by which the result and the threshold are divided, such as the best possible return."""

    @property
    def measure(self) -> str:
        """Name of the result that is judged, see `benchmarks.training.goals.measures`."""
        return self.of.removeprefix("return ")

    @property
    def reference(self) -> str | None:
        """Name of the matchup whose result is the bound; None if the bound is not the result of a matchup."""
        if not isinstance(self.bound, str) or self.bound.startswith(("jaxmarl", "openspiel", "sb3")):
            return None
        is_uniform = self.bound == self.against or not self.playing
        return self.bound if is_uniform else f"{' and '.join(self.playing)} {self.bound}, others {self.against}"


@dataclass(frozen=True)
class TrainingTask:
    """A training task. Each seed is one run of ``gpu-envs train``, or of ``gpu-envs league train``."""

    name: str
    """Name of the task and of its entry in the model zoo."""
    options: str
    """Options of the command, without --seed, --run-dir and --no-video."""
    goals: tuple[Goal, ...]
    origin: Origin
    """Origin of the thresholds."""
    source: str
    """Source of the thresholds, or the reason for the choice."""
    seeds: int = 3
    episodes: int = 1024
    """Evaluation episodes per seed and matchup, one per world."""
    zoo: bool = True
    """True to store the policies of the first seed in the model zoo."""
    command: Literal["train", "league train"] = "train"
    """Command of ``gpu-envs``. The copies of a league's players become checkpoints by ``gpu-envs league export``."""
    variant: str = ""
    """Words of the title that tell it from other tasks of the environment and algorithm."""
    judged_with: tuple[tuple[str, float], ...] = ()
    """Environment parameters of the evaluation that differ from the training's: (name, value)."""


def _task(entry: dict[str, Any]) -> TrainingTask:
    """Return a task of the file; a source may be the name of one of its texts."""
    goals = tuple(Goal(**{**goal, "playing": tuple(goal.get("playing", ()))}) for goal in entry["goals"])
    params = tuple((name, value) for name, value in entry.get("judged_with", ()))
    source = _FILE["sources"].get(entry["source"], entry["source"])
    return TrainingTask(**{**entry, "goals": goals, "judged_with": params, "source": source})


_FILE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
BASELINES: dict[str, dict[str, Any]] = _FILE["baselines"]
"""Argument of the program by name of the baseline."""
TASKS = tuple(map(_task, _FILE["tasks"]))
"""All training tasks."""

"""What two runs of an environment must agree on, bit for bit.

Seeds, worlds, schedules, autoreset modes, copies, state and random play: part of :func:`gpu_envs.check_env`.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from gpu_envs import blame
from gpu_envs.core import Core
from gpu_envs.definition import Definition
from gpu_envs.errors import CheckpointError, ConformanceError
from warp_kernels.mirror import mirror

WORLDS = 12  # of a core under examination
STEPS = 24  # that it plays
LIMIT = 8  # episodes are cut here [steps], so that every world begins several
SEED = 20  # of all its worlds
RESULTS: tuple[str, ...] = ("obs", "reward", "terminated", "truncated")  # what a step gives of every agent, (E, A[, D])
Step = dict[str, torch.Tensor]  # results of a step by name


@dataclass(frozen=True)
class Subject:
    """The environment under examination."""

    id: str
    """Of the environment."""
    config: Any
    """Its settings, an instance of the host file's ``Config``."""
    definition: Definition
    """What the host file builds from them."""

    def core(self, num_envs: int = WORLDS, definition: Definition | None = None, **settings: Any) -> Core:
        """A core of it on the CPU, always with the same seed."""
        settings = {"seed": SEED, "threads": 1, "device": torch.device("cpu"), **settings}
        return Core(definition or self.definition, env_id=self.id, config=self.config, num_envs=num_envs, **settings)

    def demand(self, kept: Any, promise: str, found: str = "") -> None:
        """Raise a ConformanceError unless a promise is kept."""
        if not kept:
            raise ConformanceError(f"{self.id}: {promise}" + (f"; {found}" if found else ""))

    def nowhere(self, bad: torch.Tensor, promise: str, t: int, name: str) -> None:
        """Raise a ConformanceError where a (E, ...) mask is True, naming step, world and agent."""
        if bad.any():
            where = bad.nonzero()[0].tolist()
            who = f" of {self.definition.agents[where[1]]}" if len(where) > 1 else ""
            raise ConformanceError(f"{self.id}: {promise}; step {t}: {name}{who} in world {where[0]}")

    def alike(self, left: Step, right: Step, promise: str, t: int) -> None:
        """Raise where two steps are not the same, bit for bit."""
        for name, value in left.items():
            self.nowhere(value != right[name], promise, t, name)


def play(core: Core, steps: int = STEPS, seed: int | None = None) -> Iterator[Step]:
    """Reset, then random steps; yields their results. What is defined only where done is 0 elsewhere."""
    obs, info = core.reset(seed)
    yield {"obs": obs, "alive": info["alive"]}
    for _ in range(steps):
        action = core.sample_actions()
        *results, info = core.step(action)
        step = dict(zip(RESULTS, results, strict=True))
        done = step["terminated"] | step["truncated"]
        for name in ("episode_return", "episode_length"):
            info[name] = torch.where(done, info[name], 0)
        info["final_obs"] = torch.where(done[..., None], info["final_obs"], 0.0)
        yield {"action": action, **step, **info}


def check_seeds(subject: Subject) -> None:
    """The same seed gives the same play, in a new core and in a used one."""
    one, two = subject.core(), subject.core()
    for t, (left, right) in enumerate(zip(play(one), play(two), strict=True)):
        subject.alike(left, right, "equal seeds give equal trajectories", t)
    for t, (left, right) in enumerate(zip(play(subject.core(), 2 * LIMIT), play(two, 2 * LIMIT, SEED), strict=True)):
        subject.alike(left, right, "reset(seed) starts anew, whatever was played before", t)


def check_worlds(subject: Subject) -> None:
    """A world plays the same alone and among many: nothing leaks between worlds."""
    for world in (0, 1, WORLDS - 1):
        pair = zip(play(subject.core()), play(subject.core(1, env_offset=world)), strict=True)
        for t, (many, alone) in enumerate(pair):
            mine = {name: value[world : world + 1] for name, value in many.items()}
            with _explained(lambda: blame.worlds(subject, world)):  # noqa: B023 called at once
                subject.alike(alone, mine, f"world {world} plays the same alone and among many", t)


def check_schedules(subject: Subject) -> None:
    """Fused and phased agree, and so do siblings taken in the opposite order."""
    d = subject.definition
    mirrored = replace(d, rules=mirror(d.rules))
    for other, promise in (
        (subject.core(schedule="phased"), "fused and phased schedules agree"),
        (subject.core(definition=mirrored, schedule="fused"), "no agent reads what a sibling writes in the same phase"),
    ):
        for t, (left, right) in enumerate(zip(play(subject.core(schedule="fused")), play(other), strict=True)):
            with _explained(lambda: blame.siblings(subject)):
                subject.alike(left, right, promise, t)


@contextlib.contextmanager
def _explained(blamed: Callable[[], str]) -> Iterator[None]:
    """Add to a broken promise which phase has broken it."""
    try:
        yield
    except ConformanceError as error:
        reason = blamed()
        raise ConformanceError(f"{error}; {reason}" if reason else str(error)) from None


def check_autoreset(subject: Subject) -> None:
    """SAME_STEP and NEXT_STEP tell the story of DISABLED with resets by hand."""
    hand, same = subject.core(autoreset="disabled"), subject.core(autoreset="same_step")
    promise = "SAME_STEP is DISABLED with resets by hand"
    before, _ = hand.reset()
    subject.alike({"obs": before}, {"obs": same.reset()[0]}, promise, 0)
    for t in range(1, STEPS + 1):
        action = hand.sample_actions()
        left, right = (dict(zip(RESULTS, core.step(action)[:4], strict=True)) for core in (hand, same))
        done = left["terminated"] | left["truncated"]
        subject.nowhere((hand.final_obs != same.final_obs).any(2) & done, promise, t, "final_obs")
        over, valid = ~hand.alive.any(1), hand.valid.clone()
        left["obs"], info = hand.reset(reset_mask=over)
        subject.alike(left, right, promise, t)
        fresh = {"alive": hand.alive | over[:, None], "valid": valid & ~over[:, None]}
        subject.alike(fresh, info, "a reset world is all alive and not valid, the others stay as they are", t)
    promise = "NEXT_STEP is SAME_STEP with a reset step after each episode"
    same_story, next_story = (_story(subject, mode) for mode in ("same_step", "next_step"))
    for left_world, right_world in zip(same_story, next_story, strict=True):
        for t, (left, right) in enumerate(zip(left_world, right_world, strict=False)):
            subject.alike(left, right, promise, t + 1)


def _story(subject: Subject, mode: str) -> list[list[Step]]:
    """The steps of every world, reset steps left out."""
    worlds: list[list[Step]] = [[] for _ in range(WORLDS)]
    for t, step in enumerate(play(subject.core(autoreset=mode))):
        if t == 0:
            continue
        for world, story in enumerate(worlds):
            now = {name: step[name][world : world + 1] for name in ("action", *RESULTS[1:], "final_obs")}
            if step["valid"][world].any():
                story.append(now)
            else:
                where = f"step {t}, world {world}"
                silent = not any(now[name].any() for name in RESULTS[1:])
                subject.demand(silent, "a reset step has reward 0 and no end", where)
                subject.demand(step["alive"][world].all(), "everyone is back after a reset step", where)
    return worlds


def check_copies(subject: Subject) -> None:
    """What a step returned stays as it was."""
    core = subject.core()
    kept = list(play(core, 3))
    copies = [{name: value.clone() for name, value in step.items()} for step in kept]
    for _ in range(LIMIT):
        core.step(core.sample_actions())
    for t, (left, right) in enumerate(zip(kept, copies, strict=True)):
        subject.alike(left, right, "results survive later steps", t)


def check_state(subject: Subject) -> None:
    """Every state that is reached keeps to its ranges; one read and written back continues bit for bit."""
    one, two = subject.core(), subject.core(seed=SEED + 1)
    for _ in play(two):
        try:
            two.check_state(two.get_state())
        except CheckpointError as error:
            subject.demand(False, "State keeps to its declared ranges", str(error).removeprefix(f"{subject.id}: "))
    for _ in play(one, LIMIT - 2):
        pass
    two.set_state(one.get_state())
    for t in range(STEPS):
        left, right = (dict(zip(RESULTS, core.step(core.sample_actions())[:4], strict=True)) for core in (one, two))
        subject.alike(left, right, "set_state(get_state()) continues where the other goes on", t)


def check_random_play(subject: Subject) -> None:
    """Where rules give ``legal``, steps whose observations nobody reads can be played without observing."""
    if subject.definition.rules.legal is None:
        return
    promise = "play_random is step after step: observe writes io.obs alone, legal the masks and who is to move"
    stepped, played = subject.core(), subject.core()
    stepped.reset()
    played.reset()
    for steps in (2, LIMIT, STEPS):
        for _ in range(steps):
            stepped.step(stepped.sample_actions())
        played.play_random(steps)
        left, right = stepped.get_state(), played.get_state()
        for name, value in left.items():
            subject.demand(torch.equal(value, right[name]), promise, f"after {steps} steps {name} differs")

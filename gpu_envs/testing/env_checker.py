"""Check that an environment satisfies the tensor contract; it stops at the first violation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.environment import changed_settings
from gpu_envs.definition.observation_shapes import DTYPES, observation_blocks
from gpu_envs.definition.registry import find
from gpu_envs.descriptions import describe_observations
from gpu_envs.errors import ActionError, ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.factory import configured_definition
from gpu_envs.testing import conformance, reference_checks
from gpu_envs.testing.reference_checks import STEPS, Subject
from gpu_envs.utils.settings import MAX_INT, check_value
from gpu_envs.utils.summaries import Summarized, Summary


@dataclass(frozen=True)
class PassedCheck:
    """A check that an environment has passed."""

    name: str
    """Name of the check."""
    description: str
    """Property that it compares."""
    seconds: float
    """Duration [s]."""
    reached: str = ""
    """What the check has reached, such as ends of episodes."""


@dataclass(frozen=True, repr=False)
class CheckReport(Summarized):
    """Checks that an environment has passed, as ``print`` and notebooks show them."""

    env_id: str
    """ID of the environment."""
    settings: str
    """Settings that differ from their defaults; empty if there are none."""
    checks: Sequence[PassedCheck]
    """All checks in their order."""

    @property
    def seconds(self) -> float:
        """Duration of all checks [s]."""
        return sum(check.seconds for check in self.checks)

    def __repr__(self) -> str:
        """Return a line for the environment and one per check."""
        settings = f" ({self.settings})" if self.settings else ""
        width = max(len(check.name) for check in self.checks)
        lines = [f"  {check.name:{width}}  {_check_line(check)}" for check in self.checks]
        title = f"{self.env_id}{settings} passed all {len(self.checks)} checks in {self.seconds:.1f} s"
        return "\n".join([title, *lines])

    def _summary(self) -> Summary:
        rows = [(check.name, _check_line(check), f"{check.seconds:.2f}") for check in self.checks]
        facts = {"result": f"passed all {len(self.checks)} checks", "settings": self.settings or None}
        columns = ("check", "compared property", "seconds")
        return Summary(self.env_id, {**facts, "seconds": f"{self.seconds:.1f}"}, columns, rows)


def _check_line(check: PassedCheck) -> str:
    """Return the description of a check, and what it has reached."""
    return f"{check.description} ({check.reached})" if check.reached else check.description


Law = Callable[[Subject], str | None]
"""Type of a check."""
ROUNDING = 1e-4
"""Largest sum of rewards of a zero-sum game, as a share of the largest reward."""


def check_env(
    id_or_env: Any, num_steps: int | None = None, num_envs: int = reference_checks.WORLDS, **config: Any
) -> CheckReport:
    """Check that an environment satisfies the contract that every view and trainer relies on.

    It checks

    - names, groups and spaces;
    - shapes, dtypes and bounds of step results;
    - initial states, episode ends and the zeros after them;
    - masks, turns and illegal actions;
    - the autoreset modes and resets by mask;
    - that later steps leave returned results unchanged;
    - saved state and random rollouts.

    It compares, bit for bit, equal seeds, single worlds and batches, schedules, and every phase with siblings in three
    other orders. It uses separate cores on the CPU, and compiles the rules two times, or three times if they have
    ``legal``. Schedules, single worlds, tensors and ranges of State are checked over whole episodes of random actions,
    other properties with a time limit of 8 steps.

    Args:
        id_or_env: An id, or an environment of this library (a core, or an object with ``.core``) with its settings.
        num_steps: Steps of the checks over whole episodes; None for 24 more than the time limit, at most 600.
        num_envs: Worlds of each core, at least 2.
        **config: Settings of an id, and ``max_episode_steps``.

    Returns:
        Report of the checks, which ``print`` shows with a line per check.

    Raises:
        ConfigError: The argument is not an environment, settings were given with an existing one, or a number is out
            of range.
        ConformanceError: The contract is violated; one line that names the rule and the place. An ``AssertionError``.
    """
    subject = build_subject(id_or_env, num_steps, num_envs, config)
    return CheckReport(subject.id, changed_settings(subject.config) or "", tuple(_run_checks(subject)))


def iter_checks(
    id_or_env: Any, num_steps: int | None = None, num_envs: int = reference_checks.WORLDS, **config: Any
) -> Iterator[PassedCheck]:
    """Run :func:`check_env` step by step; yield every check that passes, ``1 + len(LAWS)`` of them.

    Raises:
        ConfigError: See :func:`check_env`.
        ConformanceError: The first check that fails.
    """
    yield from _run_checks(build_subject(id_or_env, num_steps, num_envs, config))


def _description(law: Law) -> str:
    """Return the promise that a check compares, from the first line of its docstring."""
    line = (law.__doc__ or law.__name__).partition("\n")[0].rstrip(".").replace("``", "")
    promise = line.removeprefix("Check ").removeprefix("that ")
    return promise[:1].upper() + promise[1:]


def build_subject(id_or_env: Any, num_steps: int | None, num_envs: int, config: dict[str, Any]) -> Subject:
    """Return the environment under test; raise a ConfigError if there is none."""
    steps = 0 if num_steps is None else check_value("check_env", "num_steps", num_steps, int, ge=1, le=MAX_INT)
    worlds = check_value("check_env", "num_envs", num_envs, int, ge=2, le=MAX_INT)
    if isinstance(id_or_env, str):
        limit = config.pop("max_episode_steps", None)
        return Subject(*configured_definition(id_or_env, limit, config), worlds, steps)
    core = id_or_env if isinstance(id_or_env, Core) else getattr(id_or_env, "core", None)
    if not isinstance(core, Core):
        actual = type(id_or_env).__name__
        raise ConfigError(f"check_env takes an id or an environment of this library, got {actual}")
    if config:
        raise ConfigError(f"check_env: settings go with an id; this {core.id} is configured already")
    return Subject(core.id, core.config, core.definition, worlds, steps)


def _run_checks(subject: Subject) -> Iterator[PassedCheck]:
    """Run all checks; yield every check that passes."""
    short = subject.shortened()
    for law in (check_definition, *LAWS):
        start = time.perf_counter()
        reached = law(subject if law in WHOLE_EPISODES else short) or ""
        seconds = time.perf_counter() - start
        yield PassedCheck(law.__name__.removeprefix("check_"), _description(law), seconds, reached)


def check_build(subject: Subject) -> None:
    """Check that equal settings build equal environments."""
    rebuilt = find(subject.id).load()[1](subject.config)
    for name in ("params", "agents", "groups", "roles"):
        value, other = getattr(subject.definition, name), getattr(rebuilt, name)
        subject.demand(value == other, "equal settings build equal environments", f"{name}: {value} and {other}")
    for name, values in subject.definition.initial.items():
        same = np.array_equal(values, rebuilt.initial[name])
        subject.demand(same, "equal settings build equal environments", f"State.{name} starts with other values")


def check_definition(subject: Subject) -> None:
    """Check that names, groups and spaces fit each other and the rules."""
    d, demand = subject.definition, subject.demand
    count, rules = len(d.agents), d.rules
    demand(len(set(d.agents)) == count, "every agent has a name of its own")
    demand(
        count == rules.num_agents, "as many names as agents", f"{count} names, and the rules play {rules.num_agents}"
    )
    rows = sorted(row for members in d.groups.values() for row in members)
    demand(rows == list(range(count)), "every agent belongs to one group", f"the groups hold the rows {rows}")
    if d.roles:
        playing = [member for members in d.roles.values() for member in members]
        rows = sorted(
            row for name in playing for row in (d.groups[name] if name in d.groups else [d.agents.index(name)])
        )
        demand(rows == list(range(count)), "every agent has one role, or none are declared", f"they hold rows {rows}")
    named = set(d.observation_spaces) == set(d.action_spaces) == set(d.agents)
    demand(named, "every agent has an observation and an action space")
    kinds = {type(space) for space in d.action_spaces.values()}
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    allowed = len(kinds) == 1 and kinds <= {spaces.Discrete, spaces.MultiDiscrete, spaces.Box}
    demand(allowed, "actions are all Discrete, all MultiDiscrete or all Box", f"there are {names}")
    demand((names == "Box") == rules.continuous, "action spaces and rules.continuous agree", f"the spaces are {names}")
    for agent in d.agents:
        observations, done = d.observation_spaces[agent], d.action_spaces[agent]
        boxes = observation_blocks(observations).values()
        fits = bool(boxes) and all(isinstance(box, spaces.Box) and box.dtype in DTYPES and box.shape for box in boxes)
        demand(
            fits,
            "observation spaces are Boxes of float32, uint8 or bool, or Dicts of these",
            f"{agent} has {observations}",
        )
        fits = len(done.shape or ()) <= 1 and sum(done.shape or ()) <= rules.action_size
        demand(fits, "an action fits rules.action_size", f"{agent} has {done}")
        zero = not isinstance(done, spaces.Discrete) or done.start == 0
        demand(zero, "Discrete actions start at 0", f"{agent} has {done}")
    for group, members in d.groups.items():
        for table in (d.observation_spaces, d.action_spaces):
            same = all(table[d.agents[row]] == table[d.agents[members[0]]] for row in members)
            demand(same, "the agents of a group have equal spaces", f"those of {group} differ")


def check_tensors(subject: Subject) -> str:
    """Check shapes and dtypes of step results, observations within their spaces, and masks that leave a choice."""
    core, masked, d = subject.core(), subject.definition.rules.masked, subject.definition
    e, a = core.num_envs, core.num_agents
    expected: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {}
    expected |= dict.fromkeys(("obs", "final_obs"), (torch.float32, (e, a, core.obs_width)))
    expected |= dict.fromkeys(("reward", "episode_return"), (torch.float32, (e, a)))
    expected |= dict.fromkeys(("terminated", "truncated", "alive", "valid"), (torch.bool, (e, a)))
    expected["episode_length"] = (torch.int32, (e, a))
    if masked:
        expected["action_mask"] = (torch.bool, (e, a, int(core.num_choices.sum(1).max())))
    if core.to_move is not None:
        expected["to_move"] = (torch.bool, (e, a))
    obs, info = core.reset()
    _check_observations(subject, core, 0, "obs", obs, info["alive"])
    subject.nowhere(info["valid"], "no step led to a fresh start: valid is False", 0, "valid")
    subject.nowhere(~info["alive"], "all agents are alive after a reset", 0, "alive")
    ends, first_episodes = dict.fromkeys(("terminated", "truncated"), 0), core.episode_index.sum()
    for t in range(1, subject.whole_steps + 1):
        _check_turns(subject, core, t - 1, info)
        action = core.sample_actions()
        if masked:
            legal = _by_component(core, info["action_mask"])
            stuck = info["alive"] & ~(legal.any(3) | (core.num_choices == 0)).all(2)
            promise = "a living agent has a legal action"
            subject.nowhere(stuck, promise, t - 1, "action_mask", _movers(core) if d.rules.turn_based else None)
            chosen = (legal.gather(3, action.reshape(e, a, -1, 1))[..., 0] | (core.num_choices == 0)).all(2)
            subject.nowhere(info["alive"] & ~chosen, "sample_actions respects the mask", t, "action")
        *results, info = core.step(action)
        actual = dict(zip(reference_checks.RESULTS, results, strict=True)) | info
        for name, (dtype, shape) in expected.items():
            fits = actual[name].dtype == dtype and tuple(actual[name].shape) == shape
            subject.demand(fits, f"{name} is {dtype} {shape}", f"got {actual[name].dtype} {tuple(actual[name].shape)}")
        reward, done = actual["reward"], actual["terminated"] | actual["truncated"]
        _check_observations(subject, core, t, "obs", actual["obs"], actual["alive"] | done)
        _check_observations(subject, core, t, "final_obs", actual["final_obs"], done)
        subject.nowhere(~reward.isfinite(), "rewards are finite", t, "reward", _value_of(reward))
        if d.zero_sum:
            total, largest = reward.sum(1), reward.abs().amax(1)
            promise = "zero_sum: the rewards of all roles sum to 0"
            subject.nowhere(
                total.abs() > ROUNDING * largest, promise, t, "the sum of rewards", lambda at, x=total: f"is {x[at]:g}"
            )
        for name, count in ends.items():
            ends[name] = count + int(actual[name].sum())
    state = core.state()
    fits = state.ndim == 2 and len(state) == e and bool(state.isfinite().all())
    subject.demand(fits, "state() is (E, S) and finite", f"got {tuple(state.shape)}")
    ended, steps = ", ".join(f"{count} agents {name}" for name, count in ends.items()), subject.whole_steps
    return f"{steps} steps of {e} worlds: {int(core.episode_index.sum() - first_episodes)} episodes ended; {ended}"


def _check_turns(subject: Subject, core: Core, t: int, info: dict[str, torch.Tensor]) -> None:
    """Check who is to move, and that the others have the no-op only, where agents take turns."""
    if core.to_move is None:
        return
    to_move, alive = info["to_move"], info["alive"]
    subject.nowhere(alive.any(1) & ~to_move.any(1), "at least one agent is to move", t, "to_move")
    subject.nowhere(to_move & ~alive, "agents to move are alive", t, "to_move")
    legal = _by_component(core, info["action_mask"])
    only = ((legal[..., 0] & (legal.sum(3) == 1)) | (core.num_choices == 0)).all(2)
    subject.nowhere(~to_move & ~only, "agents not to move have the no-op only", t, "action_mask")


def _check_observations(
    subject: Subject, core: Core, t: int, name: str, obs: torch.Tensor, is_present: torch.Tensor
) -> None:
    """Check that present agents observe finite numbers inside their Box, and zeros beyond their width."""
    low, high = torch.zeros(2, *obs.shape[1:])
    for row, agent in enumerate(core.possible_agents):
        box = core.observation_spaces[agent]
        low[row, : box.shape[0]], high[row, : box.shape[0]] = torch.from_numpy(box.low), torch.from_numpy(box.high)

    def describe(index: tuple[int, ...]) -> str:
        row, column = index[1:]
        width = core.observation_spaces[core.possible_agents[row]].shape[0]
        limits = f"[{low[row, column]:g}, {high[row, column]:g}]"
        expected = limits if column < width else f"0, as the observation has {width} entries"
        return f"{_entry_name(core, row, column)}is {obs[index]:g}, expected {expected}"

    present = is_present[..., None]
    subject.nowhere(present & ~obs.isfinite(), "observations are finite", t, name, describe)
    outside = (obs < low) | (obs > high)
    promise = "observations lie in the observation space, padded by zeros"
    subject.nowhere(present & outside, promise, t, name, describe)
    integral = torch.zeros(obs.shape[1:], dtype=torch.bool)
    for row, agent in enumerate(core.possible_agents):
        boxes = observation_blocks(core.definition.observation_spaces[agent]).values()
        flags = [box.dtype != np.float32 for box in boxes for _ in range(math.prod(box.shape))]
        integral[row, : len(flags)] = torch.tensor(flags)
    fraction = (obs != obs.round()) & integral.to(obs.device)
    subject.nowhere(present & fraction, "observations of uint8 and bool are whole numbers", t, name, describe)


def _entry_name(core: Core, row: int, column: int) -> str:
    """Return the description of an entry of an observation in parentheses; "" if the environment has none."""
    described = describe_observations(core)
    if described is None:
        return ""
    agent = core.possible_agents[row]
    blocks = described.get(agent) or next(described[name] for name, rows in core.groups.items() if row in rows)
    names = [f"{block['meaning']}, {entry}" for block in blocks for entry in block["entries"]]
    return f"({names[column]}) " if column < len(names) else ""


def _movers(core: Core) -> Callable[[tuple[int, ...]], str]:
    """Return a function from an index to who is to move in its world."""
    to_move = cast(torch.Tensor, core.to_move).clone()

    def describe(index: tuple[int, ...]) -> str:
        rows = to_move[index[0]].nonzero()[:, 0].tolist()
        return f"is False everywhere; to move: {', '.join(core.possible_agents[row] for row in rows)}"

    return describe


def _value_of(values: torch.Tensor) -> Callable[[tuple[int, ...]], str]:
    """Return a function from an index to the value there."""
    return lambda index: f"is {values[index]:g}"


def _by_component(core: Core, mask: torch.Tensor) -> torch.Tensor:
    """Return a mask (..., A, n) as (..., A, K, choices), False where a component has no such choice."""
    counts, choices = core.num_choices[..., None], torch.arange(int(core.num_choices.max()))
    places = (core.num_choices.cumsum(1)[..., None] - counts + choices).clamp(max=mask.shape[-1] - 1)
    table = mask.unsqueeze(-2).expand(*mask.shape[:-1], counts.shape[1], -1)
    return table.gather(-1, places.expand(*table.shape[:-1], -1)) & (choices < counts)


def check_ends(subject: Subject) -> None:
    """Check that an agent ends once per episode, and then observes zeros while its actions are ignored."""
    core = subject.core(autoreset="disabled")
    core.reset()
    gone = torch.zeros_like(core.alive)
    for t in range(1, subject.definition.max_episode_steps + 3):
        action = core.sample_actions()
        action[gone] = float("nan") if subject.definition.rules.continuous else -1  # would raise if it were read
        obs, reward, terminated, truncated, info = core.step(action)
        done = terminated | truncated
        subject.nowhere(terminated & truncated, "an agent terminates or is truncated, not both", t, "the end")
        subject.nowhere(done & gone, "an agent leaves once an episode", t, "a second end")
        subject.nowhere(info["valid"] == gone, "valid says who was alive before the step", t, "valid")
        subject.nowhere(obs.ne(0).any(2) & gone, "an agent that has left sees zeros", t, "obs")
        subject.nowhere(reward.ne(0) & gone, "an agent that has left earns nothing", t, "reward")
        subject.nowhere((info["final_obs"] != obs).any(2) & done, "final_obs is the last observation", t, "final_obs")
        gone |= done
        subject.nowhere(info["alive"] == gone, "alive says who acts on the next step", t, "alive")
    subject.nowhere(~gone, "an episode ends for all agents", subject.definition.max_episode_steps + 2, "no end")


def check_refusals(subject: Subject) -> None:
    """Check that actions out of range, not finite or illegal raise an error that names agent and world."""
    core, d = subject.core(2), subject.definition

    def refused(action: torch.Tensor, agent: str, fault: str) -> None:
        try:
            core.step(action)
        except ActionError as error:
            named = agent in str(error) and "world 1" in str(error)
            subject.demand(named, "a refusal names agent and world", f"it said: {error}")
            return
        subject.demand(False, f"an action that is {fault} is refused", f"that of {agent} was not")

    core.reset()
    for bad in (float("nan"), float("inf")) if d.rules.continuous else (-1, int(core.num_choices.max())):
        action = core.sample_actions()
        row = 0 if core.to_move is None else int(core.to_move[1].nonzero()[0])
        action[1, row] = bad
        refused(action, d.agents[row], "out of range or not finite")
        core.reset()
    if d.rules.masked and not d.rules.illegal_noop:
        for _ in range(STEPS):
            action = core.sample_actions()
            assert core.action_mask is not None
            deciding = core.alive[1] if core.to_move is None else core.to_move[1]
            illegal = _by_component(core, ~core.action_mask[1]) & deciding[:, None, None]
            if illegal.any():
                row, component, choice = illegal.nonzero()[0].tolist()
                action[1, row].view(-1)[component] = choice
                return refused(action, d.agents[row], "illegal")
            core.step(action)
    return None


LAWS: tuple[Law, ...] = (
    check_build,
    conformance.check_worlds,
    conformance.check_schedules,
    check_tensors,
    check_ends,
    check_refusals,
    conformance.check_seeds,
    conformance.check_autoreset,
    conformance.check_copies,
    conformance.check_state,
    conformance.check_random_play,
)
"""Checks in their order; each raises ConformanceError, or returns what it has reached.

Dependence on other worlds and on siblings comes first, because it causes other violations."""
WHOLE_EPISODES = (conformance.check_schedules, conformance.check_worlds, check_tensors, conformance.check_state)
"""Checks over whole episodes; the others have a short time limit."""

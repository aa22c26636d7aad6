"""Check that an environment satisfies the tensor contract; it stops at the first violation."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.env_summary import changed_settings
from gpu_envs.errors import ActionError, ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.factory import configured_definition
from gpu_envs.runtime.multi_device import MultiDeviceCore
from gpu_envs.testing import conformance, reference_checks
from gpu_envs.testing.check_report import CheckReport, PassedCheck
from gpu_envs.testing.reference_checks import LIMIT, STEPS, Subject

__all__ = ["LAWS", "check_definition", "check_ends", "check_env", "check_refusals", "check_tensors", "iter_checks"]


def check_env(id_or_env: Any, **config: Any) -> CheckReport:
    """Check that an environment satisfies the contract that every view and trainer relies on.

    It checks

    - names, groups and spaces;
    - shapes, dtypes and bounds of step results;
    - initial states, episode ends and the zeros after them;
    - masks, turns and illegal actions;
    - the autoreset modes and resets by mask;
    - that later steps leave returned results unchanged;
    - saved state and random rollouts.

    It compares, bit for bit, equal seeds, single worlds and batches, schedules, and siblings in three other orders. It
    uses separate cores on the CPU with shortened time limits, and compiles the rules three times, or four times if they
    have ``legal``.

    Args:
        id_or_env: An id, or an environment of this library (a core, or an object with ``.core``) with its settings.
        **config: Settings of an id, and ``max_episode_steps``.

    Returns:
        Report of the checks, which ``print`` shows with a line per check.

    Raises:
        ConformanceError: The contract is violated; one line that names the rule and the place. An ``AssertionError``.
    """
    subject = _subject(id_or_env, config)
    began, passed = time.perf_counter(), []
    for name, law in zip(_run_checks(subject), (check_definition, *LAWS), strict=True):
        now = time.perf_counter()
        passed.append(PassedCheck(name, _description(law), now - began))
        began = now
    return CheckReport(subject.id, changed_settings(subject.config) or "", tuple(passed))


def iter_checks(id_or_env: Any, **config: Any) -> Iterator[str]:
    """Run :func:`check_env` step by step; yield the name of every check that passes, ``1 + len(LAWS)`` of them.

    Raises:
        ConfigError: The argument is not an environment, or settings were given with an existing one.
        ConformanceError: The first check that fails.
    """
    yield from _run_checks(_subject(id_or_env, config))


def _description(law: Callable[[Subject], None]) -> str:
    """Return the promise that a check compares, from the first line of its docstring."""
    line = (law.__doc__ or law.__name__).partition("\n")[0].rstrip(".").replace("``", "")
    promise = line.removeprefix("Check ").removeprefix("that ")
    return promise[:1].upper() + promise[1:]


def _subject(id_or_env: Any, config: dict[str, Any]) -> Subject:
    """Return the environment under test; raise a ConfigError if there is none."""
    if isinstance(id_or_env, str):
        return Subject(*configured_definition(id_or_env, config.pop("max_episode_steps", None), config))
    core = id_or_env if isinstance(id_or_env, Core | MultiDeviceCore) else getattr(id_or_env, "core", None)
    if not isinstance(core, Core | MultiDeviceCore):
        got = type(id_or_env).__name__
        raise ConfigError(f"check_env takes an id or an environment of this library, got {got}")
    if config:
        raise ConfigError(f"check_env: settings go with an id; this {core.id} is configured already")
    return Subject(core.id, core.config, core.definition)


def _run_checks(subject: Subject) -> Iterator[str]:
    """Run all checks; yield the name of every check that passes."""
    check_definition(subject)
    yield "definition"
    limit = subject.definition.max_episode_steps
    if limit == 0 or limit > LIMIT:
        subject = replace(subject, definition=replace(subject.definition, max_episode_steps=LIMIT))
    for law in LAWS:
        law(subject)
        yield law.__name__.removeprefix("check_")


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
        rows = sorted(row for who in playing for row in (d.groups[who] if who in d.groups else [d.agents.index(who)]))
        demand(rows == list(range(count)), "every agent has one role, or none are declared", f"they hold rows {rows}")
    named = set(d.observation_spaces) == set(d.action_spaces) == set(d.agents)
    demand(named, "every agent has an observation and an action space")
    kinds = {type(space) for space in d.action_spaces.values()}
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    allowed = len(kinds) == 1 and kinds <= {spaces.Discrete, spaces.MultiDiscrete, spaces.Box}
    demand(allowed, "actions are all Discrete, all MultiDiscrete or all Box", f"there are {names}")
    demand((names == "Box") == rules.continuous, "action spaces and rules.continuous agree", f"the spaces are {names}")
    for agent in d.agents:
        seen, done = d.observation_spaces[agent], d.action_spaces[agent]
        flat = isinstance(seen, spaces.Box) and seen.dtype == np.float32 and len(seen.shape) == 1
        demand(flat, "observation spaces are flat float32 Boxes", f"{agent} has {seen}")
        fits = len(done.shape or ()) <= 1 and sum(done.shape or ()) <= rules.action_size
        demand(fits, "an action fits rules.action_size", f"{agent} has {done}")
        zero = not isinstance(done, spaces.Discrete) or done.start == 0
        demand(zero, "Discrete actions start at 0", f"{agent} has {done}")
    for group, members in d.groups.items():
        for table in (d.observation_spaces, d.action_spaces):
            same = all(table[d.agents[row]] == table[d.agents[members[0]]] for row in members)
            demand(same, "the agents of a group have equal spaces", f"those of {group} differ")


def check_tensors(subject: Subject) -> None:
    """Check shapes and dtypes of step results, observations within their spaces, and masks that leave a choice."""
    core, masked = subject.core(), subject.definition.rules.masked
    e, a, d = core.num_envs, core.num_agents, core.obs_width
    wanted: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {}
    wanted |= dict.fromkeys(("obs", "final_obs"), (torch.float32, (e, a, d)))
    wanted |= dict.fromkeys(("reward", "episode_return"), (torch.float32, (e, a)))
    wanted |= dict.fromkeys(("terminated", "truncated", "alive", "valid"), (torch.bool, (e, a)))
    wanted["episode_length"] = (torch.int32, (e, a))
    if masked:
        wanted["action_mask"] = (torch.bool, (e, a, int(core.num_choices.sum(1).max())))
    if core.to_move is not None:
        wanted["to_move"] = (torch.bool, (e, a))
    obs, info = core.reset()
    _check_observations(subject, core, 0, "obs", obs, info["alive"])
    subject.nowhere(info["valid"], "no step led to a fresh start: valid is False", 0, "valid")
    subject.nowhere(~info["alive"], "all agents are alive after a reset", 0, "alive")
    for t in range(1, STEPS + 1):
        action = core.sample_actions()
        if masked:
            legal = _by_component(core, info["action_mask"])
            stuck = info["alive"] & ~(legal.any(3) | (core.num_choices == 0)).all(2)
            subject.nowhere(stuck, "a living agent has a legal action", t - 1, "action_mask")
            chosen = (legal.gather(3, action.reshape(e, a, -1, 1))[..., 0] | (core.num_choices == 0)).all(2)
            subject.nowhere(info["alive"] & ~chosen, "sample_actions respects the mask", t, "action")
        *results, info = core.step(action)
        got = dict(zip(reference_checks.RESULTS, results, strict=True)) | info
        for name, (dtype, shape) in wanted.items():
            fits = got[name].dtype == dtype and tuple(got[name].shape) == shape
            subject.demand(fits, f"{name} is {dtype} {shape}", f"got {got[name].dtype} {tuple(got[name].shape)}")
        done = got["terminated"] | got["truncated"]
        _check_observations(subject, core, t, "obs", got["obs"], got["alive"] | done)
        _check_observations(subject, core, t, "final_obs", got["final_obs"], done)
        subject.nowhere(~got["reward"].isfinite(), "rewards are finite", t, "reward")
        if core.to_move is not None:
            idle = ~got["to_move"]
            someone = got["to_move"].any(1, keepdim=True)
            subject.nowhere(got["alive"].any(1, keepdim=True) & ~someone, "at least one agent is to move", t, "to_move")
            subject.nowhere(~idle & ~got["alive"], "agents to move are alive", t, "to_move")
            legal = _by_component(core, got["action_mask"])
            only = ((legal[..., 0] & (legal.sum(3) == 1)) | (core.num_choices == 0)).all(2)
            subject.nowhere(idle & ~only, "agents not to move have the no-op only", t, "action_mask")
    state = core.state()
    fits = state.ndim == 2 and len(state) == e and bool(state.isfinite().all())
    subject.demand(fits, "state() is (E, S) and finite", f"got {tuple(state.shape)}")


def _check_observations(
    subject: Subject, core: Core, t: int, name: str, obs: torch.Tensor, there: torch.Tensor
) -> None:
    """Check that present agents observe finite numbers inside their Box, and zeros beyond their width."""
    low, high = torch.zeros(2, *obs.shape[1:])
    for row, agent in enumerate(core.possible_agents):
        box = core.definition.observation_spaces[agent]
        low[row, : box.shape[0]], high[row, : box.shape[0]] = torch.from_numpy(box.low), torch.from_numpy(box.high)
    subject.nowhere(there & ~obs.isfinite().all(2), "observations are finite", t, name)
    outside = ((obs < low) | (obs > high)).any(2)
    subject.nowhere(there & outside, "observations lie in the observation space, padded by zeros", t, name)


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

    def refused(action: torch.Tensor, agent: str, what: str) -> None:
        try:
            core.step(action)
        except ActionError as error:
            named = agent in str(error) and "world 1" in str(error)
            subject.demand(named, "a refusal names agent and world", f"it said: {error}")
            return
        subject.demand(False, f"an action that is {what} is refused", f"that of {agent} was not")

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


LAWS: tuple[Callable[[Subject], None], ...] = (
    check_tensors,
    check_ends,
    check_refusals,
    conformance.check_seeds,
    conformance.check_worlds,
    conformance.check_schedules,
    conformance.check_autoreset,
    conformance.check_copies,
    conformance.check_state,
    conformance.check_random_play,
)
"""Checks in their order; each raises ConformanceError."""

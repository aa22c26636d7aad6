"""Evaluate policies: returns, episode lengths, survivors and last infos, with 95 % confidence intervals.

In zero-sum games the training return of self-play stays nearly constant, so policies are evaluated against fixed
opponents. Every environment plays exactly one episode, so that short episodes are not over-represented.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpu_envs.definition.id_modules import named_object, split_id
from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError, shown
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.episode_recorder import Episode
from gpu_envs.runtime.rollout.trace import EpisodeResults
from gpu_envs.utils.progress import Progress
from trainers.algorithms import algorithm_specs
from trainers.base.agent_group import agent_rows_of, make_agent_group
from trainers.base.random_streams import SEEDS
from trainers.config.train_config import TrainConfig, members_by_policy
from trainers.evaluation.kernel_episodes import KernelPlayers
from trainers.models.policy import Policy, PolicyProtocol
from trainers.models.policy_set import Players, PolicyRunner
from trainers.storage import checkpoint
from trainers.storage.checkpoint import Checkpoint


@dataclass(frozen=True)
class Estimate:
    """Mean over episodes and its 95 % confidence interval (normal approximation, 1.96 standard errors)."""

    mean: float
    """Mean over episodes."""
    half: float
    """Half-width of the interval, in the unit of the mean."""

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.half:.2f}"


@dataclass(frozen=True)
class EvaluationResult:
    """Result of an evaluation."""

    episodes: int
    """Number of completed episodes."""
    length: Estimate
    """Steps until all agents of an environment were done."""
    returns: dict[str, Estimate]
    """Return of an episode, summed over the agents of a group, by group."""
    agent_returns: dict[str, Estimate]
    """Return of an episode by agent."""
    survivors: dict[str, Estimate]
    """Number of agents that were not terminated, by group; meaningful if agents can leave early, see `leaves`."""
    leaves: dict[str, bool]
    """Whether an agent left before the end of the episode, by group."""
    last_info: dict[str, dict[str, Estimate]] = field(default_factory=dict)
    """Declared results and entries of ``info`` in the last step of an episode, mean over the agents of a group, by name
    and group."""
    metrics: dict[str, Estimate] = field(default_factory=dict)
    """Measures of the user, see `evaluate_policies`."""


@dataclass(frozen=True)
class FinishedEpisodes:
    """Episodes of an evaluation, one per environment, for measures of the user."""

    agents: tuple[str, ...]
    """Agents, in the order of the columns."""
    groups: Mapping[str, Sequence[int]]
    """Columns of the agents of each group."""
    returns: Tensor
    """Returns (E, A) float64."""
    length: Tensor
    """Steps until all agents were done (E,) int64."""
    terminated: Tensor
    """Whether an agent was terminated, not truncated (E, A) bool."""
    last_info: Mapping[str, Tensor]
    """Declared results of the environment, and entries of ``info`` in each agent's last step, (E, A) by name."""


EpisodeMetric = Callable[[FinishedEpisodes], Tensor]
"""Function from episodes to one number per episode (E,)."""


NO_METRICS: Mapping[str, EpisodeMetric] = MappingProxyType({})
"""No measures of the user."""


def find_metrics(names: Sequence[str]) -> dict[str, EpisodeMetric]:
    """Return the functions of names "module:NAME" by NAME.

    Raises:
        ConfigError: A module is not imported, a name is no function of episodes, or two names are equal.
    """
    metrics = {split_id(name)[1]: named_object("eval_metric", name, ["episodes"]) for name in names}
    if len(metrics) < len(names):
        raise ConfigError(f"eval_metric: expected functions of different names, got {', '.join(names)}")
    return metrics


def policies_of(saved: Checkpoint, sides: Mapping[str, Sequence[str]], core: Core) -> dict[str, Policy]:
    """Load the policies that control the agents of an environment, and check that they fit.

    Args:
        saved: The checkpoint.
        sides: Groups or agents that each policy controls, by its name.
        core: The environments.

    Raises:
        CheckpointError: A policy is missing, or its observations or actions differ from its agents'.
    """
    policies = {name: saved.policy(name, core.device) for name in sides}
    for name, members in sides.items():
        check_fits(policies[name], members, core, saved.path / f"policy-{name}.json")
    return policies


def trained_policies(
    saved: Checkpoint, config: TrainConfig, core: Core
) -> tuple[dict[str, list[str]], dict[str, Policy]]:
    """Return the groups or agents of each policy of a run, and its policies, see `policies_of`.

    Behavior cloning may have saved the policies of some groups only.
    """
    sides = members_by_policy(config, core)
    if algorithm_specs.find(config.algorithm).is_imitation:
        sides = {name: members for name, members in sides.items() if name in saved.policies}
    return sides, policies_of(saved, sides, core)


def check_fits(policy: Policy, members: Sequence[str], core: Core, file: Path) -> None:
    """Check that a policy fits the agents of an environment.

    Args:
        policy: The policy.
        members: Groups or agents that it controls.
        core: The environments.
        file: File of the policy, for error messages.

    Raises:
        CheckpointError: Its observations or actions differ from its agents'.
    """
    agents = make_agent_group(core, members)
    if mismatch := policy.mismatch(agents.obs_width, agents.space, len(agent_rows_of(core, members))):
        raise CheckpointError(f"{file}: {mismatch}")


def load_opponents(
    path: Path, env_id: str, sides: Mapping[str, Sequence[str]], core: Core
) -> tuple[Checkpoint, dict[str, Policy]]:
    """Load the policies of another run or checkpoint of the same environment.

    Raises:
        CheckpointError: The checkpoint cannot be read, is of another environment, or its policies do not fit.
    """
    saved = checkpoint.load(path)
    if (actual := saved.config.get("env_id")) != env_id:
        raise CheckpointError(f"{saved.path / 'manifest.json'}: env_id: expected {env_id}, got {actual}")
    return saved, policies_of(saved, sides, core)


@torch.no_grad()
def evaluate_policies(
    core: Core,
    players: Players,
    seed: int,
    greedy: bool = False,
    max_steps: int = 100_000,
    finished_so_far: Callable[[int], None] | None = None,
    engine: str = "auto",
    kernels: KernelPlayers | None = None,
    last_info: Sequence[str] = (),
    metrics: Mapping[str, EpisodeMetric] = NO_METRICS,
) -> EvaluationResult:
    """Play one episode in every environment.

    Args:
        core: Environments with autoreset "same_step" or "next_step"; they play one episode each. If the time
            limit terminates instead of truncating, agents alive at the end do not count as survivors.
        players: Policy of each group or agent; None: random legal actions.
        seed: Random seed of the environments and of sampled actions.
        greedy: Take the most probable actions instead of samples.
        max_steps: Largest number of steps.
        finished_so_far: Called regularly with the number of completed episodes.
        engine: "kernel" plays inside the kernels if they support all policies and no episodes are recorded, "torch"
            never, and "auto" if so many episodes are worth the compilation.
        kernels: Kernels of the same environments, kept for several evaluations; None: new ones.
        last_info: Declared results (`EnvDefinition.results`) or entries of ``info`` with a number per agent, (E, A),
            for `EvaluationResult.last_info`. Kernels record declared results; with other entries "auto" is "torch".
        metrics: Functions of the episodes by name, for `EvaluationResult.metrics`.

    Raises:
        ConfigError: `engine` is "kernel" with an entry of `last_info` that is no declared result, or unknown; or a
            metric does not return one number per episode.
        GpuEnvsError: An episode has not ended after `max_steps`.
    """
    declared = core.definition.results
    if metrics:
        last_info = tuple(dict.fromkeys([*last_info, *declared]))
    in_steps = not set(last_info) <= set(declared)
    if in_steps and engine == "kernel":
        raise ConfigError("engine: expected 'auto' or 'torch', which give infos of steps, got 'kernel'")
    kernels = kernels or KernelPlayers(core)
    if not in_steps and kernels.chosen(players, engine):
        played, names = kernels.play(players, seed, greedy, max_steps, finished_so_far), declared
    else:
        played = _play_in_steps(core, players, seed, greedy, max_steps, finished_so_far, last_info)
        names = last_info
    total, died, length = played.episode_return, played.terminated, played.episode_length.amax(1)
    left = played.episode_length < length.unsqueeze(1)
    ends = {name: played.episode_results[:, :, names.index(name)] for name in last_info}
    agents = {group: make_agent_group(core, [group]) for group in core.groups}
    episodes = FinishedEpisodes(tuple(core.possible_agents), dict(core.groups), total, length, died, ends)
    return EvaluationResult(
        episodes=core.num_envs,
        length=estimate(length),
        returns={group: estimate(total[:, agents[group].rows].sum(1)) for group in core.groups},
        agent_returns={agent: estimate(total[:, row]) for row, agent in enumerate(core.possible_agents)},
        survivors={group: estimate((~died[:, agents[group].rows]).sum(1).float()) for group in core.groups},
        leaves={group: bool(left[:, agents[group].rows].any()) for group in core.groups},
        last_info={
            name: {group: estimate(values[:, agents[group].rows].mean(1)) for group in core.groups}
            for name, values in ends.items()
        },
        metrics={name: estimate(_values(name, metric(episodes), core.num_envs)) for name, metric in metrics.items()},
    )


def _values(name: str, values: Any, count: int) -> Tensor:
    """Return what a metric gave, as a tensor (E,); raise ConfigError if it is something else."""
    try:
        tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        tensor = torch.empty(0)
    if tensor.shape != (count,) or tensor.is_complex():
        raise ConfigError(f"eval_metric {name}: expected one number per episode ({count},), got {shown(values)}")
    return tensor


def record_policies(
    core: Core, players: Players, seed: int, greedy: bool = False, progress: Progress | None = None
) -> tuple[list[Episode], EvaluationResult]:
    """Play and record the first episode of every environment; arguments as of `evaluate_policies`."""

    def report(episodes: int) -> None:
        if progress is not None:
            progress(episodes, "recording")

    with core.record_episodes(range(core.num_envs)) as recorder:
        outcome = evaluate_policies(core, players, seed, greedy, finished_so_far=report)
        return [episode for episode in recorder.take() if episode.number == 0], outcome


def _play_in_steps(
    core: Core,
    players: Players,
    seed: int,
    greedy: bool,
    max_steps: int,
    finished_so_far: Callable[[int], None] | None,
    last_info: Sequence[str],
) -> EpisodeResults:
    """Play one episode in every environment with policies that act between steps, see `evaluate_policies`.

    Returns:
        The results, with returns in float64, and with the entries of info in each agent's last step (E, A, R).
    """
    obs, info = core.reset(seed=seed)
    shape, declared = (core.num_envs, core.num_agents), core.definition.results
    total = torch.zeros(shape, dtype=torch.float64, device=core.device)  # float32 sums of long episodes are inexact
    length = torch.zeros(shape, dtype=torch.int64, device=core.device)
    finished = torch.zeros(shape, dtype=torch.bool, device=core.device)
    died, ends = torch.zeros_like(finished), torch.zeros((*shape, len(last_info)), device=core.device)
    unfinished = torch.ones(core.num_envs, dtype=torch.bool, device=core.device)
    runner = PolicyRunner(core, players)
    for index, policy in enumerate({id(p): p for p in players.values() if p is not None}.values()):
        policy.seed((seed + index) % SEEDS)
    interval = 1 if core.device.type == "cpu" else 16  # steps between two host syncs
    for step in range(max_steps):
        obs, reward, terminated, truncated, info = core.step(runner.act(obs, info, greedy))
        counted = info["valid"] & unfinished.unsqueeze(1)
        done = (terminated | truncated) & counted
        total += reward.masked_fill(~counted, 0.0)
        length = torch.where(done, step + 1, length)
        finished |= done
        died |= terminated & counted
        for name, values in zip(last_info, ends.unbind(-1), strict=True):
            ended = info[name] if name in info else core.episode_results[:, :, declared.index(name)]
            values.copy_(torch.where(done, ended, values))
        unfinished = unfinished & ~finished.all(1)
        if step % interval == 0:
            remaining = int(unfinished.sum())
            if finished_so_far is not None:
                finished_so_far(core.num_envs - remaining)
            if remaining == 0:
                break
    else:
        count = f"{int(unfinished.sum())} of {core.num_envs}"
        raise GpuEnvsError(
            f"{core.id}: {count} episodes lasted over {max_steps} steps; cut them with max_episode_steps"
        )
    return EpisodeResults(finished, died, total, length, ends)


def teams(core: Core, sides: Mapping[str, Sequence[str]], seed: int) -> list[list[str]]:
    """Group policies that are evaluated together: those with agents in one group, and those with equal rewards.

    Two groups have equal rewards if random play gives their agents the same mean return with the same spread.

    Args:
        core: Environments, see `evaluate_policies`.
        sides: Groups or agents that each policy controls, by its name.
        seed: Random seed of the environments.
    """
    earned = evaluate_policies(core, {}, seed).returns
    sizes = {group: len(agents) for group, agents in core.groups.items()}
    spreads = {group: (e.mean / sizes[group], e.half / sizes[group]) for group, e in earned.items()}
    groups_of = {}
    for name, members in sides.items():
        rows = set(agent_rows_of(core, members))
        groups_of[name] = [group for group, agents in core.groups.items() if rows & set(agents)]

    def are_allies(name: str, teammate: str) -> bool:
        pairs = itertools.product(groups_of[name], groups_of[teammate])
        return any(
            group == other or (spreads[group][1] > 0 and np.allclose(spreads[group], spreads[other], rtol=1e-5))
            for group, other in pairs
        )

    result: list[list[str]] = []
    for name in sides:
        allied = [team for team in result if any(are_allies(name, teammate) for teammate in team)]
        result = [team for team in result if team not in allied]
        result.append([*itertools.chain(*allied), name])
    return result


def estimate(samples: Tensor) -> Estimate:
    """Return mean and interval of independent samples (N,)."""
    spread = float(samples.double().std()) if samples.numel() > 1 else math.nan
    return Estimate(float(samples.double().mean()), 1.96 * spread / math.sqrt(samples.numel()))


def by_member(sides: Mapping[str, Sequence[str]], policies: Mapping[str, PolicyProtocol]) -> dict[str, PolicyProtocol]:
    """Return the policy of each group or agent, given the groups or agents that each policy controls."""
    return {member: policies[name] for name, members in sides.items() for member in members}

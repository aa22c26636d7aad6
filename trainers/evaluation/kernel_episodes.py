"""One episode in every environment, with policies that act inside the kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError, GpuEnvsError
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.rollout.episode_results import EpisodeResults
from gpu_envs.runtime.rollout.policy_rollout import PolicyRollout
from trainers.base.agent_group import agent_rows_of
from trainers.base.learner_spec import ENGINES
from trainers.base.seeding import SEEDS
from trainers.base.torch_threads import torch_threads
from trainers.evaluation.policy_runner import Players
from trainers.models.kernel_networks import acts_in_kernels, kernel_policies
from trainers.models.policy import Policy
from warp_kernels.framework.policies import NO_POLICY

__all__ = ["KernelPlayers", "play_episodes"]

MIN_EPISODE_OPERATIONS = 10**9
"""Fewest operations of the networks in all episodes for which kernels are compiled."""

STEPS_PER_LAUNCH = 64
"""Steps between two reports of the progress on a CPU."""
STEPS_PER_SYNC = 16
"""Steps between two checks whether all episodes are over, where a world does not stop by itself."""


def play_episodes(
    core: Core,
    plan: PolicyRollout,
    seed: int,
    *,
    count: int | None = None,
    greedy: bool = False,
    max_steps: int = 100_000,
    progress: Callable[[int], None] | None = None,
) -> EpisodeResults:
    """Reset the environments, and play one episode in each.

    Args:
        core: The environments, with any autoreset.
        plan: Launches with `EpisodeResults`.
        seed: Key of the random streams of the environments.
        count: Number of worlds that play, from the first on; None: all.
        greedy: Take the most probable actions instead of samples.
        max_steps: Largest number of steps of an episode.
        progress: Called regularly with the number of worlds whose episode is over.

    Returns:
        The results in the buffers of the launches.

    Raises:
        GpuEnvsError: An episode has more than `max_steps` steps.
    """
    results, count = plan.trace, core.num_envs if count is None else count
    assert isinstance(results, EpisodeResults)
    if not plan.reset_at_start(seed):
        core.reset(seed=seed)
    results.start(count)
    stops = core.schedule == "fused" and core.device.type == "cpu"
    steps = STEPS_PER_SYNC if not stops else max_steps if progress is None else STEPS_PER_LAUNCH
    played = finished = 0
    while finished < count:
        if played >= max_steps:
            raise GpuEnvsError(
                f"{core.id}: {count - finished} of {count} episodes lasted over {max_steps} steps; "
                "raise max_steps, or cut them with max_episode_steps"
            )
        steps = min(steps, max_steps - played)
        core.rollout(plan, steps, greedy=greedy)
        played += steps
        finished = results.num_finished(count)
        if progress is not None:
            progress(finished)
    return results


class KernelPlayers:
    """Evaluations with policies inside the kernels of one batch of environments."""

    def __init__(self, core: Core, pools: Sequence[Players] = ()) -> None:
        """Compile nothing yet.

        Args:
            core: The environments.
            pools: Policies that will be evaluated; one kernel is compiled for all of them.
        """
        self.core = core
        self.pools: list[Players] = [pool for pool in pools if self.supports(pool)]
        self._plan: PolicyRollout | None = None

    def supports(self, players: Players, engine: str = "kernel") -> bool:
        """Return whether all policies act inside kernels, see `acts_in_kernels`; at least one agent must have one."""
        policies, core = [policy for policy in players.values() if policy is not None], self.core
        if not isinstance(core, Core) or not policies:
            return False
        return all(acts_in_kernels(p, core.device, engine) for p in policies)

    def chosen(self, players: Players, engine: str) -> bool:
        """Return whether an evaluation uses kernels; raise ConfigError if an engine is unknown."""
        if engine not in ENGINES:
            raise ConfigError(f"engine: expected one of {', '.join(ENGINES)}, got {engine!r}")
        if engine == "torch" or not self.supports(players, engine) or self.core.is_recording:
            return False
        networks = [policy.actor for policy in players.values() if isinstance(policy, Policy)]
        weights = max(sum(parameter.numel() for parameter in network.parameters()) for network in networks)
        steps = self.core.num_envs * self.core.num_agents * (self.core.definition.max_episode_steps or 1)
        return engine == "kernel" or 2 * weights * steps >= MIN_EPISODE_OPERATIONS

    def play(
        self,
        players: Players,
        seed: int,
        greedy: bool,
        max_steps: int,
        progress: Callable[[int], None] | None = None,
    ) -> EpisodeResults:
        """Play one episode in every environment; arguments as of `evaluate_policies`."""
        core = self.core
        pools = [players] if self._plan else [players, *self.pools]
        policies = list(
            {id(policy): policy for pool in pools for policy in pool.values() if isinstance(policy, Policy)}.values()
        )
        index = torch.stack([_index(core, pool, policies) for pool in pools])
        packed = kernel_policies(policies, core.device, seed % SEEDS)
        matchup = torch.zeros(core.num_envs, dtype=torch.int64)
        if self._plan is None:
            results = EpisodeResults.allocate(core)
            self._plan = PolicyRollout(core, packed, index, results, matchup=matchup, flexible=True)
        else:
            self._plan.assign(packed, index, matchup)
        with torch_threads(1):
            return play_episodes(core, self._plan, seed, greedy=greedy, max_steps=max_steps, progress=progress)


def _index(core: Core, players: Players, policies: Sequence[Policy]) -> Tensor:
    """Return the place of every agent's policy among policies (A,), -1 without one."""
    index, places = torch.full((core.num_agents,), NO_POLICY), {id(p): slot for slot, p in enumerate(policies)}
    for member, policy in players.items():
        if policy is not None:
            index[agent_rows_of(core, [member])] = places[id(policy)]
    return index

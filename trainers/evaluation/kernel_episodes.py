"""One episode in every environment, with policies that act inside the kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpu_envs.errors import ConfigError, GpuEnvsError
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from gpu_envs.runtime.rollout.policy_rollout import PolicyRollout
from gpu_envs.runtime.rollout.trace import EpisodeResults
from trainers.base.agent_group import agent_rows_of
from trainers.base.learner_spec import ENGINES
from trainers.base.random_streams import SEEDS
from trainers.base.torch_threads import torch_threads
from trainers.models.kernel_networks import acts_in_kernels, kernel_policies
from trainers.models.policy import Policy, PolicyProtocol
from trainers.models.policy_set import Players
from warp_kernels.framework.policies import NO_POLICY

MIN_EPISODE_OPERATIONS = 10**9
"""Fewest operations of the networks in all episodes for which kernels are compiled."""

STEPS_PER_LAUNCH = 64
"""Steps between two reports of the progress on a CPU."""
STEPS_PER_SYNC = 16
"""Steps between two checks whether all episodes are over, where a world does not stop by itself."""


class Networks:
    """Different networks, and the numbers by which kernels know them."""

    def __init__(self, first: int = 0) -> None:
        """Start without a network; the first one will have the number `first`."""
        self.members: list[Policy] = []
        self._first = first
        self._numbers: dict[int, int] = {}  # by id of a network

    def number(self, policy: PolicyProtocol | None) -> int:
        """Return the number of a network, which is added if it is new, or NO_POLICY of random play."""
        if not isinstance(policy, Policy):
            return NO_POLICY
        if id(policy) not in self._numbers:
            self._numbers[id(policy)] = self._first + len(self.members)
            self.members.append(policy)
        return self._numbers[id(policy)]


class KernelPlayers:
    """Policies inside the kernels of one batch of environments, which have the same launches in all episodes."""

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
        core, networks, pools = self.core, Networks(), [players] if self._plan else [players, *self.pools]
        index = np.full((len(pools), core.num_agents), NO_POLICY)
        for row, pool in zip(index, pools, strict=True):
            for member, policy in pool.items():
                row[agent_rows_of(core, [member])] = networks.number(policy)
        policies, matchup = kernel_policies(networks.members, core.device), np.zeros(core.num_envs, np.int64)
        with torch_threads(1):
            return self.play_matchups(
                policies, index, matchup, seed, greedy=greedy, max_steps=max_steps, progress=progress
            )

    def play_matchups(
        self,
        policies: Sequence[KernelPolicy],
        index: np.ndarray,
        matchup: np.ndarray,
        seed: int,
        *,
        count: int | None = None,
        greedy: bool = False,
        max_steps: int = 100_000,
        progress: Callable[[int], None] | None = None,
    ) -> EpisodeResults:
        """Reset the environments, and play one episode in each.

        Args:
            policies: P policies.
            index: (R, A) int64, policy of every agent by matchup; -1 for random legal actions.
            matchup: (E,) int64, matchup of every environment. Those with equal policies are faster if they are
                adjacent, as they act together and use the same weights.
            seed: Key of the random streams of the environments and of the policies.
            count: Number of environments that play, from the first on; None: all.
            greedy: Take the most probable actions instead of samples.
            max_steps: Largest number of steps of an episode.
            progress: Called regularly with the number of environments whose episode is over.

        Returns:
            The results in the buffers of the launches.

        Raises:
            GpuEnvsError: An episode has more than `max_steps` steps.
        """
        core, count, plan = self.core, self.core.num_envs if count is None else count, self._plan
        if plan is None:
            buffers = EpisodeResults.allocate(core)
            plan = self._plan = PolicyRollout(core, policies, index, buffers, matchup=matchup, flexible=True)
        else:
            plan.assign(policies, index, matchup)
        plan.reseed(seed % SEEDS)
        if not plan.reset_at_start(seed):
            core.reset(seed=seed)
        results = plan.trace
        assert isinstance(results, EpisodeResults)
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

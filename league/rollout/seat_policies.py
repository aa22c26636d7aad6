"""Many policies in one seat: every world has its own policy, and policies of equal shape act in one batched call.

The worlds of a policy are divided into blocks of equal size, and every block gets a copy of its policy's weights, so
that every layer is one batched product. On a GPU the number of blocks is bounded in advance, so that no host
synchronization is necessary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.utils.observed_turns import ObservedTurns
from league.game import Seat, SeatPart, seat_parts
from league.policies.random import RandomPolicy
from league.policies.team import TeamPolicy
from league.rollout.policy_groups import SameShapePolicies, SeatStep, SinglePolicy
from league.rollout.policy_weights_cache import PolicyWeightsCache, weight_bytes
from trainers.base.agent_group import AgentGroup, agent_rows_of, make_agent_group, make_mixed_group
from trainers.base.seeding import SEEDS
from trainers.base.serialization import check_tensors
from trainers.base.state import State, restore_generator
from trainers.models.action_heads import spec_like
from trainers.models.batched_policies import BatchedPolicies, can_batch
from trainers.models.policy import Policy, PolicyProtocol

__all__ = ["BUDGET", "NO_POLICY", "SeatPolicies", "check_seat_policy"]

NO_POLICY = -1
"""Index of a seat without a policy."""
BUDGET = 2**30
"""Default limit of the weights on a device [bytes]."""


class SeatPolicies:
    """N frozen policies in one seat of a core's E worlds, one of them in each world.

    Weights are copied at construction; later changes of the policies have no effect.
    """

    def __init__(self, policies: Sequence[PolicyProtocol], core: Core, seat: Seat, budget: int = BUDGET) -> None:
        """Group the policies by shape; no world has a policy yet.

        Args:
            policies: Policies. Networks can be on the host or on the core's device, others on the core's device only.
            core: Worlds. An episode starts where `core.elapsed_steps` is 0.
            seat: Seat whose agents act.
            budget: Limit of the stacked weights on the core's device [bytes]. Further weights stay on the host, and the
                least recently used ones are replaced. The blocks of a step need additional memory, at most five times
                the weights of the policies in play.

        Raises:
            ConfigError: A policy does not fit the seat.
        """
        self.core: Core = core
        self.agents: AgentGroup = make_mixed_group(core, seat.members)
        self.size: int = len(policies)
        count = len(agent_rows_of(core, seat.members))
        self._generator = torch.Generator(core.device)
        groups: list[list[int]] = []
        for index, policy in enumerate(policies):
            check_seat_policy(policy, index, core, seat, self.agents, count)
            for group in groups:
                if can_batch(policies[group[0]], policy):
                    group.append(index)
                    break
            else:
                groups.append([index])
        batches = {
            group[0]: BatchedPolicies([policy for index in group if isinstance(policy := policies[index], Policy)])
            for group in groups
            if can_batch(policies[group[0]], policies[group[0]])
        }
        weight = sum(weight_bytes(batch) for batch in batches.values())
        self.parts: list[SameShapePolicies | SinglePolicy] = []
        order: list[int] = []
        for group in groups:
            first, hidden_state = policies[group[0]], policies[group[0]].initial_hidden_state(core.num_envs, count)
            hidden_state = None if hidden_state is None else hidden_state.to(core.device)
            if batch := batches.get(group[0]):
                batch.generator = self._generator
                room = len(group) if weight <= budget else max(int(budget / weight * len(group)), 1)
                weights = PolicyWeightsCache(batch, room, core.device)
                self.parts.append(SameShapePolicies(core, len(order), hidden_state, weights))
            else:
                self.parts.append(SinglePolicy(core, len(order), hidden_state, first))
            order += group
        self._slot = torch.empty(self.size + 1, dtype=torch.int64)  # of a policy in the order of the parts
        self._slot[torch.tensor([*order, self.size])] = torch.arange(self.size + 1)  # the last slot: NO_POLICY
        self._slot_on_device = self._slot.to(core.device)
        self.on_cpu: bool = core.device.type == "cpu"
        self.turns: ObservedTurns | None = None
        if core.to_move is not None and any(part.hidden_state is not None for part in self.parts):
            self.turns = ObservedTurns((core.num_envs, count, core.obs_width), core.device)
        self.paged: bool = any(isinstance(part, SameShapePolicies) and part.weights.paged for part in self.parts)
        self.seed(0)
        self.assign(torch.full((core.num_envs,), NO_POLICY))

    def seed(self, seed: int) -> None:
        """Seed the random streams of action samples, including the streams of single policies."""
        self._generator.manual_seed(seed % SEEDS)
        for part in self.parts:
            if isinstance(part, SinglePolicy):
                part.policy.seed((seed + 1 + part.first) % SEEDS)

    def assign(self, indices: Tensor) -> None:
        """Set the policy of every world. Hidden states are kept; they are cleared where an episode starts.

        Args:
            indices: (E,) int64, indices of policies, -1 for none. A tensor on the host limits the computation to the
                rows of each policy, on a GPU too. A tensor on the GPU is not copied to the host, unless weights have to
                be copied from the host: then there is one host synchronization per call.
        """
        if self.paged:
            indices = indices.cpu()
        if indices.device.type != "cpu":
            self.assign_on_device(indices)
            return
        slot, worlds = self._slot[indices].sort(stable=True)
        ends = torch.bincount(slot, minlength=self.size + 1).cumsum(0).tolist()
        for part in self.parts:
            span = slice(ends[part.first - 1] if part.first else 0, ends[part.first + part.size - 1])
            part.assign(worlds[span], slot[span] - part.first)

    def assign_on_device(self, indices: Tensor) -> None:
        """Set the policy of every world without host synchronization, with shapes that do not depend on the indices."""
        slot = self._slot_on_device[indices]  # -1 is the last one
        for part in self.parts:
            part.assign_on_device(slot)

    def act(self, obs: Tensor, info: Mapping[str, Tensor], greedy: bool = False, into: Tensor | None = None) -> Tensor:
        """Write the actions of the seat's agents in all worlds with a policy.

        Args:
            obs: (E, A, D), observations of all agents.
            info: Info of the core, with "alive" and optionally "action_mask" and "to_move". On a CPU, worlds in which
                no agent of the seat acts are skipped.
            greedy: Take the most probable actions instead of samples.
            into: Actions of all agents (E, A[, K]); None: random legal actions.

        Returns:
            `into`.
        """
        into = self.core.sample_actions() if into is None else into
        rows = self.agents.rows
        step = SeatStep(obs[:, rows], self.agents.mask(info.get("action_mask")), greedy, rows, into)
        begins = self.core.elapsed_steps == 0
        if self.turns is not None:
            step.advances = self.turns.step(step.obs, info["to_move"][:, rows], begins)
        if self.on_cpu:
            alive = _any_agent(info["alive"][:, rows])
            step.on_move = _any_agent(info["to_move"][:, rows]) if "to_move" in info else alive
            step.observing = alive if step.advances is None else alive & _any_agent(step.advances)
        for part in self.parts:
            if part.hidden_state is not None:
                part.hidden_state.masked_fill_(begins[:, None, None], 0.0)
            part.act(step)
        return into

    @property
    def generators(self) -> list[torch.Generator]:
        """Random streams of action samples: the shared one, and the streams of single policies."""
        alone = [part.policy for part in self.parts if isinstance(part, SinglePolicy)]
        streams = [getattr(policy, "generator", None) for policy in alone]
        return [self._generator, *(stream for stream in streams if stream is not None)]

    def state_dict(self) -> dict[str, Tensor]:
        """Return random streams (bytes,), hidden states (E, n, H) and what agents observed last, by name."""
        state = {f"stream.{index}": generator.get_state() for index, generator in enumerate(self.generators)}
        hidden = {f"hidden_state.{index}": part.hidden_state for index, part in enumerate(self.parts)}
        hidden["observed"] = None if self.turns is None else self.turns.earlier
        return state | {name: tensor.clone() for name, tensor in hidden.items() if tensor is not None}

    def load_state_dict(self, state: State) -> None:
        """Restore a `state_dict` of equal policies; raise CheckpointError if it does not fit."""
        tensors = check_tensors("ensemble", state, self.state_dict())
        for index, generator in enumerate(self.generators):
            restore_generator(f"ensemble stream.{index}", generator, tensors[f"stream.{index}"])
        for index, part in enumerate(self.parts):
            if part.hidden_state is not None:
                part.hidden_state.copy_(tensors[f"hidden_state.{index}"])
        if self.turns is not None:
            self.turns.earlier.copy_(tensors["observed"])


def _any_agent(flags: Tensor) -> Tensor:
    """Return whether a flag (E, n) of any agent is set, (E,)."""
    return flags[:, 0] if flags.shape[1] == 1 else flags.any(1)


def check_seat_policy(
    policy: PolicyProtocol, index: int, core: Core, seat: Seat, agents: AgentGroup, count: int
) -> None:
    """Raise ConfigError if a network has other observations, actions or agents than the seat, or a team other parts."""
    parts = seat_parts(core, seat.members)
    if len(parts) > 1:
        _check_team(policy, index, core, seat, parts)
        return
    if not isinstance(policy, Policy):
        return
    action = policy.spec["action"]
    for name, expected, actual in (
        ("obs_width", agents.obs_width, policy.obs_width),
        ("action", spec_like(action, agents.space), action),
        ("ids", count if policy.ids else 0, policy.ids),
    ):
        if expected != actual:
            raise ConfigError(
                f"{core.id}: seat {seat.name}: policy {index}: {name}: expected {expected} as in this environment, "
                f"got {actual}"
            )


def _check_team(policy: PolicyProtocol, index: int, core: Core, seat: Seat, parts: Sequence[SeatPart]) -> None:
    """Raise ConfigError if a policy is one network or random policy, or a member of a team does not fit its agents."""
    if isinstance(policy, Policy | RandomPolicy):
        raise ConfigError(
            f"{core.id}: seat {seat.name}: policy {index}: expected a team, because its agents differ in action space, "
            f"got a {type(policy).__name__}"
        )
    if not isinstance(policy, TeamPolicy):
        return
    rows = agent_rows_of(core, seat.members)
    for positions, member in zip(policy.places, policy.members, strict=True):
        if not any(set(positions) <= set(part.places) for part in parts):
            raise ConfigError(
                f"{core.id}: seat {seat.name}: policy {index}: expected members for agents of one action space, got "
                f"one for the agents {positions}"
            )
        names = [core.possible_agents[rows[i]] for i in positions]
        check_seat_policy(
            member, index, core, Seat(seat.name, seat.role, tuple(names)), make_agent_group(core, names), len(names)
        )

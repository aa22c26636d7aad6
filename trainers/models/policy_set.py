"""Policies that act between the steps of a batch of worlds: in every world and seat one of them, or none.

Policies of equal shape act in one batched call: the worlds of a policy are divided into blocks of equal size, and every
block gets a copy of its policy's weights, so that every layer is one batched product. On a GPU the number of blocks is
bounded in advance, so that no host synchronization is necessary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_envs.errors import CheckpointError
from gpu_envs.runtime.core import Core
from gpu_envs.utils.agent_rows import hide_dead, hides_dead
from gpu_envs.utils.observed_turns import ObservedTurns
from gpu_envs.utils.tensor_checks import check_tensor
from trainers.base.agent_group import AgentGroup, DecisionClock, agent_rows_of, make_agent_group, make_mixed_group
from trainers.base.random_streams import SEEDS
from trainers.base.serialization import check_tensors
from trainers.base.state import State, restore_generator
from trainers.models.batched_policies import BatchedPolicies, can_batch
from trainers.models.policy import Policy, PolicyProtocol, fit_inputs

MIN_ROWS = 16
"""Smallest number of rows of a block if policies have unequal numbers of worlds."""


class PolicySet:
    """N frozen policies in S seats of n agents, one of them in each world of a seat.

    The E worlds count once for every seat: W = S * E worlds, first those of the first seat. Weights are copied when the
    policies first act, because a training whose opponents act inside kernels needs no copies; later changes of them
    have no effect.
    """

    def __init__(
        self, policies: Sequence[PolicyProtocol], core: Core, seats: Sequence[Sequence[str]], seed: int | None = None
    ) -> None:
        """Copy nothing yet; no world has a policy.

        Args:
            policies: Policies. Networks can be on the host or on the core's device, others on the core's device only.
            core: Worlds. An episode starts where `core.elapsed_steps` is 0.
            seats: Groups or agents of every seat, with equal action spaces.
            seed: Random seed of one stream of all networks; worlds in which no agent of a seat acts are then skipped on
                a CPU. None: every batch has the stream of its first network, and a single policy its own stream and
                its interval between decisions.

        Raises:
            ConfigError: The agents of a seat differ in action space.
        """
        self.core: Core = core
        self.policies: list[PolicyProtocol] = list(policies)
        make = make_agent_group if any(isinstance(policy, Policy) for policy in policies) else make_mixed_group
        self.agents: list[AgentGroup] = [make(core, members) for members in seats]
        self.members: list[str] = [member for members in seats for member in members]
        self.num_agents: int = len(agent_rows_of(core, seats[0]))
        self.num_worlds: int = len(seats) * core.num_envs
        self.skips: bool = seed is not None and core.device.type == "cpu"
        """Whether worlds in which no agent of a seat acts are skipped."""
        self.clock: DecisionClock | None = None
        """Clock of the decisions of a single policy, if it does not decide in every step."""
        if seed is None and (interval := _decision_interval(policies[0])) > 1:
            self.clock = DecisionClock(interval, self.agents[0], core)
        self.parts: list[_Part] = []
        self._is_prepared = False
        self._first_seed = self._seed = seed
        self._state: State = {}  # random streams and hidden states to restore after the seed

    def prepare(self) -> bool:
        """Copy the weights of the policies if copies are missing or outdated, and return whether they were."""
        if self._is_prepared:
            return False
        self._is_prepared, core, policies = True, self.core, self.policies
        self._generator = None if self._first_seed is None else torch.Generator(core.device)
        groups: list[list[int]] = []
        for index, policy in enumerate(policies):
            for group in groups:
                if can_batch(policies[group[0]], policy):
                    group.append(index)
                    break
            else:
                groups.append([index])
        self.parts, order = [], list[int]()
        for group in groups:
            first = policies[group[0]]
            networks = [policy for index in group if isinstance(policy := policies[index], Policy)]
            if can_batch(first, first) and (self._generator is not None or len(networks) > 1):
                members = BatchedPolicies(networks).to(core.device)
                members.generator = self._generator or members.generator
            else:
                members = _SinglePolicy(first, core, self.members, (self.num_agents, *_components(core, self.members)))
            hidden_state = first.initial_hidden_state(self.num_worlds, self.num_agents)
            hidden_state = None if hidden_state is None else hidden_state.to(core.device)
            self.parts.append(_Part(len(order), members, hidden_state, core.device))
            order += group
        self._slot = torch.empty(len(policies) + 1, dtype=torch.int64)  # of a policy in the order of the parts
        self._slot[torch.tensor([*order, len(policies)])] = torch.arange(len(policies) + 1)  # the last slot: no policy
        self._slot_on_device = self._slot.to(core.device)
        self._hides_dead = hides_dead(*policies)
        self._turns: ObservedTurns | None = None
        has_turns = core.to_move is not None or self.clock is not None
        if has_turns and any(part.hidden_state is not None for part in self.parts):
            self._turns = ObservedTurns((self.num_worlds, self.num_agents, core.obs_width), core.device)
        self.assign(torch.full((self.num_worlds,), -1))
        if self._seed is not None:
            self.seed(self._seed)
        self.load_state_dict(self._state)
        self._state = {}
        return True

    def replace(self, policies: Sequence[PolicyProtocol]) -> None:
        """Replace the policies; the ones in play keep their hidden states and random streams."""
        if self._is_prepared:
            self._state, self._seed, self._is_prepared = self.state_dict(), self._first_seed, False
        self.policies = list(policies)

    def seed(self, seed: int) -> None:
        """Seed the random stream of the set, and the streams of policies that act alone."""
        if not self._is_prepared:
            self._seed = seed
            self._state = {name: value for name, value in self._state.items() if not name.startswith("stream.")}
            return
        if self._generator is not None:
            self._generator.manual_seed(seed % SEEDS)
        for part in self.parts:
            if isinstance(part.policies, _SinglePolicy):
                part.policies.policy.seed((seed + 1 + part.first) % SEEDS)

    def assign(self, indices: Tensor) -> None:
        """Set the policy of every world. Hidden states are kept; they are cleared where an episode starts.

        Args:
            indices: (W,) int64, indices of policies, -1 for none. A tensor on the host limits the computation to the
                rows of each policy, on a GPU too. A tensor on the GPU is not copied to the host.
        """
        self.prepare()
        if indices.device.type != "cpu":
            self.assign_on_device(indices)
            return
        slot, worlds = self._slot[indices].sort(stable=True)
        ends = torch.bincount(slot, minlength=len(self._slot)).cumsum(0).tolist()
        for part in self.parts:
            span = slice(ends[part.first - 1] if part.first else 0, ends[part.first + part.size - 1])
            part.assign(worlds[span], slot[span] - part.first)

    def assign_on_device(self, indices: Tensor) -> None:
        """Set the policy of every world without host synchronization, with shapes that do not depend on the indices."""
        self.prepare()
        slot = self._slot_on_device[indices]  # -1 is the last one
        for part in self.parts:
            part.assign_on_device(slot)

    def act(self, obs: Tensor, info: Mapping[str, Tensor], into: Tensor, greedy: bool = False) -> None:
        """Write the actions of the seats' agents in all worlds with a policy.

        Args:
            obs: (E, A, D), observations of all agents.
            info: Info of the core, with "alive" and optionally "action_mask" and "to_move".
            into: Actions of all agents (E, A[, K]); worlds without a policy keep them.
            greedy: Take the most probable actions instead of samples.

        Raises:
            ActionError: The action of a policy that is no network has the wrong shape, dtype or device.
        """
        self.prepare()
        core, agents, parts = self.core, self.agents, len(self.agents)

        def of_seats(values: Tensor) -> Tensor:
            """Return values of all agents (E, A, ...) by seat (W, n, ...)."""
            by_seat = [values[:, group.rows] for group in agents]
            return torch.cat(by_seat) if parts > 1 else by_seat[0]

        if self._hides_dead:
            obs = hide_dead(obs, info["alive"])
        mask = of_seats(info["action_mask"])[..., : agents[0].choices] if "action_mask" in info else None
        to_move = of_seats(info["to_move"]) if "to_move" in info else None
        if self.clock is not None:
            to_move = self.clock.decides(core, mask, to_move)
        begins = core.elapsed_steps == 0  # the step counter is 0 at the start of an episode
        begins = begins.repeat(parts) if parts > 1 else begins
        action = of_seats(into)
        step = _Step(of_seats(obs), mask, greedy, action)
        if self._turns is not None and to_move is not None:
            step.advances = self._turns.step(step.obs, to_move, begins)
        if self.skips:
            is_alive = _any_agent(of_seats(info["alive"]))
            step.on_move = is_alive if to_move is None else _any_agent(to_move)
            step.observing = is_alive if step.advances is None else is_alive & _any_agent(step.advances)
        for part in self.parts:
            if part.hidden_state is not None:
                part.hidden_state.masked_fill_(begins[:, None, None], 0.0)
            part.act(step)
        if self.clock is not None and to_move is not None:
            action = self.clock.hold(action[..., : self.clock.held.shape[-1]], to_move)
        elif parts == 1 and isinstance(agents[0].rows, slice):
            return  # a view of `into`
        for group, actions in zip(agents, action.split(core.num_envs), strict=True):
            group.scatter_actions(actions, into)

    @property
    def generators(self) -> list[torch.Generator]:
        """Random streams of action samples: of the set, and of policies that act alone; none before `prepare`."""
        if not self._is_prepared:
            return []
        singles = [part.policies.policy for part in self.parts if isinstance(part.policies, _SinglePolicy)]
        streams = [self._generator, *(getattr(policy, "generator", None) for policy in singles)]
        return [stream for stream in streams if stream is not None]

    def state_dict(self) -> State:
        """Return random streams (bytes,), hidden states (W, n, H) and what agents observed last, by name.

        Before `prepare`, it is the seed and what will be restored.
        """
        if not self._is_prepared:
            return self._state if self._seed is None else {**self._state, "seed": self._seed}
        return {**self._tensors()}

    def load_state_dict(self, state: State) -> None:
        """Restore the entries of a `state_dict` that fit; others, such as of more policies, keep their values.

        Raises:
            CheckpointError: An entry is damaged.
        """
        if (seed := state.get("seed")) is not None:
            if type(seed) is not int or not 0 <= seed < SEEDS:
                members = ", ".join(self.members)
                raise CheckpointError(f"policies of {members}: seed: expected an int from 0, got {seed!r:.80}")
            self.seed(seed)
        if not self._is_prepared:
            self._state = {name: value for name, value in state.items() if name != "seed"}
            return
        current = self._tensors()
        shapes = {name: value.shape for name, value in state.items() if isinstance(value, Tensor)}
        fitting = {name: state[name] for name, value in current.items() if shapes.get(name) == value.shape}
        tensors = check_tensors("policies", {**current, **fitting}, current)
        for index, generator in enumerate(self.generators):
            restore_generator(f"policies stream.{index}", generator, tensors[f"stream.{index}"])
        for name, tensor in self._memory().items():
            tensor.copy_(tensors[name])

    def _tensors(self) -> dict[str, Tensor]:
        streams = {f"stream.{index}": generator.get_state() for index, generator in enumerate(self.generators)}
        return streams | {name: tensor.clone() for name, tensor in self._memory().items()}

    def _memory(self) -> Mapping[str, Tensor]:
        hidden = {f"hidden_state.{index}": part.hidden_state for index, part in enumerate(self.parts)}
        hidden["observed"] = None if self._turns is None else self._turns.earlier
        return {name: tensor for name, tensor in hidden.items() if tensor is not None}


Players = Mapping[str, PolicyProtocol | None]
"""Policy of each group or agent, by its name; agents with None or without an entry take random actions."""


class PolicyRunner:
    """Query policies for the actions of their agents, and keep the hidden states of recurrent policies.

    Policies with equal networks and the same number of agents act in one batch.
    """

    def __init__(self, core: Core, players: Players) -> None:
        """Start with zero hidden states, as after a reset of all environments."""
        self.core: Core = core
        self.sets: list[PolicySet] = []
        seats = [
            (policy, [name for name, player in players.items() if player is policy])  # all of its agents act at once
            for policy in {id(policy): policy for policy in players.values() if policy is not None}.values()
        ]
        batches: dict[int, list[int]] = {}  # seats by the first one of a batch
        for index, (policy, names) in enumerate(seats):
            for first, batch in batches.items():
                is_alike = can_batch(seats[first][0], policy) and _decision_interval(policy) == 1
                if is_alike and len(agent_rows_of(core, seats[first][1])) == len(agent_rows_of(core, names)):
                    batch.append(index)
                    break
            else:
                batches[index] = [index]
        for batch in batches.values():
            policies = PolicySet([seats[index][0] for index in batch], core, [seats[index][1] for index in batch])
            policies.assign(torch.arange(len(batch)).repeat_interleave(core.num_envs))
            self.sets.append(policies)

    def act(self, obs: Tensor, info: Mapping[str, Tensor], greedy: bool = False) -> Tensor:
        """Return the actions of all agents, (E, A) or (E, A, K); agents without a policy take random legal actions.

        Raises:
            ActionError: The action of a scripted policy has the wrong shape, dtype or device.
        """
        action = self.core.sample_actions()
        for policies in self.sets:
            policies.act(obs, info, action, greedy)
        return action


@dataclass
class _Step:
    """Arguments of `PolicySet.act` by seat, and the worlds that policies skip."""

    obs: Tensor
    mask: Tensor | None
    greedy: bool
    into: Tensor
    advances: Tensor | None = None
    """(W, n) agents that advance their hidden state, see `gpu_envs.utils.observed_turns`; None: all."""
    on_move: Tensor | None = None
    """(W,) worlds in which policies without a hidden state act; None: all."""
    observing: Tensor | None = None
    """(W,) worlds in which policies with a hidden state act; None: all."""

    def remembered(self, previous: Tensor, current: Tensor, worlds: Tensor | None = None) -> Tensor:
        """Return the hidden states (R, n, H) after the step, of some worlds (R,) or all."""
        if self.advances is None:
            return current
        advances = self.advances if worlds is None else self.advances.index_select(0, worlds)
        return torch.where(advances.unsqueeze(-1), current, previous)


class _SinglePolicy:
    """A policy that acts in a separate call, as `BatchedPolicies` of one."""

    size, obs_width = 1, None

    def __init__(self, policy: PolicyProtocol, core: Core, members: Sequence[str], shape: tuple[int, ...]) -> None:
        """Use a policy of agents whose actions have the shape (n[, k])."""
        self.policy: PolicyProtocol = policy
        self.core: Core = core
        self.subject: str = f"scripted: action of {', '.join(members)}"
        self.shape: tuple[int, ...] = shape
        self.reads_core: bool = getattr(policy, "core", None) is core  # it acts for all worlds of its core

    def act(self, obs: Tensor, mask: Tensor | None, greedy: bool, hidden_state: Tensor | None) -> Tensor:
        """Return actions (1, R, n[, k]), see `BatchedPolicies.act`."""
        inputs = fit_inputs(self.policy, obs[0], None if mask is None else mask[0])
        action = self.policy.act(*inputs, greedy, None if hidden_state is None else hidden_state[0])
        if not isinstance(self.policy, Policy):  # it may return anything
            shape, core = (obs.shape[1], *self.shape), self.core
            check_tensor(core.id, self.subject, action, shape, core.action_buffer.dtype, core.device)
        return action.unsqueeze(0)


@dataclass
class _Blocks:
    """Rows of a batched call."""

    policies: BatchedPolicies | _SinglePolicy
    """One policy per block."""
    height: int
    """Number of rows per block."""
    worlds: Tensor
    """(R,) worlds in the order of their policies."""
    rows: Tensor | None = None
    """(R,) row of each world among the rows of all blocks; None: in order."""
    sources: Tensor | None = None
    """World of each row (blocks * height,); None: the rows are all worlds in order."""

    @classmethod
    def of(cls, policies: BatchedPolicies, height: int, worlds: Tensor, rows: Tensor) -> _Blocks:
        """Return blocks whose unused rows repeat a world; rows beyond the last one are dropped."""
        sources = worlds[:1].expand(policies.size * height + 1).clone()  # the last row is a dump
        return cls(policies, height, worlds, rows, sources.index_copy_(0, rows, worlds)[:-1])


class _Part:
    """Policies that act in one call."""

    def __init__(
        self, first: int, policies: BatchedPolicies | _SinglePolicy, hidden_state: Tensor | None, device: torch.device
    ) -> None:
        """Use policies with slots from `first` on and hidden states (W, n, H)."""
        self.first: int = first
        self.hidden_state: Tensor | None = hidden_state
        self.policies: BatchedPolicies | _SinglePolicy = policies
        self.size: int = policies.size
        self.device: torch.device = device
        self.blocks: _Blocks | None = None
        self.plays: Tensor | None = None

    def assign(self, worlds: Tensor, local: Tensor) -> None:
        """Assign the worlds (R,) to the policies `local` (R,), ascending; both on the host."""
        self.worlds: Tensor = worlds
        self.local: Tensor = local
        self.plays = self.blocks = None
        if self.device.type != "cpu" and len(worlds):
            self.blocks = self._blocks(worlds, local)

    def assign_on_device(self, slot: Tensor) -> None:
        """Assign the worlds of the slots (W,) that are its policies', without host synchronization."""
        local = slot - self.first
        self.plays = (local >= 0) & (local < self.size)
        if isinstance(self.policies, _SinglePolicy):
            self.blocks = _Blocks(self.policies, len(slot), slot)
            return
        local, worlds = torch.where(self.plays, local, self.size).sort(stable=True)
        height = max(-(-len(slot) // (4 * self.size)), MIN_ROWS)
        counts = torch.zeros(self.size + 1, dtype=torch.int64, device=slot.device)
        counts.index_add_(0, local, torch.ones_like(local))
        blocks = (counts[:-1] + height - 1) // height
        bound = len(slot) // height + self.size
        owner = torch.searchsorted(blocks.cumsum(0), torch.arange(bound, device=slot.device), right=True)
        rows = _block_rows(local, counts, torch.cat([blocks, blocks.new_zeros(1)]), height)
        rows = torch.where(local < self.size, rows, bound * height)  # worlds of other policies go to the dump
        self.blocks = _Blocks.of(self.policies.select(owner.clamp(max=self.size - 1)), height, worlds, rows)

    def act(self, step: _Step) -> None:
        """Write the actions of its worlds."""
        active = step.on_move if self.hidden_state is None else step.observing
        if self.plays is None and active is not None:
            indices = active.index_select(0, self.worlds).nonzero()[:, 0]
            if len(indices) < len(self.worlds):
                if len(indices):
                    worlds, local = self.worlds.index_select(0, indices), self.local.index_select(0, indices)
                    self._act(step, self._blocks(worlds, local))
                return
        if self.blocks is None and len(self.worlds):
            self.blocks = self._blocks(self.worlds, self.local)
        if self.blocks is not None:
            self._act(step, self.blocks)

    def _blocks(self, worlds: Tensor, local: Tensor) -> _Blocks:
        """Return the blocks of worlds (R,) with policies `local` (R,), ascending; both on the host."""
        on_device = worlds.to(self.device)
        if isinstance(policy := self.policies, _SinglePolicy):
            if policy.reads_core:
                return _Blocks(policy, policy.core.num_envs, on_device, on_device)
            return _Blocks(policy, len(worlds), on_device, None, on_device)
        counts = torch.bincount(local, minlength=self.size)
        highest, playing = int(counts.max()), int(counts.count_nonzero())
        mean = len(local) / playing
        height = highest if highest <= 1.25 * mean else max(-(-len(local) // (4 * playing)), MIN_ROWS)
        blocks = (counts + height - 1) // height
        owner = torch.repeat_interleave(torch.arange(self.size), blocks).to(self.device)
        rows = _block_rows(local, counts, blocks, height).to(self.device)
        return _Blocks.of(policy.select(owner), height, on_device, rows)

    def _act(self, step: _Step, blocks: _Blocks) -> None:
        policies, worlds, rows = blocks.policies, blocks.worlds, blocks.rows

        def in_blocks(values: Tensor) -> Tensor:
            """Return values (W, n, ...) as (blocks, height, n, ...)."""
            values = values if blocks.sources is None else values.index_select(0, blocks.sources)
            return values.unflatten(0, (policies.size, blocks.height))

        hidden_state = None if self.hidden_state is None else in_blocks(self.hidden_state)
        if hidden_state is not None and blocks.sources is None:
            hidden_state = hidden_state.clone()
        mask = None if step.mask is None else in_blocks(step.mask)
        obs = in_blocks(step.obs[..., : policies.obs_width])
        action = policies.act(obs, mask, step.greedy, hidden_state).flatten(0, 1)
        into = step.into if step.into.ndim == 2 else step.into[..., : action.shape[-1]]
        memory = None if hidden_state is None else hidden_state.flatten(0, 1)
        if self.plays is None:
            into.index_copy_(0, worlds, action if rows is None else action.index_select(0, rows))
            if self.hidden_state is not None and memory is not None:
                current = memory if rows is None else memory.index_select(0, rows)
                previous = self.hidden_state.index_select(0, worlds)
                self.hidden_state.index_copy_(0, worlds, step.remembered(previous, current, worlds))
            return
        if rows is not None:
            rows = torch.empty_like(rows).index_copy_(0, worlds, rows).clamp(max=len(action) - 1)
            action, memory = action[rows], None if memory is None else memory[rows]
        into.copy_(torch.where(self.plays.view(-1, *[1] * (action.ndim - 1)), action, into))
        if self.hidden_state is not None and memory is not None:
            current = step.remembered(self.hidden_state, memory)
            self.hidden_state.copy_(torch.where(self.plays[:, None, None], current, self.hidden_state))


def _components(core: Core, members: Sequence[str]) -> tuple[int, ...]:
    """Return the largest shape of the actions of some agents: () or (k,)."""
    return max(core.action_spaces[core.possible_agents[row]].shape or () for row in agent_rows_of(core, members))


def _decision_interval(policy: PolicyProtocol) -> int:
    """Return the number of steps between two decisions of a policy."""
    return policy.decide_every if isinstance(policy, Policy) else 1


def _any_agent(flags: Tensor) -> Tensor:
    """Return whether a flag (W, n) of any agent is set, (W,)."""
    return flags[:, 0] if flags.shape[1] == 1 else flags.any(1)


def _block_rows(local: Tensor, counts: Tensor, blocks: Tensor, height: int) -> Tensor:
    """Return the rows of policies `local` (R,), ascending, among the rows of all blocks; policies start new blocks."""
    shift = (blocks.cumsum(0) - blocks) * height - (counts.cumsum(0) - counts)
    return torch.arange(len(local), device=local.device) + shift[local]

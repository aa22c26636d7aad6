"""Rollouts in which policies act inside the kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
import warp as wp
from gymnasium import spaces
from torch import Tensor

import warp_kernels
from gpu_envs.errors import ConfigError, describe_tensor, shown
from gpu_envs.runtime.item_launch import ItemLaunch
from gpu_envs.runtime.rollout.fused_rollout import FusedRollout
from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from gpu_envs.runtime.rollout.packed_weights import acting_tile_rows
from gpu_envs.runtime.rollout.trace import EpisodeResults, RolloutCore, RolloutTrace, trace_layout
from gpu_envs.runtime.seeding import int_key
from gpu_envs.utils.devices import current_device_kept, host_view, warp_array, warp_stream
from gpu_envs.utils.suggestions import unknown_name_message
from gpu_envs.utils.tensor_checks import plain
from warp_kernels.framework.policies import NO_POLICY, Acting, Policies, PolicyKind, worlds_at_once
from warp_kernels.framework.rollout import build_phased_rollout, build_rollout
from warp_kernels.framework.tile_acting import build_tile_outputs
from warp_kernels.networks.tile_memory import BLOCK_DIM

PHASED_STEP, PHASED_GREEDY = 1, 2  # arguments of the phased kernels


@dataclass(frozen=True)
class MatchupDraw:
    """Distribution over R matchups; its tensors are read in place by every rollout."""

    cumulative: Tensor
    """(R,) float64, cumulative probabilities."""
    seed: Tensor
    """(1,) int64, key of the draws, which also depend on the world and its number of episodes."""


class PolicyRollout:
    """Recorded launches of rollouts: policies, environments and buffers that stay in place.

    A fused rollout is one launch. It is a chain of launches if the schedule is phased, or if a GPU computes networks in
    tiles, see :mod:`gpu_envs.runtime.rollout.packed_weights`.

    Args:
        core: The environments.
        policies: P policies.
        index: (A,) int, policy of every agent; -1 for random legal actions. Or (R, A) for R matchups.
        trace: Buffers; with `EpisodeResults`, worlds stop after one episode.
        threads: Largest number of CPU threads; None: the environments' number.
        matchup: (E,) int, matchup of every world; None: world i plays matchup i, if there are several.
        draw: Distribution from which worlds draw the matchup of every later episode; None: they keep theirs.
        flexible: Build kernels in which any agent can take random actions, or act by any of the policies that fit it.

    Raises:
        ConfigError: A policy does not fit its agent, or the buffers do not fit the environments.
    """

    def __init__(
        self,
        core: RolloutCore,
        policies: Sequence[KernelPolicy],
        index: Tensor | np.ndarray,
        trace: RolloutTrace | EpisodeResults,
        threads: int | None = None,
        *,
        matchup: Tensor | np.ndarray | None = None,
        draw: MatchupDraw | None = None,
        flexible: bool = False,
    ) -> None:
        self.core: RolloutCore = core
        self.trace: RolloutTrace | EpisodeResults = trace
        self.draw: MatchupDraw | None = draw
        self._flexible = flexible
        self.threads: int = threads or core._launcher.rollout_threads
        _check_buffers(core, trace, draws=draw is not None)
        self._acting: Acting | None = None
        self._by_group: Mapping[str, KernelPolicy | None] | None = None
        self._misfit = cache(partial(misfit, core))
        self._everywhere: list[PolicyKind] = []  # kinds that the launches support for every agent
        self.policies: tuple[KernelPolicy, ...] = ()
        self._restarts = False  # the next run resets the environments
        self._tables = _PolicyTables(core, repeated=index.ndim == 2)
        self.assign(policies, index, matchup)

    @property
    def matchup(self) -> Tensor:
        """Matchup of every world (E,) int32, live; empty where all play matchup 0."""
        return self._tables.matchup

    def assign(
        self,
        policies: Sequence[KernelPolicy],
        index: Tensor | np.ndarray,
        matchup: Tensor | np.ndarray | None = None,
    ) -> bool:
        """Replace the policies.

        The launches are recorded again if an agent has a policy of a new kind, or if there are more policies or
        matchups.

        Args:
            policies: P policies.
            index: (A,) or (R, A) int, with as many axes as at construction.
            matchup: (E,) int, matchup of every world; None: world i plays matchup i.

        Returns:
            Whether the launches were recorded again, so that a captured CUDA graph of them is invalid.

        Raises:
            ConfigError: A policy does not fit its agent.
        """
        core = self.core
        numbers = _check_policies(core, policies, index, repeated=len(self.matchup) > 0 and matchup is None)
        self.policies = tuple(policies)
        acting = self._acting
        if acting is None or not all(policy.kind in self._everywhere for policy in policies):
            acting = self._acting_of(numbers)
        moved = self._tables.reserve(len(policies), len(numbers))
        self._tables.write_matchups(numbers, matchup)
        covered = self._acting is acting or (self._acting is not None and _covers(self._acting, acting))
        if not covered:
            self._acting = acting
            indices = range(len(acting.kinds)) if self._flexible else ()
            self._everywhere = [
                acting.kinds[kind] for kind in indices if all(kind in kinds for kinds in acting.kinds_of)
            ]
        self.refresh()
        recorded = moved or not covered
        if recorded:
            self._record()
        return recorded

    @classmethod
    def of(
        cls,
        core: RolloutCore,
        policies: Mapping[str, KernelPolicy | None] | PolicyRollout,
        num_steps: int,
        trace: RolloutTrace | None = None,
        last: PolicyRollout | None = None,
    ) -> PolicyRollout:
        """Return prepared rollouts as they are, or prepare rollouts of policies by group or agent into buffers.

        `last`, an earlier result, is returned again for the same policies and buffers.

        Raises:
            ConfigError: The policies or the buffers do not fit the environments, or the buffers hold fewer steps.
        """
        if isinstance(policies, PolicyRollout):
            if policies.core is not core:
                raise ConfigError(f"{core.id}: policies: expected launches of these environments, got those of others")
            if trace is not None and trace is not policies.trace:
                raise ConfigError(f"{core.id}: trace: expected None, because prepared launches have their own buffers")
            plan = policies
        elif last is not None and last.trace is trace and last.is_of(policies):
            plan = last
        else:
            plan = cls.of_groups(core, policies, trace or RolloutTrace.allocate(core, num_steps, num_steps))
        if plan.trace.num_steps < num_steps:
            limit = plan.trace.num_steps
            raise ConfigError(f"{core.id}: num_steps: expected at most {limit} as in trace, got {num_steps}")
        return plan

    @classmethod
    def of_groups(
        cls, core: RolloutCore, policies: Mapping[str, KernelPolicy | None], trace: RolloutTrace
    ) -> PolicyRollout:
        """Prepare rollouts with one policy per group or agent, by its name; other agents take random legal actions.

        Raises:
            ConfigError: A name is unknown, a policy does not fit its agent, or the buffers do not fit.
        """
        if not isinstance(policies, Mapping):
            raise ConfigError(f"{core.id}: policies: expected them by group or agent, got {shown(policies)}")
        kernel_policies: list[KernelPolicy] = []
        index = torch.full((core.num_agents,), NO_POLICY)
        for name, policy in policies.items():
            if name not in core.groups and name not in core.possible_agents:
                names = [*core.groups, *core.possible_agents]
                raise ConfigError(f"{core.id}: {unknown_name_message('group or agent', name, names)}")
            if policy is None:
                continue
            if not isinstance(policy, KernelPolicy):
                expected = "a KernelPolicy, see KernelPolicy.from_tensors, or None"
                raise ConfigError(f"{core.id}: {name}: expected {expected}, got {shown(policy)}")
            rows = core.groups[name] if name in core.groups else [core.possible_agents.index(name)]
            index[list(rows)] = len(kernel_policies)
            kernel_policies.append(policy)
        plan = cls(core, kernel_policies, index, trace)
        plan._by_group = {**policies}
        return plan

    def is_of(self, policies: Mapping[str, KernelPolicy | None]) -> bool:
        """Return whether these launches were prepared by `of_groups` for the same policies."""
        assigned = self._by_group
        if assigned is None or not isinstance(policies, Mapping) or assigned.keys() != policies.keys():
            return False
        return all(policy is policies[name] for name, policy in assigned.items())

    def refresh(self) -> None:
        """Read where the weights of the policies are, their seeds and kinds."""
        assert self._acting is not None
        self._tables.write_policies(self.policies, self._acting.kinds)

    def reseed(self, seed: int) -> None:
        """Set the key of the random streams of all policies."""
        self._tables.reseed(seed)

    def reset_at_start(self, seed: int) -> bool:
        """Let the next run reset all environments as ``core.reset(seed)`` does; return False if it cannot.

        A kernel with a memo resets an environment where it plays it, so that its data stay in the cache of the thread.
        """
        core = self.core
        if self._acting is None or not self._acting.memo or core.is_recording:
            return False
        core._check_open()
        core.raise_pending_errors()
        key = int_key(core.id, "seed", seed)
        core._begin_change()
        core._mark_reset(key, 0)
        core._started = self._restarts = True
        return True

    def run(self, num_steps: int, first_step: int = 0, greedy: bool = False) -> None:
        """Play steps, and store them from a step of the buffers on; the host does not wait for a GPU."""
        core = self.core
        if self._arguments is not core._launcher.arguments:
            self._record()
        core._begin_change()
        if self._fused is not None:
            self._fused.run(num_steps, first_step, greedy, self._restarts)
            self._restarts = False
        else:
            self._run_phased(num_steps, first_step, greedy)
        core._started = True

    def _run_phased(self, num_steps: int, first_step: int, greedy: bool) -> None:
        act, store, *last = self._stages
        for t in range(first_step, first_step + num_steps):
            for tiles in self._tiles:
                tiles.launch()
            self._launch(act, t, greedy)
            self.core._launcher.run("step")
            self._launch(store, t, greedy)
        for stage in last:
            self._launch(stage, first_step + num_steps, greedy)

    def _acting_of(self, index: np.ndarray) -> Acting:
        """Return what the kernels are built for, after the check that the policies fit their agents."""
        core, kinds_of = self.core, []
        kinds = tuple(dict.fromkeys(policy.kind for policy in self.policies))
        for agent, name in enumerate(core.possible_agents):
            rows = set(index[:, agent].tolist())
            indices = {NO_POLICY if row == NO_POLICY else kinds.index(self.policies[row].kind) for row in rows}
            reasons = {position: self._misfit(name, kind) for position, kind in enumerate(kinds)}
            if bad := [reasons[kind] for kind in sorted(indices - {NO_POLICY}) if reasons[kind]]:
                raise ConfigError(f"{core.id}: {name}: {bad[0]}")
            if self._flexible:
                indices = {NO_POLICY, *(kind for kind, reason in reasons.items() if not reason)}
            kinds_of.append(tuple(sorted(indices)))
        traced = isinstance(self.trace, RolloutTrace)
        rows = tuple(acting_tile_rows(kind.mlp, core.device) for kind in kinds)
        # observations of turn-based games repeat; entries hold masks only where all components have one size
        rules = core._launcher.rules
        memo = rules.turn_based and rules.num_choices > 0 and not traced and core.device.type == "cpu"
        memo = memo and len(kinds) > 0 and core.schedule == "fused"
        return Acting(kinds, tuple(kinds_of), not len(self.matchup), self.draw is not None, traced, rows, memo)

    # ---------------------------------------------------------------- launches

    def _record(self) -> None:
        """Record the launches; needed again when the memory of an argument of the environments has moved."""
        core, acting = self.core, self._acting
        assert acting is not None
        rules, device = core._launcher.rules, core.device
        self._arguments = core._launcher.arguments
        with warp_kernels.building, current_device_kept(device):
            # outputs of networks that blocks compute in tiles, (E * A, K), empty without any
            widths = [kind.mlp.head_width for kind, rows in zip(acting.kinds, acting.tile_rows, strict=True) if rows]
            num_rows = core.num_envs * core.num_agents if widths else 0
            self._outputs = torch.zeros((num_rows, max(widths, default=0)), device=device)
            self._structs = (self._policies_struct(), self.trace.struct())
            self._fused: FusedRollout | None = None
            if core.schedule == "fused" and not any(acting.tile_rows):
                together = worlds_at_once(rules, acting) if device.type == "cpu" else 1
                kernel = build_rollout(rules, acting, together, core.fuse_fp)
                trace = self._structs[1]
                self._fused = FusedRollout(core, kernel, acting, self._policies_struct, trace, self.threads)
            else:
                used = {kind for kinds in acting.kinds_of for kind in kinds if kind != NO_POLICY}
                self._tiles = [self._record_tiles(kind) for kind in sorted(used) if acting.tile_rows[kind]]
                params, state, ios = self._arguments
                inputs = [0, 0, 0, params, state, ios[0], *self._structs]
                stages: Any = build_phased_rollout(rules, acting, core.fuse_fp)
                self._stages = [
                    core._launcher.record_launch(stage.kernel, (core.num_envs, stage.over), inputs, stage.over)
                    for stage in stages
                ]

    def _policies_struct(self) -> Any:
        """Return Warp's struct over the policies."""
        struct = Policies()
        self._tables.fill(struct)
        if self.draw is not None:
            struct.cumulative = warp_array(self.draw.cumulative)
            struct.draw_seed = warp_array(self.draw.seed, dtype=wp.uint64)
        struct.outputs = warp_array(self._outputs)
        return struct

    def _record_tiles(self, kind: int) -> ItemLaunch:
        """Record the launch that computes the outputs of all agents with policies of a kind."""
        core, acting = self.core, self._acting
        assert acting is not None
        rows = acting.tile_rows[kind]
        agents = [agent for agent, kinds in enumerate(acting.kinds_of) if kind in kinds]
        kernel = build_tile_outputs(acting.kinds[kind].mlp, rows, acting.shared, core._launcher.rules.turn_based)
        inputs = [kind, agents[0], agents[-1] + 1, core._launcher.arguments[2][0], self._structs[0]]
        launch = ItemLaunch(kernel, inputs, core.device, tile_threads=BLOCK_DIM if core.device.type == "cuda" else 0)
        launch.set_items(-(-core.num_envs * (agents[-1] + 1 - agents[0]) // rows))
        return launch

    def _launch(self, command: Any, t: int, greedy: bool) -> None:
        command.set_param_at_index(PHASED_STEP, t)
        command.set_param_at_index(PHASED_GREEDY, int(greedy))
        if self.core._launcher.device.is_cuda:
            with current_device_kept(self.core.device):
                command.launch(warp_stream(self.core.device))
        else:
            command.launch()


def _covers(built: Acting, needs: Acting) -> bool:
    """Return whether kernels also support other policies."""
    if not set(needs.kinds) <= set(built.kinds):
        return False
    places = {position: built.kinds.index(kind) for position, kind in enumerate(needs.kinds)} | {NO_POLICY: NO_POLICY}
    pairs = zip(needs.kinds_of, built.kinds_of, strict=True)
    return all({places[kind] for kind in indices} <= set(supported) for indices, supported in pairs)


class _PolicyTables:
    """Tables of policies and matchups, which are written without PyTorch on a CPU.

    Args:
        core: The environments.
        repeated: Every world has a matchup.
    """

    def __init__(self, core: RolloutCore, repeated: bool) -> None:
        self._core = core
        self.matchup = torch.zeros(core.num_envs if repeated else 0, dtype=torch.int32, device=core.device)
        """(E,) of every world; empty where all play matchup 0."""
        self._matchup_rows = host_view(self.matchup)
        self._allocate(0, 0)

    def _allocate(self, policies: int, matchups: int) -> None:
        device = self._core.device
        self._addresses = torch.zeros(policies, dtype=torch.int64, device=device)
        self._seeds, self._kinds = torch.zeros_like(self._addresses), self._addresses.int()
        self._index = torch.zeros((matchups, self._core.num_agents), dtype=torch.int32, device=device)
        tables = (self._index, self._addresses, self._seeds, self._kinds)
        self._index_rows, *self._policy_rows = (host_view(table) for table in tables)

    def reserve(self, policies: int, matchups: int) -> bool:
        """Make room for a number of policies and of matchups; return whether the tables have moved."""
        capacity, rows = len(self._addresses), len(self._index)
        if policies <= capacity and matchups <= rows:
            return False
        self._allocate(max(policies, capacity, 1), max(matchups, rows))
        return True

    def write_matchups(self, index: np.ndarray, matchup: Tensor | np.ndarray | None) -> None:
        """Write the policies of all agents (R, A), and the matchup of every world (E,); None: world i plays matchup i.

        Without matchups of worlds, R is 1.
        """
        _write(self._index_rows, index)
        if len(self.matchup):
            _write(self._matchup_rows, np.arange(len(self.matchup)) if matchup is None else matchup)

    def write_policies(self, policies: Sequence[KernelPolicy], kinds: Sequence[PolicyKind]) -> None:
        """Write where the weights of policies are, their seeds, and their kinds among the kernels' kinds."""
        values = [(policy.weights.data_ptr(), policy.seed, kinds.index(policy.kind)) for policy in policies]
        for rows, column in zip(self._policy_rows, zip(*values, strict=True), strict=bool(values)):
            _write(rows, column)

    def reseed(self, seed: int) -> None:
        """Set the key of the random streams of all policies."""
        self._policy_rows[1][:] = seed

    def fill(self, struct: Any) -> None:
        """Set the arrays of a struct of policies."""
        struct.addresses = warp_array(self._addresses, dtype=wp.uint64)
        struct.seeds = warp_array(self._seeds, dtype=wp.uint64)
        struct.kinds = warp_array(self._kinds)
        struct.index = warp_array(self._index)
        struct.matchup = warp_array(self.matchup)


def _write(rows: Any, values: Tensor | np.ndarray | Sequence[int]) -> None:
    """Copy numbers into the first rows of a table, see `host_view`."""
    rows[: len(values)] = values if isinstance(rows, np.ndarray) else torch.as_tensor(values)


def _check_buffers(core: RolloutCore, trace: RolloutTrace | EpisodeResults, draws: bool) -> None:
    """Raise ConfigError if buffers do not fit the environments.

    Args:
        core: The environments.
        trace: The buffers.
        draws: Worlds draw matchups, which the buffers hold.
    """
    if isinstance(trace, EpisodeResults):
        return
    if not isinstance(trace, RolloutTrace):
        raise ConfigError(f"{core.id}: trace: expected a RolloutTrace, see RolloutTrace.allocate, got {shown(trace)}")
    steps, agents = len(trace.reward), core.num_envs * core.num_agents
    rows = len(trace.final_obs) - 1
    layout = trace_layout(core, steps, rows // agents, draws or len(trace.matchup) > 0)
    for name, expected in layout.items():
        tensor = getattr(trace, name)
        if expected is None:
            if tensor is not None:
                raise ConfigError(f"{core.id}: trace.{name}: expected None, got {shown(tensor)}")
        elif not plain(tensor) or (tuple(tensor.shape), tensor.dtype, tensor.device) != (*expected, core.device):
            form = f"{expected[1]} {expected[0]} on {core.device}"
            hint = "allocate the buffers by RolloutTrace.allocate"
            raise ConfigError(f"{core.id}: trace.{name}: expected {form}, got {describe_tensor(tensor)}; {hint}")
        elif not tensor.is_contiguous():
            raise ConfigError(f"{core.id}: trace.{name}: expected a contiguous tensor, got strides {tensor.stride()}")


def _check_policies(
    core: RolloutCore, policies: Sequence[KernelPolicy], index: Tensor | np.ndarray, repeated: bool
) -> np.ndarray:
    """Raise ConfigError if weights are not where kernels read them, or an index is out of range.

    Args:
        core: The environments.
        policies: P policies.
        index: (A,) or (R, A) int, policy of every agent.
        repeated: World i plays matchup i, which must exist.

    Returns:
        The index on the host, (1, A) or (R, A).
    """
    for policy in policies:
        if policy.weights.device != core.device:
            actual = f"weights on {policy.weights.device}"
            raise ConfigError(
                f"{core.id}: KernelPolicy: expected weights on {core.device}, got {actual}; move them there"
            )
    numbers = index if isinstance(index, np.ndarray) else index.detach().cpu().numpy()
    if (
        numbers.ndim not in (1, 2)
        or numbers.shape[-1] != core.num_agents
        or (repeated and len(numbers) < core.num_envs)
    ):
        expected = f"({core.num_envs if repeated else 'R'}, {core.num_agents})"
        raise ConfigError(f"{core.id}: index: expected the policies of all agents {expected}, got {numbers.shape}")
    low, high = np.minimum.reduce(numbers, None), np.maximum.reduce(numbers, None)
    if numbers.dtype.kind == "f" or low < NO_POLICY or high >= len(policies):
        actual = f"{index.dtype} from {low} to {high}"
        raise ConfigError(f"{core.id}: index: expected ints from {NO_POLICY} to {len(policies) - 1}, got {actual}")
    return numbers.reshape(-1, core.num_agents)


def misfit(core: RolloutCore, name: str, kind: PolicyKind) -> str:
    """Return why policies of a kind do not fit an agent, or an empty string."""
    continuous = kind.continuous
    if continuous != core.definition.rules.continuous:
        return f"expected {core.action_kind} actions, got a {kind.head} policy"
    space, width = core.action_spaces[name], core.observation_spaces[name].shape[0]
    choices = core.num_choices[core.possible_agents.index(name)].tolist()
    if kind.sizes != (space.shape if continuous else tuple(n for n in choices if n)):
        return f"expected actions {space}, got sizes {kind.sizes}"
    if isinstance(space, spaces.Box) and kind.bounded != space.is_bounded():
        return f"expected actions {space}, got a policy of a box {'with' if kind.bounded else 'without'} bounds"
    if not width <= kind.mlp.inputs <= core.obs_width:  # a policy of several groups has the width of the widest
        expected = f"{width}" if width == core.obs_width else f"{width} to {core.obs_width}"
        return f"expected {expected} observation entries, got {kind.mlp.inputs}"
    return ""

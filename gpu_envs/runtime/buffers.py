"""Tensors of a batch of worlds, and the Warp structs over them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition import struct_buffers
from gpu_envs.definition.environment import EnvDefinition
from gpu_envs.utils.devices import warp_array
from gpu_envs.utils.settings import MAX_INT
from warp_kernels import episode

AUTORESET = {"same_step": episode.SAME_STEP, "next_step": episode.NEXT_STEP, "disabled": episode.DISABLED}
"""Autoreset modes of the kernels by setting."""
_ACTION_KINDS = {spaces.Discrete: "discrete", spaces.MultiDiscrete: "multi_discrete", spaces.Box: "continuous"}

# Fields of episode.IO by their shape: (E, A), (E,), and (R,) for R sampled parameters.
_PER_AGENT = (
    "reward",
    "terminated",
    "truncated",
    "alive",
    "valid",
    "running_return",
    "episode_return",
    "episode_length",
)
_PER_WORLD = ("seed", "world", "episode", "step", "active", "over", "restart")
_PER_SAMPLED_PARAM = ("range_column", "range_whole", "range_low", "range_high")

_CONSTANT = ("num_choices", "low", "high")
# Fields of episode.IO that a saved state leaves out: they hold addresses or settings, or are written anew.
_NOT_SAVED = ("error", "info", "final_state", "ends", "params", *_PER_SAMPLED_PARAM, *_CONSTANT)


class EnvBuffers:
    """Tensors of one batch of worlds, sized by an EnvDefinition, and the Warp structs over them.

    Structs hold the addresses of these tensors: steps write into them, and after one is replaced, `structs` makes new
    structs.

    Attributes:
        definition: Definition of the environment.
        width: Largest observation width D of an agent; rows of the others are padded to it.
        io: Tensors of :class:`warp_kernels.episode.IO` by name.
        state: Tensors of the rules' State by name, (E, ...); fields with an initial value are equal in all worlds
            and share the memory of one row.
        saved_state: The tensors of ``state`` that later steps depend on and that are not constant.
        params: Environment parameters, (1, F) or (E, F) float32.
        action: View of the action buffer that kernels read, (E, A) or (E, A, K).
        action_kind: "discrete", "multi_discrete" or "continuous".
        num_choices: (A, K) int32 on the CPU, sizes of the discrete components; 0 pads.
        info: Tensors of a step's info by name.
        info_fields: The tensors of ``info`` that show declared fields of State.
        shows_results: Names in a saved state that no later step depends on.
        results: Observation, reward, terminated, truncated and the values of ``info``.
        constants: Tensors that are not part of a saved state, by their names there.
        ranges: Lowest and highest value of every integer tensor of a saved state, by its name there.
        obs_columns: Columns of a flat row (A * D) that are not padding, or None if there is no padding.

    Args:
        definition: Definition of the environment.
        num_envs: Number of worlds E.
        slots: Number of error slots, one per shard.
        device: Device of the tensors.
        ranges: Lowest and highest value of the parameters that every episode samples.

    Raises:
        ValueError: The rules declare other numbers of choices than the action spaces.
        ConfigError: The memory does not suffice.
    """

    def __init__(
        self,
        definition: EnvDefinition,
        num_envs: int,
        slots: int,
        device: torch.device,
        ranges: Mapping[str, tuple[float, float]],
    ) -> None:
        rules = definition.rules
        self.definition = definition
        self.width: int = rules.width
        self.action_kind: str = _ACTION_KINDS[type(next(iter(definition.action_spaces.values())))]
        counts, low, high = _action_bounds(definition)
        if rules.num_choices and (counts != rules.num_choices).any():
            raise ValueError(
                f"{rules.key}: rules.num_choices: expected {counts.tolist()}, as in the action spaces, "
                f"got {rules.num_choices}"
            )
        self.num_choices: torch.Tensor = torch.from_numpy(counts)

        max_choices = int(counts.sum(1).max())
        shapes = _io_shapes(definition, num_envs, slots, len(ranges), self.width, max_choices)
        self.io: dict[str, torch.Tensor] = struct_buffers.allocate(episode.IO, shapes, device)
        bounds = {"low": low, "high": high} if rules.continuous else {"num_choices": counts}
        for name, values in bounds.items():
            self.io[name].copy_(torch.from_numpy(values))
        self.io["error"].fill_(episode.NO_ERROR)
        self.constants: dict[str, torch.Tensor] = {f"io.{name}": self.io[name] for name in _CONSTANT}

        self.state: dict[str, torch.Tensor] = self._allocate_state(num_envs, device)
        self.saved_state: dict[str, torch.Tensor] = {
            name: tensor
            for name, tensor in self.state.items()
            if name not in definition.initial and name not in definition.scratch
        }
        rows = num_envs if ranges else 1
        self.params: torch.Tensor = struct_buffers.params_tensor(rules.params, definition.params, rows, device)
        self._write_sampled_ranges(ranges)
        self.ranges: dict[str, tuple[int | None, int | None]] = self._saved_ranges(int(counts.max()))

        actions = self.io["control"] if rules.continuous else self.io["choice"]
        self.action: torch.Tensor = actions[:, :, 0] if self.action_kind == "discrete" else actions
        self.info_fields: dict[str, torch.Tensor] = self._allocate_info_fields()
        info_names = ["valid", "alive", "final_obs", "episode_return", "episode_length"]
        if rules.masked:
            info_names.append("action_mask")
        if rules.turn_based:
            info_names.append("to_move")
        self.info: dict[str, torch.Tensor] = {name: self.io[name] for name in info_names} | self.info_fields
        self.shows_results: frozenset[str] = frozenset(
            ("io.episode_results", *(f"info.{name}" for name in self.info_fields))
        )
        outputs = [self.io[name] for name in ("obs", "reward", "terminated", "truncated")]
        self.results: list[torch.Tensor] = [*outputs, *self.info.values()]
        self.obs_columns: torch.Tensor | None = self._unpadded_columns(device)

    def _allocate_state(self, num_envs: int, device: torch.device) -> dict[str, torch.Tensor]:
        """Return zeroed tensors (E, ...) of State; those with an initial value expand one row over all worlds."""
        d = self.definition
        shapes = {name: (1 if name in d.initial else num_envs, *shape) for name, shape in d.shapes.items()}
        state = struct_buffers.allocate(d.rules.state, shapes, device)
        for name, values in d.initial.items():
            row = state[name]
            row.copy_(torch.from_numpy(values))
            state[name] = row.expand(num_envs, *row.shape[1:])
        return state

    def _write_sampled_ranges(self, ranges: Mapping[str, tuple[float, float]]) -> None:
        """Tell kernels which parameters every episode samples, and between which bounds."""
        dtypes = struct_buffers.param_fields(self.definition.rules.params)
        for row, (name, (low, high)) in enumerate(ranges.items()):
            self.io["range_column"][row] = list(dtypes).index(name)
            self.io["range_whole"][row] = dtypes[name] == torch.int32
            self.io["range_low"][row] = low
            self.io["range_high"][row] = high

    def _saved_ranges(self, max_choices: int) -> dict[str, tuple[int | None, int | None]]:
        """Return the lowest and highest value of every integer tensor of a saved state."""
        d = self.definition
        clock = (0, d.max_episode_steps or MAX_INT)
        return {
            **{f"state.{name}": d.ranges[name] for name in self.saved_state if name in d.ranges},
            "io.choice": (0, max(max_choices - 1, 0)),
            **{f"info.{name}": d.ranges[field] for name, field in d.info.items() if field in d.ranges},
            "io.episode_length": clock,
            "io.seed": (None, None),
            "io.world": (episode.OWN_SEED, MAX_INT),
            "io.episode": (-1, MAX_INT),  # -1 waits for the first reset
            "io.step": clock,
            "io.forfeit": (0, d.rules.num_agents),
        }

    def _allocate_info_fields(self) -> dict[str, torch.Tensor]:
        """Return a tensor for every info that shows a field of State, and give kernels its address."""
        tensors = {}
        for row, (name, field) in enumerate(self.definition.info.items()):
            source = self.state[field]
            tensors[name] = torch.zeros(source.shape, dtype=source.dtype, device=source.device)
            self.io["info"][row] = tensors[name].data_ptr()
        return tensors

    def _unpadded_columns(self, device: torch.device) -> torch.Tensor | None:
        """Return the columns of a flat row (A * D) that are not padding, None if there is no padding."""
        widths = [self.definition.flat_spaces[agent].shape[0] for agent in self.definition.agents]
        if min(widths) == self.width:
            return None
        columns = [row * self.width + column for row, width in enumerate(widths) for column in range(width)]
        return torch.tensor(columns, device=device)

    def add_final_state(self) -> None:
        """Allocate the tensors of final states, which only some users need; then call :meth:`structs` again."""
        self.io["final_state"] = torch.zeros_like(self.io["global_state"])
        self.io["ends"] = torch.zeros_like(self.io["over"])

    def structs(self, autoreset: str, illegal_actions: str) -> tuple[Any, Any, list[Any]]:
        """Return Params (a Warp array, (1,) or (E,)), State and one IO per error slot, over these tensors.

        Recorded launches keep the structs, so they must not be changed afterwards.

        Args:
            autoreset: A key of `AUTORESET`.
            illegal_actions: "error", "saturate" or "loss", see :class:`gpu_envs.runtime.core.Core`.
        """
        d = self.definition
        settings = {
            "max_steps": d.max_episode_steps,
            "limit_terminates": int(d.time_limit_terminates),
            "autoreset": int(AUTORESET[autoreset]),
            "illegal_loses": int(illegal_actions == "loss"),
            "saturates": int(d.saturates and illegal_actions == "saturate"),
        }
        first = struct_buffers.fill(
            episode.IO, self.io | {"params": self.params, "error": self.io["error"][:1]}, settings
        )
        ios = [first]
        for slot in range(1, len(self.io["error"])):
            # Only the error slot differs. The other views are shared, because making one takes long.
            io = episode.IO()
            for name in episode.IO.vars:
                setattr(io, name, getattr(first, name))
            io.error = warp_array(self.io["error"][slot : slot + 1], name="error")
            ios.append(io)
        return (
            warp_array(self.params, d.rules.params, "params"),
            struct_buffers.fill(d.rules.state, self.state),
            ios,
        )

    def saved_tensors(self) -> dict[str, torch.Tensor]:
        """Return the live tensors of a saved state by name, except for params, whose shape may change."""
        tensors = {f"state.{name}": tensor for name, tensor in self.saved_state.items()}
        tensors |= {f"info.{name}": tensor for name, tensor in self.info_fields.items()}
        return tensors | {f"io.{name}": tensor for name, tensor in self.io.items() if name not in _NOT_SAVED}


def _io_shapes(
    definition: EnvDefinition, num_envs: int, slots: int, num_ranges: int, width: int, max_choices: int
) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor of :class:`warp_kernels.episode.IO`; those that are not used have no rows.

    Args:
        definition: Definition of the environment.
        num_envs: Number of worlds E.
        slots: Number of error slots.
        num_ranges: Number of parameters that every episode samples.
        width: Observation width D.
        max_choices: Largest sum n of the sizes of an agent's discrete components.
    """
    rules = definition.rules
    e, a, k = num_envs, rules.num_agents, rules.action_size
    discrete_e, discrete_a = (0, 0) if rules.continuous else (e, a)
    continuous_e, continuous_a = (e, a) if rules.continuous else (0, 0)
    turns_e, turns_a = (e, a) if rules.turn_based else (0, 0)
    return {
        "choice": (discrete_e, a, k),
        "num_choices": (discrete_a, k),
        "control": (continuous_e, a, k),
        "low": (continuous_a, k),
        "high": (continuous_a, k),
        "action_mask": (e, a, max_choices) if rules.masked else (0, 0, 0),
        "to_move": (turns_e, turns_a),
        "refused": (turns_e, turns_a),
        "forfeit": (turns_e,),
        "obs": (e, a, width),
        "final_obs": (e, a, width),
        "episode_results": (e, a, len(definition.results)),
        "info": (len(definition.info),),
        "global_state": (e, definition.global_state_size),
        "final_state": (0, 0),  # see add_final_state
        "ends": (0,),
        "params": (0, 0),  # replaced by a view of EnvBuffers.params
        "error": (slots,),
        **dict.fromkeys(_PER_SAMPLED_PARAM, (num_ranges,)),
        **dict.fromkeys(_PER_AGENT, (e, a)),
        **dict.fromkeys(_PER_WORLD, (e,)),
    }


def _action_bounds(definition: EnvDefinition) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sizes of discrete components, and lower and upper bounds of continuous ones, each (A, K).

    Missing components have size 0, lower bound 1 and upper bound 0.
    """
    shape = definition.rules.num_agents, definition.rules.action_size
    counts, low, high = np.zeros(shape, np.int32), np.ones(shape, np.float32), np.zeros(shape, np.float32)
    for row, agent in enumerate(definition.agents):
        space = definition.action_spaces[agent]
        if isinstance(space, spaces.Box):
            low[row, : space.shape[0]], high[row, : space.shape[0]] = space.low, space.high
        elif isinstance(space, spaces.MultiDiscrete):
            counts[row, : len(space.nvec)] = space.nvec
        elif isinstance(space, spaces.Discrete):
            counts[row, 0] = space.n
    return counts, low, high

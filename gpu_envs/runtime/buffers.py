"""Tensors of a batch of worlds, and the Warp structs over them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import warp as wp
from gymnasium import spaces

from gpu_envs.definition import struct_buffers
from gpu_envs.definition.environment import EnvDefinition
from gpu_envs.utils.settings import MAX_INT
from warp_kernels import episode

__all__ = ["AUTORESET", "EnvBuffers"]

AUTORESET = {"same_step": episode.SAME_STEP, "next_step": episode.NEXT_STEP, "disabled": episode.DISABLED}
"""Autoreset modes of the kernels by setting."""
_KINDS = {spaces.Discrete: "discrete", spaces.MultiDiscrete: "multi_discrete", spaces.Box: "continuous"}
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
_CONSTANT = ("num_choices", "low", "high")
_NOT_KEPT = (
    "error",
    "info",
    "final_state",
    "ends",
    "params",
    "range_column",
    "range_whole",
    "range_low",
    "range_high",
    *_CONSTANT,
)
_PER_WORLD = ("seed", "world", "episode", "step", "active", "over", "restart")


class EnvBuffers:
    """Tensors of one batch of worlds, sized by an EnvDefinition, and the Warp structs over them.

    Attributes:
        io: Tensors of :class:`warp_kernels.episode.IO` by name.
        state: Tensors of the rules' State by name.
        params: Environment parameters, (1, F) or (E, F) float32.
        action: View of the action buffer that kernels read, (E, A) or (E, A, K).
        action_kind: "discrete", "multi_discrete" or "continuous".
        num_choices: (A, K) int32 on the CPU, sizes of the discrete components; 0 pads.
        info: Tensors of a step's info by name.
        info_fields: Infos that show declared fields of State.
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
    """

    def __init__(
        self,
        definition: EnvDefinition,
        num_envs: int,
        slots: int,
        device: torch.device,
        ranges: Mapping[str, tuple[float, float]],
    ) -> None:
        d, rules = definition, definition.rules
        e, a, k = num_envs, rules.num_agents, rules.action_size
        self.definition = d
        self.width: int = max(space.shape[0] for space in d.flat_spaces.values())
        self.action_kind: str = _KINDS[type(next(iter(d.action_spaces.values())))]
        counts, low, high = _bounds(d, a, k)
        if rules.num_choices and (counts != rules.num_choices).any():
            raise ValueError(
                f"{rules.key}: rules.num_choices is {rules.num_choices}, the action spaces say {counts.tolist()}"
            )
        self.num_choices: torch.Tensor = torch.from_numpy(counts)
        discrete, continuous = (0, 1) if rules.continuous else (1, 0)
        turns = (e, a) if rules.turn_based else (0, 0)
        shapes = {
            "choice": (e * discrete, a, k),
            "control": (e * continuous, a, k),
            "num_choices": (a * discrete, k),
            "low": (a * continuous, k),
            "high": (a * continuous, k),
            "action_mask": (e, a, int(counts.sum(1).max())) if rules.masked else (0, 0, 0),
            "to_move": turns,
            "refused": turns,
            "forfeit": turns[:1],
            "obs": (e, a, self.width),
            "final_obs": (e, a, self.width),
            "episode_results": (e, a, len(d.results)),
            "info": (len(d.info),),
            "global_state": (e, d.global_state_size),
            "final_state": (0, 0),  # see add_final_state
            "ends": (0,),
            "params": (0, 0),  # a view of the table below
            **dict.fromkeys(("range_column", "range_whole", "range_low", "range_high"), (len(ranges),)),
            "error": (slots,),
            **dict.fromkeys(_PER_AGENT, (e, a)),
            **dict.fromkeys(_PER_WORLD, (e,)),
        }
        self.io: dict[str, torch.Tensor] = struct_buffers.allocate(episode.IO, shapes, device)
        tables = {name: (1 if name in d.initial else e, *tail) for name, tail in d.shapes.items()}
        self.state: dict[str, torch.Tensor] = struct_buffers.allocate(rules.state, tables, device)
        self.params: torch.Tensor = struct_buffers.params_tensor(rules.params, d.params, e if ranges else 1, device)
        kinds = struct_buffers.param_fields(rules.params)
        for row, (name, bounds) in enumerate(ranges.items()):
            self.io["range_column"][row] = list(kinds).index(name)
            self.io["range_whole"][row] = kinds[name] == torch.int32
            self.io["range_low"][row], self.io["range_high"][row] = bounds
        for name, values in d.initial.items():
            self.state[name].copy_(torch.from_numpy(values))
            self.state[name] = self.state[name].expand(e, *self.state[name].shape[1:])
        self.saved_state: dict[str, torch.Tensor] = {
            n: tensor for n, tensor in self.state.items() if n not in d.initial and n not in d.scratch
        }
        for name, values in (("low", low), ("high", high)) if rules.continuous else (("num_choices", counts),):
            self.io[name].copy_(torch.from_numpy(values))
        self.io["error"].fill_(episode.NO_ERROR)
        self.constants: dict[str, torch.Tensor] = {f"io.{name}": self.io[name] for name in _CONSTANT}
        clock = (0, d.max_episode_steps or MAX_INT)
        self.ranges: dict[str, tuple[int | None, int | None]] = {
            f"state.{name}": d.ranges[name] for name in self.saved_state if name in d.ranges
        } | {
            "io.choice": (0, max(int(counts.max()) - 1, 0)),
            **{f"info.{name}": d.ranges[field] for name, field in d.info.items() if field in d.ranges},
            "io.episode_length": clock,
            "io.seed": (None, None),
            "io.world": (episode.OWN_SEED, MAX_INT),
            "io.episode": (-1, MAX_INT),  # -1 waits for the first reset
            "io.step": clock,
            "io.forfeit": (0, a),
        }

        io = self.io
        stacked = io["control"] if rules.continuous else io["choice"]
        self.action: torch.Tensor = stacked[:, :, 0] if self.action_kind == "discrete" else stacked
        self.info: dict[str, torch.Tensor] = {
            n: io[n] for n in ("valid", "alive", "final_obs", "episode_return", "episode_length")
        }
        if rules.masked:
            self.info["action_mask"] = io["action_mask"]
        if rules.turn_based:
            self.info["to_move"] = io["to_move"]
        self.info_fields: dict[str, torch.Tensor] = {}
        for row, (name, field) in enumerate(d.info.items()):
            buffer = self.info_fields[name] = torch.zeros(
                self.state[field].shape, dtype=self.state[field].dtype, device=device
            )
            io["info"][row] = buffer.data_ptr()
        self.info |= self.info_fields
        self.shows_results: frozenset[str] = frozenset(
            ("io.episode_results", *(f"info.{name}" for name in self.info_fields))
        )
        self.results: list[torch.Tensor] = [
            io["obs"],
            io["reward"],
            io["terminated"],
            io["truncated"],
            *self.info.values(),
        ]
        widths = [d.flat_spaces[agent].shape[0] for agent in d.agents]
        self.obs_columns: torch.Tensor | None = None
        if min(widths) < self.width:
            columns = [row * self.width + column for row, width in enumerate(widths) for column in range(width)]
            self.obs_columns = torch.tensor(columns, device=device)

    def add_final_state(self) -> None:
        """Allocate the tensors of final states; :meth:`structs` then has them."""
        self.io["final_state"] = torch.zeros_like(self.io["global_state"])
        self.io["ends"] = torch.zeros_like(self.io["over"])

    def structs(self, autoreset: str, illegal_actions: str) -> tuple[Any, Any, list[Any]]:
        """Return Params (a Warp array, (1,) or (E,)), State and one IO per error slot, over these tensors.

        Recorded launches keep them, so they must not be changed afterwards.
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
        for slot in range(1, len(self.io["error"])):  # equal views are shared, as making them takes long
            io = episode.IO()
            for name in episode.IO.vars:
                setattr(io, name, getattr(first, name))
            io.error = struct_buffers.view("error", self.io["error"][slot : slot + 1], wp.int64, 1)
            ios.append(io)
        return (
            struct_buffers.view("params", self.params, d.rules.params, 1),
            struct_buffers.fill(d.rules.state, self.state),
            ios,
        )

    def saved_tensors(self) -> dict[str, torch.Tensor]:
        """Return the live tensors of a saved state by name, except for params, whose shape may change."""
        tensors = {f"state.{name}": tensor for name, tensor in self.saved_state.items()}
        tensors |= {f"info.{name}": tensor for name, tensor in self.info_fields.items()}
        return tensors | {f"io.{name}": tensor for name, tensor in self.io.items() if name not in _NOT_KEPT}


def _bounds(d: EnvDefinition, agents: int, components: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sizes of discrete components, and lower and upper bounds of continuous ones, each (A, K) and padded."""
    counts = np.zeros((agents, components), np.int32)
    low, high = np.ones((agents, components), np.float32), np.zeros((agents, components), np.float32)
    for row, agent in enumerate(d.agents):
        space = d.action_spaces[agent]
        if isinstance(space, spaces.Box):
            low[row, : space.shape[0]], high[row, : space.shape[0]] = space.low, space.high
        elif isinstance(space, spaces.MultiDiscrete):
            counts[row, : len(space.nvec)] = space.nvec
        elif isinstance(space, spaces.Discrete):
            counts[row, 0] = space.n
    return counts, low, high

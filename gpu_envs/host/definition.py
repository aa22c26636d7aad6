"""Agents and spaces of a host environment, and the conversion of its observations and actions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces

from gpu_envs.definition.observation_shapes import DTYPES, flat_space, observation_blocks
from gpu_envs.errors import ConfigError

Encoder = Callable[[Any, np.ndarray], None]
"""Function that writes an observation of an environment into a row (D,) float32."""
Decoder = Callable[[Any], Any]
"""Function from a row of actions, an int or an array (K,), to an action of an environment."""
MASK = "action_mask"
"""Name of the action mask in a Dict observation or an info."""


@dataclass(frozen=True)
class HostDefinition:
    """Agents and spaces of a host environment; it has what views and trainers read of an ``EnvDefinition``."""

    key: str
    """Library and version, such as "pettingzoo 1.27.0"."""
    agents: tuple[str, ...]
    """Names of the agents, in row order."""
    observation_spaces: Mapping[str, spaces.Box | spaces.Dict]
    """Observation space by agent: a Box or a Dict of Boxes, without an action mask."""
    action_spaces: dict[str, spaces.Space[Any]]
    """Discrete, MultiDiscrete or flat Box by agent; one kind per environment."""
    groups: dict[str, tuple[int, ...]]
    """Rows of the agents that share spaces and, by default, a policy, by group."""
    has_masks: bool = False
    """Some actions are illegal at times."""
    turn_based: bool = False
    """Agents take turns."""
    roles: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Groups or agents by role, for adversarial environments."""
    zero_sum: bool = False
    """True if the rewards of the roles sum to zero."""
    render_fps: int = 10
    """Frames per second of a video at the natural pace."""
    max_episode_steps: int = 0
    """Largest length of an episode [steps], if it is known; 0: unknown."""
    spiel_game: Any = None
    """The ``pyspiel.Game``, whose tree can be enumerated, if agents observe information states."""
    draw = None
    """No Scene: frames come from the environment."""
    reset_options = None
    """No options of a reset change parameters."""
    reset_option_names = ()
    """Nor have they names."""
    symmetric = False
    """Payoffs may depend on the role."""
    time_limit_terminates = False
    """A time limit truncates."""
    results = ()
    """No results are declared."""
    chance = None
    """Random outcomes are drawn inside the worlds."""
    global_state_size = 0
    """The global state joins the observations."""
    channels_first = False
    """Images are (height, width, channels)."""

    @cached_property
    def flat_spaces(self) -> dict[str, spaces.Box]:
        """Flat float32 Box by agent."""
        declared = self.observation_spaces.items()
        return {agent: flat_space(space, f"observation space of {agent}") for agent, space in declared}

    @property
    def truncation_interval(self) -> int:
        """Fewest steps between two truncations of an agent, for which trainers reserve memory; 1 if it is unknown."""
        return self.max_episode_steps or 1

    @property
    def fingerprint(self) -> str:
        """Library and version, which a checkpoint records in place of a fingerprint of rules."""
        return self.key


def groups_of(
    agents: tuple[str, ...], observed: Mapping[str, Any], acted: Mapping[str, Any]
) -> dict[str, tuple[int, ...]]:
    """Return the rows of agents by group: names up to a final number; agents that differ in spaces are alone."""
    named: dict[str, list[int]] = {}
    for row, agent in enumerate(agents):
        named.setdefault(re.sub(r"_?\d+$", "", agent) or agent, []).append(row)
    groups: dict[str, tuple[int, ...]] = {}
    for name, rows in named.items():
        kinds = [(observed[agents[row]], acted[agents[row]]) for row in rows]
        if all(kind == kinds[0] for kind in kinds):
            groups[name] = tuple(rows)
        else:
            groups |= {agents[row]: (row,) for row in rows}
    return groups


def without_mask(space: Any) -> Any:
    """Return an observation space without its action mask; a Dict with a single other entry is this entry."""
    if not isinstance(space, spaces.Dict) or MASK not in space.spaces:
        return space
    entries = {name: entry for name, entry in space.spaces.items() if name != MASK}
    return next(iter(entries.values())) if len(entries) == 1 else spaces.Dict(entries)


def observation_coder(space: Any, subject: str) -> tuple[spaces.Box | spaces.Dict, Encoder]:
    """Return the space that trainers see of an observation space, and the function that writes a row.

    Boxes of float32, uint8 and bool and Dicts of them keep their shapes, so that networks see images as such. Other
    Boxes become float32. All other spaces are flattened by Gymnasium, which makes numbers of Discrete one-hot.

    Raises:
        ConfigError: Gymnasium cannot flatten the space into a Box.
    """
    masked = isinstance(space, spaces.Dict) and MASK in space.spaces
    inner = without_mask(space)
    names = [name for name in space.spaces if name != MASK] if masked else []
    single = names[0] if len(names) == 1 else None
    declared, encode = _coder(inner, subject)
    if single is not None:
        return declared, lambda obs, row: encode(obs[single], row)
    return declared, encode


def _coder(space: Any, subject: str) -> tuple[spaces.Box | spaces.Dict, Encoder]:
    blocks = observation_blocks(space)
    if all(isinstance(box, spaces.Box) and box.shape for box in blocks.values()):
        boxes = {name: _float_box(box) for name, box in blocks.items()}
        sizes = {name: int(np.prod(box.shape)) for name, box in blocks.items()}
        if not isinstance(space, spaces.Dict):
            shape, is_flat = space.shape, len(space.shape) == 1

            def encode(obs: Any, row: np.ndarray) -> None:
                values = np.asarray(obs)
                if values.shape != shape:
                    raise ValueError(f"expected an observation {shape}, got {values.shape}")
                row[...] = values if is_flat else values.reshape(-1)

            return boxes["observation"], encode

        def encode_blocks(obs: Any, row: np.ndarray) -> None:
            start = 0
            for name, size in sizes.items():
                row[start : start + size] = np.asarray(obs[name]).reshape(size)
                start += size

        return spaces.Dict(dict(boxes)), encode_blocks
    try:
        flat = spaces.flatten_space(space)
    except (NotImplementedError, ValueError, TypeError) as error:
        raise ConfigError(f"{subject}: expected a space that Gymnasium can flatten, got {space}") from error
    if not isinstance(flat, spaces.Box):
        raise ConfigError(f"{subject}: expected a space of fixed size, got {space}")

    def encode_flat(obs: Any, row: np.ndarray) -> None:
        row[...] = spaces.flatten(space, obs)

    return _float_box(flat), encode_flat


def _float_box(box: spaces.Box) -> spaces.Box:
    """Return a Box of a dtype that the flat rows can hold."""
    if box.dtype in DTYPES:
        return box
    with np.errstate(over="ignore"):
        return spaces.Box(box.low.astype(np.float32), box.high.astype(np.float32), dtype=np.float32)


def action_coder(space: Any, subject: str) -> tuple[spaces.Space[Any], Decoder]:
    """Return the space that trainers see of an action space, and the function to an action of the environment.

    Raises:
        ConfigError: The space is neither Discrete, MultiDiscrete, MultiBinary nor a Box.
    """
    if isinstance(space, spaces.Discrete):
        start, kind = int(space.start), space.dtype.type
        if start == 0 and kind is np.int64:  # as the array of actions
            return spaces.Discrete(int(space.n)), lambda action: action
        return spaces.Discrete(int(space.n)), lambda action: kind(action + start)
    if isinstance(space, spaces.MultiBinary):
        shape = space.shape
        return spaces.MultiDiscrete([2] * int(np.prod(shape))), lambda action: action.astype(np.int8).reshape(shape)
    if isinstance(space, spaces.MultiDiscrete):
        count, start, shape, dtype = space.nvec.size, space.start, space.shape, space.dtype
        flat = spaces.MultiDiscrete(space.nvec.reshape(-1))
        return flat, lambda action: (action[:count].reshape(shape) + start).astype(dtype)
    if isinstance(space, spaces.Box):
        count, shape, dtype = int(np.prod(space.shape)), space.shape, space.dtype
        low, high = (bound.reshape(-1).astype(np.float32) for bound in (space.low, space.high))
        flat_box = spaces.Box(low, high, dtype=np.float32)
        return flat_box, lambda action: action[:count].reshape(shape).astype(dtype, copy=True)
    raise ConfigError(f"{subject}: expected Discrete, MultiDiscrete, MultiBinary or Box, got {space}")

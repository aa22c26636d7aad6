"""What a host file tells the runner about one configured environment."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.buffers import array_fields, check_stride
from gpu_envs.errors import ConfigError
from warp_kernels.philox import MAX_AGENTS
from warp_kernels.rules import Rules


@dataclass(frozen=True)
class Integers:
    """Shape and range of a field of integers. Kernels index memory and count by them, so no other value is restored."""

    shape: tuple[int, ...]
    """Behind the leading E (a vector dtype's own axis left out)."""
    low: int | None
    """Lowest value; None where every bit pattern is allowed."""
    high: int | None
    """Highest value."""


def integers(shape: tuple[int, ...], low: int, high: int) -> Integers:
    """A field of integers in [low, high]."""
    return Integers(shape, low, high)


def index(shape: tuple[int, ...], count: int) -> Integers:
    """A field of indices of ``count`` things, from 0."""
    return Integers(shape, 0, count - 1)


def any_bits(shape: tuple[int, ...]) -> Integers:
    """A field of integers that never index, count or end a loop, such as random words."""
    return Integers(shape, None, None)


@dataclass(frozen=True)
class Definition:
    """One environment with its sizes and constants fixed. E worlds are the runner's business."""

    rules: Rules
    """Its rules, specialised to its sizes."""
    params: dict[str, float | int]
    """Value of every field of the rules' Params."""
    state: dict[str, tuple[int, ...] | Integers]
    """Every field of the rules' State: its shape behind the leading E (a vector dtype's own axis left out), and of
    integers also the range, see :func:`integers`, :func:`index` and :func:`any_bits`."""
    agents: tuple[str, ...]
    """Names, in row order."""
    groups: dict[str, tuple[int, ...]]
    """Rows of the agents that share spaces and, by default, a policy."""
    observation_spaces: dict[str, spaces.Box]
    """True (unpadded) observation space by agent."""
    action_spaces: dict[str, spaces.Space]
    """Discrete, MultiDiscrete or Box by agent; one kind per environment."""
    max_steps: int
    """Time limit [steps]; 0 for none."""
    limit_terminates: bool
    """True where the limit is part of the rules; False where it is a cut of convenience, and truncates."""
    draw: Callable[[Any, Any], Any]
    """draw(core, envs) gives the Scene of some worlds."""
    render_fps: int = 10
    """Frames per second that show it at a natural pace."""
    roles: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Who plays against whom: groups or agents by role. {} where all play for the same, or one plays alone."""
    symmetric: bool = False
    """Roles can change seats: what one earns hangs on who plays what, not on the seat."""
    zero_sum: bool = False
    """Whatever is played, the rewards of the roles sum to 0."""
    initial: dict[str, np.ndarray] = field(default_factory=dict)
    """Tables: fields of State that rules only read, such as given starts. One copy serves all worlds; shapes as in
    ``state``."""
    scratch: tuple[str, ...] = ()
    """Fields of State that no continuation depends on, and whose content may hang on the order of siblings."""
    dense: tuple[str, ...] = ()
    """Fields of State whose memory rules lay anew at constant sizes (``Rules.lay``, or where they look around).

    They lie in C order, whatever ``env_minor`` says."""
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    """What constants may be that no setting of their name bounds: name -> (lowest, highest)."""
    info: dict[str, str] = field(default_factory=dict)
    """What ``info`` tells beside what the runner knows: name there -> field of State, per agent (A, ...)."""
    fixed_params: tuple[str, ...] = ()
    """Params that ``set_params`` refuses, because the runner's clock or other settings go by them too."""
    reset_options: Callable[[dict[str, Any]], dict[str, float]] | None = None
    """Constants of the rules that the options of a Gymnasium reset set, for that reset only; what is wrong is a
    ConfigError."""
    reset_option_names: tuple[str, ...] = ()
    """Keys of those options; any other key is refused."""
    saturates: bool = False
    """The original takes continuous actions beyond their bounds and saturates them itself, and so do the rules where
    they get them (``illegal="original"``)."""
    global_state_size: int = 0
    """S where the rules write their own global state; 0: the agents' observations, joined."""

    def __post_init__(self) -> None:
        """Check that every field of integers has a range, and that tables keep theirs."""
        for name, dtype in array_fields(self.rules.state).items():
            place = f"{self.rules.key}: State.{name}"
            declared = self.state.get(name)
            whole = not dtype.is_floating_point and dtype != torch.bool
            if declared is None:
                continue  # the layout names all that are missing
            if whole and not isinstance(declared, Integers):
                shape = tuple(declared)
                raise ConfigError(
                    f"{place}: expected the range of a field of integers, got only its shape {shape}; "
                    f"use integers({shape}, low, high), index({shape}, count) or any_bits({shape})"
                )
            if not whole and isinstance(declared, Integers):
                raise ConfigError(f"{place}: expected a shape, as its values are no integers, got {declared}")
            if isinstance(declared, Integers) and declared.low is not None and declared.high is not None:
                most = torch.iinfo(dtype)
                if not most.min <= declared.low <= declared.high <= most.max and 0 not in declared.shape:
                    wanted = f"lowest <= highest in [{most.min}, {most.max}]"
                    raise ConfigError(f"{place}: expected {wanted}, got {declared.low} to {declared.high}")
        for name, values in self.initial.items():
            low, high = self.ranges.get(name, (None, None))
            if low is not None and high is not None and values.size and (values.min() < low or values.max() > high):
                got = f"{values.min()} to {values.max()}"
                raise ConfigError(f"{self.rules.key}: State.{name} must lie in [{low}, {high}], got {got}")

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every field of State behind the leading E."""
        return {name: each.shape if isinstance(each, Integers) else each for name, each in self.state.items()}

    @property
    def ranges(self) -> dict[str, tuple[int | None, int | None]]:
        """Lowest and highest value of every field of State that holds integers; None for none."""
        return {name: (each.low, each.high) for name, each in self.state.items() if isinstance(each, Integers)}


def roster(
    counts: Mapping[str, int],
    widths: Mapping[str, int],
    actions: Mapping[str, spaces.Space],
    low: float = -np.inf,
    high: float = np.inf,
) -> dict[str, Any]:
    """Names, groups and spaces of a Definition: agents by group, in row order.

    They are named "group_0", "group_1", ...; a group shares its spaces. Sizes are checked before anything is built.

    Args:
        counts: Agents by group; a group of none is left out.
        widths: Width of the observation by group.
        actions: Action space by group.
        low: Lowest observation.
        high: Highest observation.

    Returns:
        ``agents``, ``groups``, ``observation_spaces`` and ``action_spaces`` of a :class:`Definition`.

    Raises:
        ConfigError: More agents, or wider observations, than kernels can address.
    """
    total, width = sum(counts.values()), max(widths.values())
    if total > MAX_AGENTS:
        raise ConfigError(f"the number of agents must be <= {MAX_AGENTS}, got {total}")
    check_stride("obs", (1, total, width), torch.float32)
    agents: list[str] = []
    groups, seen, done = {}, {}, {}
    for group, count in counts.items():
        names = [f"{group}_{row}" for row in range(count)]
        if names:
            groups[group] = tuple(range(len(agents), len(agents) + count))
        seen |= dict.fromkeys(names, box(widths[group], low, high))  # a space per agent takes minutes for a crowd
        done |= dict.fromkeys(names, actions[group])
        agents += names
    return {"agents": tuple(agents), "groups": groups, "observation_spaces": seen, "action_spaces": done}


def box(width: int, low: float = -np.inf, high: float = np.inf) -> spaces.Box:
    """A flat float32 observation space."""
    return spaces.Box(np.float32(low), np.float32(high), (width,), np.float32)

"""What a host file tells the runner about one configured environment."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces

from warp_kernels.rules import Rules


@dataclass(frozen=True)
class Definition:
    """One environment with its sizes and constants fixed. E worlds are the runner's business."""

    rules: Rules
    """Its rules, specialised to its sizes."""
    params: dict[str, float | int]
    """Value of every field of the rules' Params."""
    state: dict[str, tuple[int, ...]]
    """Shape of every field of the rules' State behind the leading E (a vector dtype's own axis left out)."""
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


def box(width: int, low: float = -np.inf, high: float = np.inf) -> spaces.Box:
    """A flat float32 observation space."""
    return spaces.Box(np.float32(low), np.float32(high), (width,), np.float32)

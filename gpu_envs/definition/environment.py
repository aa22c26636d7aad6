"""Definition of one configured environment, which its host file builds."""

import contextlib
import dataclasses
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.chance import Chance
from gpu_envs.definition.observation_shapes import flat_space
from gpu_envs.definition.rules_errors import check_functions
from gpu_envs.definition.struct_buffers import array_fields, check_stride, param_fields
from gpu_envs.errors import ConfigError, shown
from gpu_envs.utils.settings import MAX_INT
from gpu_envs.utils.suggestions import unknown_name_message
from gpu_envs.utils.summaries import Summary, format_range
from warp_kernels.philox import MAX_AGENTS
from warp_kernels.rules import Rules
from warp_kernels.rules_source import rules_fingerprint


@dataclass(frozen=True)
class Integers:
    """Shape and range of an integer field. Kernels index memory by it, so values outside its range are not restored."""

    shape: tuple[int, ...]
    """Shape without the leading E and without the axis of a vector dtype."""
    low: int | None
    """Lowest value; None where every bit pattern is allowed."""
    high: int | None
    """Highest value."""


def integers(shape: tuple[int, ...], low: int, high: int) -> Integers:
    """Return a field of integers in [low, high]."""
    return Integers(shape, low, high)


def index(shape: tuple[int, ...], count: int) -> Integers:
    """Return a field of indices in [0, count - 1]."""
    return Integers(shape, 0, count - 1)


def any_bits(shape: tuple[int, ...]) -> Integers:
    """Return a field of integers that never index, count or end a loop, such as random words."""
    return Integers(shape, None, None)


class WorldView(Protocol):
    """The part of a batch of worlds that a ``draw`` function may read; :class:`gpu_envs.runtime.core.Core` has it."""

    id: str
    """ID of the environment."""
    config: Any
    """Settings, an instance of the host file's ``Config``."""
    definition: "EnvDefinition"
    """Definition built from the settings."""
    num_envs: int
    """Number of worlds E."""
    num_agents: int
    """Number of agents A per world."""
    num_choices: torch.Tensor
    """Sizes of the discrete action components, (A, K) int32 on the CPU; 0 pads."""
    device: torch.device
    """Device of all tensors."""
    render_fps: int
    """Frames per second of a video at the natural pace."""
    alive: torch.Tensor
    """Agents that act on the next step, (E, A) bool."""
    valid: torch.Tensor
    """Agents that were alive before the last step, (E, A) bool."""
    to_move: torch.Tensor | None
    """Agents that decide on the next step, (E, A) bool; None where agents do not take turns."""

    @property
    def world_state(self) -> dict[str, torch.Tensor]:
        """State of the rules by field, (E, ...)."""
        ...

    @property
    def elapsed_steps(self) -> torch.Tensor:
        """Steps taken in the current episodes, (E,) int32."""
        ...

    @property
    def episode_index(self) -> torch.Tensor:
        """Index of the current episodes in their random streams, (E,) int32."""
        ...

    def get_params(self, envs: int | Sequence[int] | torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """Return the environment parameters by name, each (1,) or (E,); of the worlds ``envs``, each (W,)."""
        ...

    def render_frames(self, envs: int | Sequence[int] = (0,), size: int = 256) -> np.ndarray:
        """Draw worlds as frames of ``size`` pixels a side: uint8 (W, size, size, 3)."""
        ...


@dataclass(frozen=True)
class EnvDefinition:
    """One environment with fixed sizes and parameters, for any number of worlds E.

    Attributes:
        rules: Rules, specialized to the sizes.
        params: Value of every field of the rules' Params.
        state: Shape of every field of the rules' State, without the leading E and without the axis of a vector dtype.
            Integer fields also have a range, see :func:`integers`, :func:`index` and :func:`any_bits`.
        agents: Names of the agents, in row order.
        groups: Rows of the agents that share spaces and, by default, a policy, by group.
        observation_spaces: Unpadded observation space by agent: a Box of any shape, of float32, uint8 or bool, or a
            Dict of such Boxes. Rules write a flat row of float32: the blocks of a Dict in its order, each in the order
            of C. Views show the shapes and dtypes of the space.
        channels_first: Images, which are Boxes of three axes, are (channels, height, width) instead of (height, width,
            channels).
        action_spaces: Discrete, MultiDiscrete or Box by agent; one kind per environment.
        max_episode_steps: Time limit [steps]; 0 for none.
        time_limit_terminates: True if the time limit is part of the rules and terminates; False if it truncates.
        draw: Function ``draw(worlds, envs)`` that returns the Scene of the worlds with the indices ``envs`` (W,).
        render_fps: Frames per second of a video at the natural pace.
        roles: Groups or agents by role, for adversarial environments. {} if all agents cooperate or there is one agent.
        symmetric: True if payoffs depend only on the policies and not on the role that each plays.
        zero_sum: True if the rewards of the roles sum to zero.
        initial: Read-only fields of State, such as given initial positions. All worlds share one copy; shapes as in
            ``state``.
        scratch: Fields of State that later steps do not depend on, and whose content may depend on the order of
            siblings.
        bounds: Bounds of parameters that have no setting of their name: name -> (lowest, highest).
        info: Additional entries of ``info``: name -> field of State, per agent (A, ...). An entry is the field after a
            step, before autoreset starts the next episode. After an agent has left, its entries are those of its end,
            until its world starts an episode. So a reset clears an accumulator as any other field.
        results: Entries of ``info`` or fields of State, a number per agent (A,), that tell how an episode has ended,
            such as a victory or a count. Trainings and evaluations report the values at the end of each agent.
        chance: Random outcomes of a game, for exact game trees: :func:`gpu_envs.definition.deal`, ``NO_CHANCE``, or a
            :class:`gpu_envs.definition.Chance`. Other random numbers must not change what agents see or earn, else the
            tree is refused. None: unknown, no tree.
        fixed_params: Parameters that ``set_params`` refuses, because the clock or other settings depend on them.
        reset_options: Function from the options of a Gymnasium reset to parameters for that reset; raises ConfigError.
        reset_option_names: Keys of those options; other keys are refused.
        saturates: True if the reference environment and the rules saturate continuous actions beyond their bounds
            (``illegal_actions="saturate"``).
        global_state_size: Size S of the global state that the rules write; 0 joins the agents' observations.
    """

    rules: Rules
    params: dict[str, float | int]
    state: dict[str, tuple[int, ...] | Integers]
    agents: tuple[str, ...]
    groups: dict[str, tuple[int, ...]]
    observation_spaces: Mapping[str, spaces.Box | spaces.Dict]
    action_spaces: dict[str, spaces.Space[Any]]
    max_episode_steps: int
    time_limit_terminates: bool
    draw: Callable[[WorldView, torch.Tensor], Any]
    render_fps: int = 10
    roles: dict[str, tuple[str, ...]] = field(default_factory=dict)
    symmetric: bool = False
    zero_sum: bool = False
    initial: dict[str, np.ndarray] = field(default_factory=dict)
    scratch: tuple[str, ...] = ()
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    info: dict[str, str] = field(default_factory=dict)
    results: tuple[str, ...] = ()
    chance: Chance | None = None
    fixed_params: tuple[str, ...] = ()
    reset_options: Callable[[dict[str, Any]], dict[str, float]] | None = None
    reset_option_names: tuple[str, ...] = ()
    saturates: bool = False
    global_state_size: int = 0
    channels_first: bool = False

    def __post_init__(self) -> None:
        """Check functions of the rules, fields of Params and State, ranges of integers, and names of results.

        Raises:
            RulesError: A function of the rules does not fit its place.
            ConfigError: A parameter, field or name does not fit the rules.
        """
        check_functions(self.rules)
        self._check_fields()
        if self.rules.global_state is not None and self.global_state_size < 1:
            raise ConfigError(
                f"{self.rules.key}: global_state_size: expected the width of the rows that rules.global_state writes, "
                f"got {self.global_state_size}"
            )
        for name, (_, dtype, _) in array_fields(self.rules.state).items():
            label = f"{self.rules.key}: State.{name}"
            declared = self.state[name]
            is_integer = not dtype.is_floating_point and dtype != torch.bool
            if is_integer and not isinstance(declared, Integers):
                shape = tuple(declared)
                raise ConfigError(
                    f"{label}: expected the range of a field of integers, got only its shape {shape}; "
                    f"use integers({shape}, low, high), index({shape}, count) or any_bits({shape})"
                )
            if not is_integer and isinstance(declared, Integers):
                raise ConfigError(f"{label}: expected a shape, as its values are no integers, got {declared}")
            if isinstance(declared, Integers) and declared.low is not None and declared.high is not None:
                limits = torch.iinfo(dtype)
                if not limits.min <= declared.low <= declared.high <= limits.max and 0 not in declared.shape:
                    expected = f"lowest <= highest in [{limits.min}, {limits.max}]"
                    raise ConfigError(f"{label}: expected {expected}, got {declared.low} to {declared.high}")
        self._tell_rules_of_info()
        for name, values in self.initial.items():
            low, high = self.ranges.get(name, (None, None))
            if low is not None and high is not None and values.size and (values.min() < low or values.max() > high):
                actual = f"{values.min()} to {values.max()}"
                raise ConfigError(f"{self.rules.key}: State.{name}: expected values in [{low}, {high}], got {actual}")

    def _check_fields(self) -> None:
        """Raise a ConfigError unless params and state have exactly the fields of the rules, with fitting values."""
        key, count = self.rules.key, self.rules.num_agents
        arrays, scalars = array_fields(self.rules.state), param_fields(self.rules.params)
        for struct, values, names in (("State", self.state, list(arrays)), ("Params", self.params, list(scalars))):
            entries = struct.lower()
            if unknown := [name for name in values if name not in names]:
                raise ConfigError(f"{key}: {entries}: {unknown_name_message(f'field of {struct}', unknown[0], names)}")
            if missing := [name for name in names if name not in values]:
                raise ConfigError(f"{key}: {entries}: expected an entry for {struct}.{missing[0]}, got none")
        for name, (axes, _, _) in arrays.items():
            shape = tuple(self.shapes[name])
            if len(shape) != axes - 1:
                raise ConfigError(
                    f"{key}: State.{name}: expected a shape of {axes - 1} axes after that of the worlds, got {shape}"
                )
        for name, dtype in scalars.items():
            value = self.params[name]
            kind = "an int" if dtype == torch.int32 else "a float"
            if not isinstance(value, numbers.Real) or (dtype == torch.int32 and not -MAX_INT - 1 <= value <= MAX_INT):
                raise ConfigError(f"{key}: params: {name}: expected {kind} of 32 bits, got {shown(value)}")
            if dtype == torch.int32 and value != int(value):
                raise ConfigError(f"{key}: params: {name}: expected an int, got {shown(value)}")
        for name, state_field in self.info.items():
            if state_field not in arrays:
                message = unknown_name_message("field of State", state_field, list(arrays))
                raise ConfigError(f"{key}: info: {name}: {message}")
            shape = tuple(self.shapes[state_field])
            if shape[:1] != (count,):
                expected = f"a field of State with a row per agent ({count}, ...)"
                raise ConfigError(f"{key}: info: {name}: expected {expected}, got {state_field} {shape}")
        if self.chance is not None and not isinstance(self.chance, Chance):
            raise ConfigError(f"{key}: chance: expected a Chance, such as deal(...), or None, got {shown(self.chance)}")
        if self.chance is not None and self.chance.field and self.chance.field not in arrays:
            message = unknown_name_message("field of State", self.chance.field, list(arrays))
            raise ConfigError(f"{key}: chance: {message}")
        for name, values in self.initial.items():
            shape = (*self.shapes[name], *arrays[name][2])
            if np.shape(values) != shape:
                raise ConfigError(f"{key}: initial: {name}: expected the shape {shape}, got {np.shape(values)}")

    def _tell_rules_of_info(self) -> None:
        """Write entries of info and results into the rules, whose kernels copy them; check names of results."""
        key, agents, shapes = self.rules.key, len(self.agents), self.shapes
        for name in self.results:
            if (state_field := self.info.get(name, name)) not in shapes:
                raise ConfigError(f"{key}: results: expected names of info or fields of State, got {name!r}")
            if (shape := shapes[state_field]) != (agents,):
                raise ConfigError(f"{key}: results: expected a number per agent ({agents},), got {name!r} {shape}")
        entries = tuple((state_field, shapes[state_field][1:]) for state_field in self.info.values())
        results = tuple(self.info.get(name, name) for name in self.results)
        width = 0
        with contextlib.suppress(ConfigError):  # of an invalid space, which is raised where the environment is made
            width = max(space.shape[0] for space in self.flat_spaces.values())
        object.__setattr__(self, "rules", replace(self.rules, info=entries, results=results, width=width))

    @cached_property
    def flat_spaces(self) -> dict[str, spaces.Box]:
        """Flat float32 Box by agent, of the numbers that rules write; the declared space itself if it is flat."""
        flat: dict[int, spaces.Box] = {}  # agents that share a space share its flat one
        for agent, space in self.observation_spaces.items():
            if id(space) not in flat:
                flat[id(space)] = flat_space(space, f"{self.rules.key}: observation space of {agent}")
        return {agent: flat[id(space)] for agent, space in self.observation_spaces.items()}

    @property
    def truncation_interval(self) -> int:
        """Fewest steps between two truncations of an agent, for which trainers reserve memory; 0: none are expected."""
        return self.max_episode_steps

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the rules, which checkpoints record."""
        return rules_fingerprint(self.rules)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every field of State, without the leading E."""
        return {name: field.shape if isinstance(field, Integers) else field for name, field in self.state.items()}

    @property
    def ranges(self) -> dict[str, tuple[int | None, int | None]]:
        """Lowest and highest value of every integer field of State; None for no bound."""
        return {name: (field.low, field.high) for name, field in self.state.items() if isinstance(field, Integers)}


def params_of(config: Any, struct: Any, **overrides: float) -> dict[str, float | int]:
    """Return the value of every field of a Params struct: one of ``overrides``, or the setting of its name."""
    values = {name: overrides[name] if name in overrides else getattr(config, name) for name in param_fields(struct)}
    return {name: int(value) if isinstance(value, bool) else value for name, value in values.items()}


def roster(
    counts: Mapping[str, int],
    widths: Mapping[str, int],
    actions: Mapping[str, spaces.Space[Any]],
    low: float = -np.inf,
    high: float = np.inf,
) -> dict[str, Any]:
    """Return names, groups and spaces of agents by group, in row order.

    Agents are named "group_0", "group_1", ...; a group shares its spaces. Sizes are checked before spaces are built.

    Args:
        counts: Number of agents by group; empty groups are omitted.
        widths: Width of the observation by group.
        actions: Action space by group.
        low: Lowest observation.
        high: Highest observation.

    Returns:
        ``agents``, ``groups``, ``observation_spaces`` and ``action_spaces`` of an :class:`EnvDefinition`.

    Raises:
        ConfigError: There are more agents, or wider observations, than kernels can address.
    """
    total, width = sum(counts.values()), max(widths.values())
    if total > MAX_AGENTS:
        raise ConfigError(f"the number of agents: expected a value <= {MAX_AGENTS}, got {total}")
    check_stride("obs", (1, total, width), torch.float32)
    agents: list[str] = []
    groups, observed, acted = {}, {}, {}
    for group, count in counts.items():
        names = [f"{group}_{row}" for row in range(count)]
        if names:
            groups[group] = tuple(range(len(agents), len(agents) + count))
        observed |= dict.fromkeys(names, box(widths[group], low, high))  # one space per agent would take minutes
        acted |= dict.fromkeys(names, actions[group])
        agents += names
    return {"agents": tuple(agents), "groups": groups, "observation_spaces": observed, "action_spaces": acted}


def game_roster(
    counts: Mapping[str, int], width: int, action: spaces.Space[Any], low: float = 0.0, high: float = 1.0
) -> dict[str, Any]:
    """Return :func:`roster` of a game whose players have the same spaces, and their ``roles``.

    The groups are the roles. Players of a single group have a role each.
    """
    named = roster(counts, dict.fromkeys(counts, width), dict.fromkeys(counts, action), low, high)
    return named | {"roles": {name: (name,) for name in (counts if len(counts) > 1 else named["agents"])}}


def box(width: int, low: float = -np.inf, high: float = np.inf) -> spaces.Box:
    """Return a flat float32 observation space."""
    return spaces.Box(np.float32(low), np.float32(high), (width,), np.float32)


def env_summary(
    id: str, definition: EnvDefinition, config: Any, agents: list[str] | None = None, **facts: Any
) -> Summary:
    """Return the summary of an environment: its settings, and the agents and spaces of every group.

    Args:
        id: ID of the environment.
        definition: Configured environment.
        config: Settings of the environment.
        agents: Agents that a view controls; None: all.
        **facts: Facts of a view, such as its number of worlds and its device.
    """
    rows = []
    for group, members in definition.groups.items():
        names = [definition.agents[row] for row in members]
        names = [name for name in names if agents is None or name in agents]
        if names:
            observation, action = definition.observation_spaces[names[0]], definition.action_spaces[names[0]]
            rows.append((group, format_range(names), space_text(observation), space_text(action)))
    facts["settings"] = changed_settings(config)
    return Summary(id, facts, ("group", "agents", "observation", "action"), rows)


def space_text(space: spaces.Space[Any]) -> str:
    """Return a space in few words: the shape of a Box, and its bounds if they are finite and equal; a Dict's Boxes."""
    if isinstance(space, spaces.Dict):
        return f"Dict({', '.join(f'{name}: {space_text(box)}' for name, box in space.items())})"
    if not isinstance(space, spaces.Box):
        return str(space)
    low, high = {float(bound) for bound in space.low.flat}, {float(bound) for bound in space.high.flat}
    if len(low) == len(high) == 1 and space.is_bounded():
        return f"Box({low.pop():g}, {high.pop():g}, {space.shape})"
    return f"Box{space.shape}"


def changed_settings(config: Any) -> str | None:
    """Return the settings that differ from their defaults; None if all are defaults."""
    changed = [
        f"{field.name}={shown(getattr(config, field.name))}"
        for field in dataclasses.fields(config)
        if repr(getattr(config, field.name)) != repr(field.default)
    ]
    return ", ".join(changed) or None

"""TorchRL's ``EnvBase`` over a core: worlds are the batch, groups are nested keys, values stay on the device."""
# TorchRL is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.observation_shapes import observation_blocks, shape_observation, torch_dtype
from gpu_envs.errors import ActionError, ConfigError, DeviceError, format_names, missing_extra, packages
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.factory import make_core
from gpu_envs.utils.agent_rows import rows_index, scatter_actions
from gpu_envs.utils.tensor_checks import check_tensor
from gpu_envs.views import reset_options as options_of
from gpu_envs.views.episode_ends import WorldEnds

try:
    from tensordict import TensorDict, TensorDictBase
    from torchrl.data import Bounded, Categorical, Composite, MultiCategorical, MultiOneHot, OneHot, Unbounded
    from torchrl.envs import EnvBase
    from torchrl.envs.utils import MarlGroupMapType
except ModuleNotFoundError as error:
    raise missing_extra(error, "gpu_envs.views.torchrl", ("tensordict", "torchrl"), packages("torchrl")) from None


class TorchRLEnv(EnvBase):
    """Worlds as one batch-locked TorchRL environment, such as ``TorchRLEnv("SimpleTag-v0", num_envs=1024)``.

    With E worlds and n agents in a group, these entries are under the group's name:

    - "observation" (E, n, D), with the width or shape of these agents' space, nested by block for a Dict; "reward"
      (E, n, 1) float32;
    - "action": (E, n) int64 (categorical), (E, n, K) int64 (multi-categorical) or (E, n, K) float32 (continuous). A
      vector that is not one-hot is an error, reported as action -1;
    - "done", "terminated", "truncated" (E, n, 1): the agent has left; they stay True until its world is reset;
    - "alive" (E, n): the agent acts in the next step. A transition is valid if ``data[group, "alive"]`` of its root is
      True;
    - "action_mask" (E, n, choices), if actions can be illegal. The action spec has the mask too, so ``rand_action``
      returns legal actions;
    - "to_move" (E, n), in turn-based environments;
    - "info", further entries of the environment, if any.

    At the root are "done", "terminated" and "truncated" (E, 1) of worlds. A world is done when all agents have left,
    and truncated if one of them was. Worlds are reset as a whole, by "_reset" of the root, as TorchRL's rollouts do.
    The core's autoreset is off, so "next" has the last observation of an episode.

    Later steps do not write to the results of a step. The entries of the groups are views of one tensor for all agents,
    if their rows are contiguous. A seed of ``set_seed`` takes effect at the next reset of all worlds; a list of a seed
    per world needs ``static_seed=True``. ``reset(seed=, options=)`` are as in
    :class:`gpu_envs.views.batched.BatchedEnv`. A copied environment is rebuilt from its arguments and needs a reset.

    Args:
        id: "SimpleTag-v0", ...
        num_envs: Number of worlds E, the batch size.
        device: Device of the environment; None is cuda if available, else the CPU.
        group_map: Agents by group, or a ``MarlGroupMapType``; None means the environment's own groups. The agents of a
            group must have equal spaces, and every agent must be in one group.
        categorical_actions: Discrete actions are indices; with False they are one-hot vectors.
        return_state: Add the global state (E, S) to the root as "state", for centralized critics.
        **config: Settings, as for :func:`gpu_envs.make`.

    Raises:
        ConfigError: A setting has an invalid value, or the group map does not match the agents.
    """

    def __init__(
        self,
        id: str,
        num_envs: int = 1,
        device: Any = None,
        *,
        group_map: Any = None,
        categorical_actions: bool = True,
        return_state: bool = False,
        **config: Any,
    ) -> None:
        if "autoreset" in config:
            raise ConfigError(f"{id}: TorchRL resets worlds itself; omit autoreset=")
        if config.get("reuse_buffers"):
            raise ConfigError(f"{id}: TorchRL keeps the results of a step; omit reuse_buffers=")
        core = make_core(id, num_envs, device, **{"illegal_actions": "saturate", **config, "autoreset": "disabled"})
        super().__init__(device=core.device, batch_size=torch.Size([core.num_envs]))
        self.core = core
        arguments = {"group_map": group_map, "categorical_actions": categorical_actions, "return_state": return_state}
        self._arguments = {"id": id, "num_envs": num_envs, "device": device, **arguments, **config}
        self.categorical_actions = categorical_actions
        self.return_state = return_state
        self.group_map: dict[str, list[str]] = _named_groups(core, group_map)
        self._groups = {name: _group_of(core, name, agents) for name, agents in self.group_map.items()}
        self._ends = WorldEnds(core)
        self._next_seed: int | None = None
        self.observation_spec: Any
        self.action_spec: Any
        self.reward_spec: Any
        self.done_spec: Any
        self.observation_spec, self.action_spec, self.reward_spec, self.done_spec = (
            part.expand(self.batch_size) for part in _specs(core, self._groups, categorical_actions, return_state)
        )
        # Looking a spec up takes longer than a small step.
        self._action_shapes = {name: tuple(self.full_action_spec[name, "action"].shape) for name in self._groups}

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self._arguments), ()

    def _reset(
        self, tensordict: TensorDictBase | None = None, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> TensorDictBase:
        mask, env_options = options_of.read(
            self.core, options, None if tensordict is None else self._worlds(tensordict)
        )
        if mask is None and seed is None:
            seed, self._next_seed = self._next_seed, None
        obs, info = options_of.reset(self.core, seed, mask, env_options)
        self._ends.restart(mask)
        return self._by_group(obs, info)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        obs, reward, _, truncated, info = self.core.step(self._stack(tensordict))
        self._ends.note(truncated)
        return self._by_group(obs, info, reward)

    def _step_proc_data(self, next_tensordict_out: TensorDictBase) -> TensorDictBase:
        """Skip TorchRL's search for missing flags and other shapes of rewards: ``_step`` returns every entry."""
        return super()._step_proc_data(next_tensordict_out) if self.run_type_checks else next_tensordict_out

    def _set_seed(self, seed: int | None) -> None:
        self._next_seed = seed

    def render(self, mode: str = "rgb_array") -> np.ndarray:
        """Return a frame (512, 512, 3) uint8 of world 0; raise a ConfigError if the mode is not "rgb_array"."""
        if mode != "rgb_array":
            raise ConfigError(f"{self.core.id}: this view renders with mode 'rgb_array' only, got {mode!r}")
        return self.core.render_frames((0,), 512)[0]

    def to(self, device: Any) -> TorchRLEnv:
        """Return the environment itself; raise a DeviceError if the device is not its own."""
        target, current = torch.device(device), self.core.device
        if target.type != current.type or target.index not in (None, current.index or 0):
            raise DeviceError(f"{self.core.id} is on {current}; create another one with device={str(device)!r}")
        return self

    def close(self, **kwargs: Any) -> None:
        """Release the environment."""
        self.core.close()
        super().close(**kwargs)

    def _by_group(
        self, obs: torch.Tensor, info: dict[str, torch.Tensor], reward: torch.Tensor | None = None
    ) -> TensorDictBase:
        """Return stacked results (E, A, ...) as a tensordict by group."""
        core, batch = self.core, self.batch_size
        alive, cut = info["alive"], self._ends.cut.clone()
        done = ~alive
        over = done.all(1, keepdim=True)
        over_cut = over & cut.any(1, keepdim=True)
        out: dict[str, Any] = {"done": over, "terminated": over & ~over_cut, "truncated": over_cut}
        flags = {"done": done, "terminated": done & ~cut, "truncated": cut}
        for name, group in self._groups.items():
            rows = group.rows
            part: dict[str, Any] = {label: flag[:, rows, None] for label, flag in flags.items()}
            shape = torch.Size((*batch, len(group.agents)))
            observation = shape_observation(obs[:, rows], group.space)
            is_nested = isinstance(observation, dict)
            part["observation"] = _tensordict(observation, shape, core.device) if is_nested else observation
            part["alive"] = alive[:, rows]
            if group.choices:
                mask = part["action_mask"] = info["action_mask"][:, rows, : group.choices]
                if core.action_kind == "discrete":
                    self.full_action_spec[name, "action"].update_mask(mask)
            if core.to_move is not None:
                part["to_move"] = info["to_move"][:, rows]
            if core.definition.info:
                extra = {label: info[label][:, rows] for label in core.definition.info}
                part["info"] = _tensordict(extra, shape, core.device)
            if reward is not None:
                part["reward"] = reward[:, rows, None]
            out[name] = _tensordict(part, shape, core.device)
        if self.return_state:
            out["state"] = core.state()
        return _tensordict(out, batch, core.device)

    def _stack(self, tensordict: TensorDictBase) -> torch.Tensor:
        """Return the joint action for the core from the actions of the groups."""
        core = self.core
        joint = core.action_buffer
        for name, group in self._groups.items():
            action = tensordict.get((name, "action"), None)
            if action is None:
                spec = self.full_action_spec[name, "action"]
                expected = f"a {spec.dtype} tensor {tuple(spec.shape)} at {(name, 'action')}"
                raise ActionError(f"{core.id}: no action of group {name!r} in the tensordict; expected {expected}")
            one_hot = not self.categorical_actions and core.action_kind != "continuous"
            dtype = action.dtype if one_hot else joint.dtype  # one-hot vectors can have any dtype
            check_tensor(core.id, f"action of group {name!r}", action, self._action_shapes[name], dtype, core.device)
            action = _choices_of(self.full_action_spec[name, "action"], action) if one_hot else action.detach()
            if isinstance(group.rows, slice) and action.shape == joint.shape:
                return action  # all agents in row order
            scatter_actions(joint, group.rows, action)
        return joint

    def _worlds(self, tensordict: TensorDictBase) -> torch.Tensor | None:
        """Return the mask (E,) of worlds to reset; None for all."""
        mask = tensordict.get("_reset", None)
        if mask is not None:
            return mask.reshape(self.core.num_envs)
        for name in self._groups:
            if tensordict.get((name, "_reset"), None) is not None:
                raise ActionError(
                    f"{self.core.id}: got a '_reset' of group {name!r}, but worlds are reset as a whole; "
                    f"set '_reset' (bool, ({self.core.num_envs}, 1)) at the root"
                )
        return None


def _tensordict(entries: dict[str, Any], batch: torch.Size, device: torch.device) -> TensorDict:
    """Return a tensordict of entries that have this batch size and device, without TensorDict's checks of each."""
    return TensorDict._new_unsafe(entries, batch_size=batch, device=device)


_FLAGS = ("done", "terminated", "truncated")  # entries that every group has
_RESERVED = ("state", "next", "_reset", *_FLAGS)


@dataclass(frozen=True)
class _Group:
    """Group of agents, and its part of every tensor."""

    agents: list[str]
    """Names, in the order of rows."""
    rows: slice | torch.Tensor
    """Rows among the agents of a core; a tensor is (agents,) int64."""
    space: spaces.Box | spaces.Dict  # of the observation
    choices: int  # width of the action mask; 0 if all actions are always legal


def _named_groups(core: Core, group_map: Any) -> dict[str, list[str]]:
    """Return the names of agents by group.

    Raises:
        ConfigError: The value is not such a dict, the name of a group is reserved, or an agent is unknown or not in
            exactly one group.
    """
    agents = core.possible_agents
    if group_map is None:
        return {name: [agents[row] for row in rows] for name, rows in core.groups.items()}
    if isinstance(group_map, MarlGroupMapType):
        group_map = group_map.get_group_map(list(agents))
    if not isinstance(group_map, Mapping) or not all(
        isinstance(names, Sequence) and not isinstance(names, str) for names in group_map.values()
    ):
        raise ConfigError(f"{core.id}: group_map: expected a dict of lists of agents by group, got {group_map!r}")
    for group in group_map:
        if group in _RESERVED or not isinstance(group, str):
            raise ConfigError(f"{core.id}: group_map cannot have a group named {group!r}: choose another name")
    pairs = [name for names in group_map.values() for name in names]
    if sorted(map(str, pairs)) != sorted(agents) or not all(group_map.values()):
        raise ConfigError(
            f"{core.id}: group_map must have each of its agents once and no empty group; "
            f"the agents are {format_names(agents)}, got {format_names(pairs)}"
        )
    return {group: list(names) for group, names in group_map.items()}


def _group_of(core: Core, name: str, agents: list[str]) -> _Group:
    """Return a group with its rows and widths.

    Raises:
        ConfigError: The agents have different spaces.
    """
    pairs = [(core.definition.observation_spaces[agent], core.action_spaces[agent]) for agent in agents]
    for agent, pair in zip(agents, pairs, strict=True):
        if pair is not pairs[0] and pair != pairs[0]:
            raise ConfigError(
                f"{core.id}: group_map puts {agents[0]} and {agent} into group {name!r}, but their spaces differ: "
                f"{pairs[0]} and {pair}; put them into separate groups"
            )
    order = {agent: row for row, agent in enumerate(core.possible_agents)}
    rows = [order[agent] for agent in agents]
    choices = 0 if core.action_mask is None else int(core.num_choices[rows[0]].sum())
    return _Group(agents, rows_index(rows, core.device), pairs[0][0], choices)


def _specs(core: Core, groups: Mapping[str, _Group], categorical: bool, state: bool) -> tuple[Composite, ...]:
    """Return the specs of observations, actions, rewards and ends of one world.

    Args:
        core: Core of the view.
        groups: Groups by name.
        categorical: Discrete actions are indices, not one-hot vectors.
        state: The global state (S,) is part of the observation.
    """
    device = core.device
    observations, acts, earns, ends = {}, {}, {}, {}
    for name, group in groups.items():
        n, first = len(group.agents), group.agents[0]
        part = {"observation": _observation(group.space, n, device), "alive": _flag((n,), device)}
        if group.choices:
            part["action_mask"] = _flag((n, group.choices), device)
        if core.to_move is not None:
            part["to_move"] = _flag((n,), device)
        if core.definition.info:
            extra = {label: core.world_state[field][0] for label, field in core.definition.info.items()}
            extra = {label: _free((n, *value.shape[1:]), value.dtype, device) for label, value in extra.items()}
            part["info"] = Composite(extra, shape=(n,))
        observations[name] = Composite(part, shape=(n,))
        acts[name] = Composite({"action": _action(core.action_spaces[first], n, categorical, device)}, shape=(n,))
        earns[name] = Composite({"reward": _free((n, 1), torch.float32, device)}, shape=(n,))
        ends[name] = Composite({label: _flag((n, 1), device) for label in _FLAGS}, shape=(n,))
    if state:
        widths = [space.shape[0] for space in core.observation_spaces.values()]
        observations["state"] = _free((core.definition.global_state_size or sum(widths),), torch.float32, device)
    ends |= {label: _flag((1,), device) for label in _FLAGS}
    return tuple(Composite(part, device=device) for part in (observations, acts, earns, ends))


def _choices_of(spec: OneHot | MultiOneHot, action: torch.Tensor) -> torch.Tensor:
    """Return the choices (E, n) or (E, n, K) of one-hot vectors; -1, an invalid action, for other vectors."""
    is_multi = isinstance(spec, MultiOneHot)
    hot = (action.detach() > 0.5).split([box.n for box in spec.space] if is_multi else [spec.space.n], -1)
    choices = torch.stack([torch.where(part.sum(-1) == 1, part.long().argmax(-1), -1) for part in hot], -1)
    return choices if is_multi else choices[..., 0]


def _flag(shape: tuple[int, ...], device: torch.device) -> Any:
    return Categorical(2, shape=shape, dtype=torch.bool, device=device)


def _free(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Any:
    return Unbounded(shape=shape, dtype=dtype, device=device)


def _observation(space: spaces.Box | spaces.Dict, n: int, device: torch.device) -> Any:
    """Return the spec of a group's observation; a Dict is nested by the names of its blocks."""
    if isinstance(space, spaces.Dict):
        boxes = observation_blocks(space).items()
        return Composite({name: _box(box, n, device) for name, box in boxes}, shape=(n,))
    return _box(space, n, device)


def _box(space: spaces.Box, n: int, device: torch.device) -> Any:
    """Return the spec (n, D) of a group's continuous space, unbounded if a limit is infinite."""
    shape, dtype = (n, *space.shape), torch_dtype(space)
    if dtype == torch.bool:
        return _flag(shape, device)
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        return _free(shape, dtype, device)
    low, high = (torch.as_tensor(bound, device=device).expand(shape) for bound in (space.low, space.high))
    return Bounded(low, high, shape=shape, dtype=dtype, device=device)


def _action(space: spaces.Space[Any], n: int, categorical: bool, device: torch.device) -> Any:
    """Return the spec of a group's action, (n,) or (n, K)."""
    if isinstance(space, spaces.Box):
        return _box(space, n, device)
    if isinstance(space, spaces.MultiDiscrete):
        counts = torch.as_tensor(space.nvec, device=device)
        if categorical:
            return MultiCategorical(counts, shape=(n, len(counts)), device=device)
        return MultiOneHot(counts.tolist(), shape=(n, int(counts.sum())), device=device)
    choices = int(space.n)  # type: ignore[attr-defined]
    if categorical:
        return Categorical(choices, shape=(n,), dtype=torch.int64, device=device)
    return OneHot(choices, shape=(n, choices), device=device)

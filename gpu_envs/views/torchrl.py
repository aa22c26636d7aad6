"""TorchRL's ``EnvBase`` over a core: worlds are the batch, groups are nested keys, everything stays on the device."""
# TorchRL is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.checks import check_tensor
from gpu_envs.core import Core
from gpu_envs.errors import ActionError, ConfigError, DeviceError, MissingExtraError, listed
from gpu_envs.joint import put, rows_index
from gpu_envs.registry import make_core
from gpu_envs.views.options import reset

try:
    from tensordict import TensorDict, TensorDictBase
    from torchrl.data import Bounded, Categorical, Composite, MultiCategorical, MultiOneHot, OneHot, Unbounded
    from torchrl.envs import EnvBase
    from torchrl.envs.utils import MarlGroupMapType
except ModuleNotFoundError as error:
    raise MissingExtraError(f"this view needs {error.name}: pip install gpu-envs[torchrl]") from None

_FLAGS = ("done", "terminated", "truncated")
_RESERVED = ("state", "next", "_reset", *_FLAGS)


@dataclass(frozen=True)
class _Group:
    """What a group's part of every tensor is."""

    agents: list[str]
    rows: slice | torch.Tensor
    width: int  # of its observation
    choices: int  # width of its action mask; 0 where every choice is always legal
    shape: tuple[int, ...]  # of its action, as the core takes it: (E, n) or (E, n, K)


class TorchRLEnv(EnvBase):
    """Worlds as one batch-locked TorchRL environment; ``TorchRLEnv("SimpleTag-v0", num_envs=1024)`` makes it.

    With E worlds and n agents in a group, under the group's name:

    - "observation" (E, n, D), the true width of these agents; "reward" (E, n, 1) float32;
    - "action": (E, n) int64 (categorical), (E, n, K) int64 (multi-categorical) or (E, n, K) float32;
    - "done", "terminated", "truncated" (E, n, 1): the agent has left, and how; they stay until its world is reset;
    - "alive" (E, n): acts on the next step. So a transition counts where ``data[group, "alive"]`` of its root is True;
    - "action_mask" (E, n, choices), where actions can be illegal; the action spec has it: ``rand_action`` is legal;
    - "to_move" (E, n), where agents take turns;
    - "info", what else the environment tells, if it does.

    At the root are "done", "terminated" and "truncated" (E, 1), those of worlds: done when all agents have left,
    truncated if one of them was. Worlds are reset as a whole, by the root's "_reset". TorchRL does so where it rolls
    out; the core's own autoreset is off, so the last observation of an episode is in "next" as it was.

    What a step returns belongs to the caller: no later step writes to it. The groups' entries are views of one tensor
    for all agents, if their rows lie together. A seed of ``set_seed`` takes hold at the next reset of all worlds;
    ``reset(seed=, options=)`` are those of :class:`gpu_envs.views.batched.BatchedEnv`.

    Args:
        id: "SimpleTag-v0", ...
        num_envs: Number of worlds E, the batch size.
        device: Where everything lives; None takes cuda if there is one.
        group_map: Agents by group, or a ``MarlGroupMapType``; None takes the environment's own groups. The agents of a
            group need the same spaces, and every agent one group.
        categorical_actions: Discrete actions are indices; False takes one-hot vectors.
        return_state: Put the global state (E, S) into the root, as "state", for centralised critics.
        **config: Settings, as for :func:`gpu_envs.make`.

    Raises:
        ConfigError: A setting with a bad value, or a group map that does not fit the agents.
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
            raise ConfigError(f"{id}: TorchRL resets worlds itself; leave autoreset= out")
        if config.get("reuse_buffers"):
            raise ConfigError(f"{id}: TorchRL keeps what a step returns; leave reuse_buffers= out")
        core = make_core(id, num_envs, device, **{"illegal": "original", **config, "autoreset": "disabled"})
        super().__init__(device=core.device, batch_size=torch.Size([core.num_envs]))
        self.core = core
        self.categorical_actions = categorical_actions
        self.return_state = return_state
        self.group_map = _group_map(core, group_map)
        self._groups = {name: _group(core, name, agents) for name, agents in self.group_map.items()}
        self._cut = torch.zeros_like(core.truncated)  # (E, A) this agent's present episode ended as a truncation
        self._next_seed: int | None = None
        self._lay_specs()

    def _lay_specs(self) -> None:
        """Specs of one world, expanded to all."""
        core, batch, device = self.core, self.batch_size, self.core.device
        seen, acts, earns, ends = {}, {}, {}, {}
        for name, group in self._groups.items():
            n, first = len(group.agents), group.agents[0]
            part = {"observation": _box(core.observation_spaces[first], n, device), "alive": _flag((n,), device)}
            if group.choices:
                part["action_mask"] = _flag((n, group.choices), device)
            if core.to_move is not None:
                part["to_move"] = _flag((n,), device)
            if core.definition.info:
                told = {label: core.world_state[field][0] for label, field in core.definition.info.items()}
                told = {label: _free((n, *value.shape[1:]), value.dtype, device) for label, value in told.items()}
                part["info"] = Composite(told, shape=(n,))
            seen[name] = Composite(part, shape=(n,))
            action = _action(core.action_spaces[first], n, self.categorical_actions, device)
            acts[name] = Composite({"action": action}, shape=(n,))
            earns[name] = Composite({"reward": _free((n, 1), torch.float32, device)}, shape=(n,))
            ends[name] = Composite({label: _flag((n, 1), device) for label in _FLAGS}, shape=(n,))
        if self.return_state:
            widths = [space.shape[0] for space in core.observation_spaces.values()]
            seen["state"] = _free((core.definition.global_state_size or sum(widths),), torch.float32, device)
        ends |= {label: _flag((1,), device) for label in _FLAGS}
        self.observation_spec, self.action_spec, self.reward_spec, self.done_spec = (
            Composite(part, device=device).expand(batch) for part in (seen, acts, earns, ends)
        )

    def _reset(
        self, tensordict: TensorDictBase | None = None, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> TensorDictBase:
        mask = None if tensordict is None else self._worlds(tensordict)
        if mask is None and seed is None:
            seed, self._next_seed = self._next_seed, None
        obs, info = reset(self.core, seed, mask, options)
        self._cut = torch.zeros_like(self._cut) if mask is None else self._cut & ~mask[:, None]
        return self._told(obs, info)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        obs, reward, _, truncated, info = self.core.step(self._stack(tensordict))
        self._cut = self._cut | truncated
        return self._told(obs, info, reward)

    def _set_seed(self, seed: int | None) -> None:
        self._next_seed = seed

    def render(self, mode: str = "rgb_array") -> np.ndarray:
        """World 0 as uint8 (512, 512, 3)."""
        if mode != "rgb_array":
            raise ConfigError(f"{self.core.id}: this view renders to mode 'rgb_array' only, got {mode!r}")
        return self.core.frame((0,), 512)[0]

    def to(self, device: Any) -> "TorchRLEnv":
        """The environment itself; it lives where it was made."""
        if torch.empty(0, device=device).device != self.core.device:
            raise DeviceError(f"{self.core.id} lives on {self.core.device}; make it anew with device={str(device)!r}")
        return self

    def close(self, **kwargs: Any) -> None:
        """Release the environment."""
        self.core.close()
        super().close(**kwargs)

    def _told(
        self, obs: torch.Tensor, info: dict[str, torch.Tensor], reward: torch.Tensor | None = None
    ) -> TensorDictBase:
        """Stacked results (E, A, ...) as a tensordict by group."""
        core, batch = self.core, self.batch_size
        alive, cut = info["alive"], self._cut
        done = ~alive
        over = done.all(1, keepdim=True)
        over_cut = over & cut.any(1, keepdim=True)
        out: dict[str, Any] = {"done": over, "terminated": over & ~over_cut, "truncated": over_cut}
        flags = {"done": done, "terminated": done & ~cut, "truncated": cut}
        for name, group in self._groups.items():
            rows = group.rows
            part: dict[str, Any] = {label: flag[:, rows, None] for label, flag in flags.items()}
            part["observation"] = obs[:, rows, : group.width]
            part["alive"] = alive[:, rows]
            if group.choices:
                mask = part["action_mask"] = info["action_mask"][:, rows, : group.choices]
                if core.action_kind == "discrete":
                    self.full_action_spec[name, "action"].update_mask(mask)
            if core.to_move is not None:
                part["to_move"] = info["to_move"][:, rows]
            shape = (*batch, len(group.agents))
            if core.definition.info:
                told = {label: info[label][:, rows] for label in core.definition.info}
                part["info"] = TensorDict(told, batch_size=shape, device=core.device)
            if reward is not None:
                part["reward"] = reward[:, rows, None]
            out[name] = TensorDict(part, batch_size=shape, device=core.device)
        if self.return_state:
            out["state"] = core.state()
        return TensorDict(out, batch_size=batch, device=core.device)

    def _stack(self, tensordict: TensorDictBase) -> torch.Tensor:
        """The groups' actions as the core takes them."""
        core = self.core
        joint = core.action_buffer
        for name, group in self._groups.items():
            action = tensordict.get((name, "action")).detach()
            if not self.categorical_actions and core.action_kind != "continuous":
                action = self.full_action_spec[name, "action"].to_categorical(action, safe=False)
            check_tensor(core.id, f"action of group {name!r}", action, group.shape, joint.dtype, core.device)
            if isinstance(group.rows, slice) and action.shape == joint.shape:
                return action  # everyone's, in order
            put(joint, group.rows, action)
        return joint

    def _worlds(self, tensordict: TensorDictBase) -> torch.Tensor | None:
        """Which worlds to reset (E,); None for all."""
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


def _group_map(core: Core, asked: Any) -> dict[str, list[str]]:
    """Names of agents by group.

    Raises:
        ConfigError: It is no such dict, a name is taken or unknown, or an agent is in no group or in two.
    """
    agents = core.possible_agents
    if asked is None:
        return {name: [agents[row] for row in rows] for name, rows in core.groups.items()}
    if isinstance(asked, MarlGroupMapType):
        asked = asked.get_group_map(list(agents))
    if not isinstance(asked, Mapping) or not all(
        isinstance(names, Sequence) and not isinstance(names, str) for names in asked.values()
    ):
        raise ConfigError(f"{core.id}: group_map must be a dict of lists of agents by group, got {asked!r}")
    for group in asked:
        if group in _RESERVED or not isinstance(group, str):
            raise ConfigError(f"{core.id}: group_map cannot have a group named {group!r}: choose another name")
    seats = [name for names in asked.values() for name in names]
    if sorted(map(str, seats)) != sorted(agents) or not all(asked.values()):
        raise ConfigError(
            f"{core.id}: group_map must have each of its agents once and no empty group; "
            f"the agents are {listed(agents)}, got {listed(seats)}"
        )
    return {group: list(names) for group, names in asked.items()}


def _group(core: Core, name: str, agents: list[str]) -> _Group:
    """Its rows and widths.

    Raises:
        ConfigError: Its agents have different spaces.
    """
    seats = [(core.observation_spaces[agent], core.action_spaces[agent]) for agent in agents]
    for agent, seat in zip(agents, seats, strict=True):
        if seat is not seats[0] and seat != seats[0]:
            raise ConfigError(
                f"{core.id}: group_map puts {agents[0]} and {agent} into group {name!r}, but their spaces differ: "
                f"{seats[0]} and {seat}; give them groups of their own"
            )
    order = {agent: row for row, agent in enumerate(core.possible_agents)}
    rows = [order[agent] for agent in agents]
    observation, action = seats[0]
    choices = 0 if core.action_mask is None else int(core.num_choices[rows[0]].max())
    shape = (core.num_envs, len(rows), *(action.shape or ()))
    return _Group(agents, rows_index(rows, core.device), observation.shape[0], choices, shape)


def _flag(shape: tuple[int, ...], device: torch.device) -> Any:
    return Categorical(2, shape=shape, dtype=torch.bool, device=device)


def _free(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Any:
    return Unbounded(shape=shape, dtype=dtype, device=device)


def _box(space: spaces.Box, n: int, device: torch.device) -> Any:
    """Spec (n, D) of a group's continuous space; one without limits where some are infinite."""
    shape = (n, *space.shape)
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        return _free(shape, torch.float32, device)
    low, high = (torch.as_tensor(bound, device=device).expand(shape) for bound in (space.low, space.high))
    return Bounded(low, high, shape=shape, dtype=torch.float32, device=device)


def _action(space: spaces.Space, n: int, categorical: bool, device: torch.device) -> Any:
    """Spec of a group's action, (n,) or (n, K)."""
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

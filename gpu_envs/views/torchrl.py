"""TorchRL's ``EnvBase`` over a core: worlds are the batch, groups are nested keys, everything stays on the device."""
# TorchRL is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch

from gpu_envs.checks import check_tensor
from gpu_envs.errors import ActionError, ConfigError, DeviceError, missing
from gpu_envs.factory import make_core
from gpu_envs.joint import put
from gpu_envs.views import options as options_of
from gpu_envs.views.ends import WorldEnds

try:
    from tensordict import TensorDict, TensorDictBase
    from torchrl.envs import EnvBase
except ModuleNotFoundError as error:
    raise missing(error, "gpu_envs.views.torchrl", ("tensordict", "torchrl"), "'gpu-envs[torchrl]'") from None
from gpu_envs.views.torchrl_groups import choices_of, group_of, named_groups, specs


class TorchRLEnv(EnvBase):
    """Worlds as one batch-locked TorchRL environment; ``TorchRLEnv("SimpleTag-v0", num_envs=1024)`` makes it.

    With E worlds and n agents in a group, under the group's name:

    - "observation" (E, n, D), the true width of these agents; "reward" (E, n, 1) float32;
    - "action": (E, n) int64 (categorical), (E, n, K) int64 (multi-categorical) or (E, n, K) float32; a one-hot vector
      that does not choose is refused as choice -1;
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
    ``reset(seed=, options=)`` are those of :class:`gpu_envs.views.batched.BatchedEnv`. A copied environment is made
    anew from its arguments, and needs a reset.

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
        arguments = {"group_map": group_map, "categorical_actions": categorical_actions, "return_state": return_state}
        self._arguments = {"id": id, "num_envs": num_envs, "device": device, **arguments, **config}
        self.categorical_actions = categorical_actions
        self.return_state = return_state
        self.group_map = named_groups(core, group_map)
        self._groups = {name: group_of(core, name, agents) for name, agents in self.group_map.items()}
        self._ends = WorldEnds(core)
        self._next_seed: int | None = None
        self.observation_spec, self.action_spec, self.reward_spec, self.done_spec = (
            part.expand(self.batch_size) for part in specs(core, self._groups, categorical_actions, return_state)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self._arguments), ()

    def _reset(
        self, tensordict: TensorDictBase | None = None, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> TensorDictBase:
        mask, own = options_of.read(self.core, options, None if tensordict is None else self._worlds(tensordict))
        if mask is None and seed is None:
            seed, self._next_seed = self._next_seed, None
        obs, info = options_of.reset(self.core, seed, mask, own)
        self._ends.restart(mask)
        return self._told(obs, info)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        obs, reward, _, truncated, info = self.core.step(self._stack(tensordict))
        self._ends.note(truncated)
        return self._told(obs, info, reward)

    def _set_seed(self, seed: int | None) -> None:
        self._next_seed = seed

    def render(self, mode: str = "rgb_array") -> np.ndarray:
        """World 0 as uint8 (512, 512, 3); ConfigError for any mode but "rgb_array"."""
        if mode != "rgb_array":
            raise ConfigError(f"{self.core.id}: this view renders to mode 'rgb_array' only, got {mode!r}")
        return self.core.frame((0,), 512)[0]

    def to(self, device: Any) -> TorchRLEnv:
        """The environment itself; it lives where it was made, anything else is a DeviceError."""
        asked, own = torch.device(device), self.core.device
        if asked.type != own.type or asked.index not in (None, own.index or 0):
            raise DeviceError(f"{self.core.id} lives on {own}; make it anew with device={str(device)!r}")
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
        alive, cut = info["alive"], self._ends.cut.clone()
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
            spec = self.full_action_spec[name, "action"]
            action = tensordict.get((name, "action"), None)
            if action is None:
                wanted = f"a {spec.dtype} tensor {tuple(spec.shape)} at {(name, 'action')}"
                raise ActionError(f"{core.id}: no action of group {name!r} in the tensordict; expected {wanted}")
            one_hot = not self.categorical_actions and core.action_kind != "continuous"
            dtype = action.dtype if one_hot else joint.dtype  # one-hot vectors come in all types
            check_tensor(core.id, f"action of group {name!r}", action, tuple(spec.shape), dtype, core.device)
            action = choices_of(spec, action) if one_hot else action.detach()
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

"""TorchRL's ``EnvBase`` over a core: worlds are the batch, groups are nested keys, values stay on the device."""
# TorchRL is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch

from gpu_envs.definition.observation_shapes import shape_observation
from gpu_envs.errors import ActionError, ConfigError, DeviceError, missing_extra, packages
from gpu_envs.runtime.factory import make_core
from gpu_envs.utils.agent_rows import scatter_actions
from gpu_envs.utils.tensor_checks import check_tensor
from gpu_envs.views import reset_options as options_of
from gpu_envs.views.episode_ends import WorldEnds

try:
    from tensordict import TensorDict, TensorDictBase
    from torchrl.envs import EnvBase
except ModuleNotFoundError as error:
    raise missing_extra(error, "gpu_envs.views.torchrl", ("tensordict", "torchrl"), packages("torchrl")) from None
from gpu_envs.views.torchrl_groups import choices_of, group_of, named_groups, specs

__all__ = ["TorchRLEnv"]


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
        self.group_map: dict[str, list[str]] = named_groups(core, group_map)
        self._groups = {name: group_of(core, name, agents) for name, agents in self.group_map.items()}
        self._ends = WorldEnds(core)
        self._next_seed: int | None = None
        self.observation_spec: Any
        self.action_spec: Any
        self.reward_spec: Any
        self.done_spec: Any
        self.observation_spec, self.action_spec, self.reward_spec, self.done_spec = (
            part.expand(self.batch_size) for part in specs(core, self._groups, categorical_actions, return_state)
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
            action = choices_of(self.full_action_spec[name, "action"], action) if one_hot else action.detach()
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

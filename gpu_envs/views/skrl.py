"""skrl's multi-agent interface: dicts of tensors that never leave the device.

::

    from gpu_envs.views.skrl import make_skrl, per_agent

    env = make_skrl("SimpleTag-v0", num_envs=1024)  # for skrl's agents and trainers
    cfg = per_agent(MAPPO_CFG(rollouts=32), env.possible_agents)
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

import torch

from gpu_envs.core import Core
from gpu_envs.definition import box
from gpu_envs.errors import ConfigError, missing
from gpu_envs.factory import make_core
from gpu_envs.views import options as options_of
from gpu_envs.views.batched import BatchedEnv, TensorDict
from gpu_envs.views.ends import WorldEnds

Cfg = TypeVar("Cfg")


def make_skrl(id: str, num_envs: int = 1, device: Any = None, *, render_mode: str | None = None, **config: Any) -> Any:
    """Make an environment wrapped for skrl.

    Args:
        id: "SimpleTag-v0", ... see :func:`gpu_envs.list_envs`.
        num_envs: Worlds.
        device: "cpu", "cuda", "cuda:1"; None takes cuda if there is one, else the CPU.
        render_mode: "rgb_array", "human" or None.
        **config: Settings, as for :func:`gpu_envs.make`.

    Returns:
        skrl's ``IsaacLabMultiAgentWrapper`` around a :class:`SkrlEnv`, which is its ``unwrapped``.

    Raises:
        MissingExtraError: skrl is not installed.
        ConfigError: A setting that does not exist, has a bad value, or that skrl cannot work with.
    """
    try:
        from skrl.envs.wrappers.torch import wrap_env  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        raise missing(error, "gpu_envs.views.skrl", ("skrl",), "'gpu-envs[skrl]'") from None
    core = make_core(id, num_envs, device, **{"illegal": "original", **config})
    return wrap_env(SkrlEnv(core, render_mode), wrapper="isaaclab-multi-agent", verbose=False)


def per_agent(cfg: Cfg, possible_agents: Sequence[str]) -> Cfg:
    """Name a configuration's empty keyword settings by agent, in place.

    skrl 2.1.1 takes an empty dict for one that lacks agents, so that ``IPPO_CFG()`` and ``MAPPO_CFG()`` fail with their
    own defaults. With the agents' names in it, skrl spreads all other settings over the agents itself.

    Args:
        cfg: ``IPPO_CFG``, ``MAPPO_CFG`` or another configuration of several agents.
        possible_agents: The environment's.

    Returns:
        The same configuration.
    """
    for field in dataclasses.fields(cfg):  # type: ignore[arg-type]
        if getattr(cfg, field.name) == {}:
            setattr(cfg, field.name, {agent: {} for agent in possible_agents})
    return cfg


class SkrlEnv(BatchedEnv):
    """What skrl's ``wrap_env(env, wrapper="isaaclab-multi-agent")`` takes.

    Values are tensors on the core's device; observations are views of what the core's step returned, never copies.
    Worlds start again in the step that ends them (SAME_STEP). skrl has no word for an agent that has left, so a row
    ends with its **world**: until then it goes on with observation 0, reward 0 and ``info[agent]["alive"]`` False; see
    :class:`~gpu_envs.views.ends.WorldEnds`.

    Args:
        core: The stacked-tensor environment.
        render_mode: "rgb_array", "human" or None.

    Raises:
        ConfigError: Reused buffers (skrl keeps an observation over the next step), another mode of autoreset, or
            actions that can be illegal, unless a foul is part of the game: skrl's policies know no masks.
    """

    def __init__(self, core: Core, render_mode: str | None = None) -> None:
        if core.reuse_buffers:
            raise ConfigError(f"{core.id}: skrl keeps observations over a step; leave reuse_buffers=False")
        if core.autoreset != "same_step":
            raise ConfigError(f"{core.id}: skrl needs autoreset='same_step', got {core.autoreset!r}")
        if core.action_mask is not None and core.illegal != "loss":
            raise ConfigError(
                f"{core.id}: some actions are illegal here, and skrl's policies know no masks; "
                "choose illegal='loss' where agents take turns, or another library"
            )
        super().__init__(core, render_mode)
        widths = [space.shape[0] for space in core.observation_spaces.values()]
        self.state_space = box(core.definition.global_state_size or sum(widths))
        """Of ``state``, which all agents share."""
        self._ends = WorldEnds(core)

    def reset(
        self,
        seed: int | torch.Tensor | None = None,
        options: dict[str, Any] | None = None,
        *,
        reset_mask: torch.Tensor | None = None,
    ) -> tuple[TensorDict, dict[str, TensorDict]]:
        """Start new episodes; see :meth:`gpu_envs.views.batched.BatchedEnv.reset`."""
        results = super().reset(seed, options, reset_mask=reset_mask)
        self._ends.restart(options_of.read(self.core, options, reset_mask)[0])
        return results

    def step(self, actions: TensorDict) -> tuple[TensorDict, TensorDict, TensorDict, TensorDict, dict[str, TensorDict]]:
        """Play one step.

        Args:
            actions: By agent: (E, 1) or (E,) int64 where a choice is Discrete; (E, K) int64 (MultiDiscrete) or float32
                (Box) elsewhere.

        Returns:
            Dicts by agent: observations (E, D of that agent), rewards (E,), terminated and truncated (E,), True where
            the world ended, and info as :meth:`gpu_envs.views.batched.BatchedEnv.step` gives it.

        Raises:
            ActionError: An agent missing or unknown, or a tensor that does not fit; names the agent.
        """
        if self.core.action_kind == "discrete" and isinstance(actions, dict):
            actions = {agent: _flat(action) for agent, action in actions.items()}
        obs, reward, terminated, truncated, info = self.core.step(self._stack(actions))
        _, ended, cut = self._ends(terminated, truncated, info["valid"])
        return self._split_obs(obs), self._split(reward), self._split(ended), self._split(cut), self._infos(info)


def _flat(action: Any) -> Any:
    """A column (E, 1), as skrl gives choices, as (E,); anything else as it is."""
    return action[:, 0] if isinstance(action, torch.Tensor) and action.ndim == 2 and action.shape[1] == 1 else action

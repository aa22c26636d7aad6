"""skrl's multi-agent interface: dicts of tensors on the device.

::

    from gpu_envs.views.skrl import make_skrl, per_agent

    env = make_skrl("SimpleTag-v0", num_envs=1024)  # for skrl's agents and trainers
    cfg = per_agent(MAPPO_CFG(rollouts=32), env.possible_agents)
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from gymnasium import spaces

from gpu_envs.definition.environment import box
from gpu_envs.errors import ConfigError, missing_extra, packages
from gpu_envs.runtime.core import Core, Seed
from gpu_envs.runtime.factory import make_core
from gpu_envs.views import reset_options as options_of
from gpu_envs.views.batched import BatchedEnv, TensorDict
from gpu_envs.views.episode_ends import WorldEnds

Cfg = TypeVar("Cfg")


def make_skrl(id: str, num_envs: int = 1, device: Any = None, *, render_mode: str | None = None, **config: Any) -> Any:
    """Make an environment wrapped for skrl.

    Args:
        id: "SimpleTag-v0", ... see :func:`gpu_envs.list_envs`.
        num_envs: Number of worlds.
        device: "cpu", "cuda", "cuda:1"; None is cuda if available, else the CPU.
        render_mode: "rgb_array", "human" or None.
        **config: Settings, as for :func:`gpu_envs.make`.

    Returns:
        skrl's ``IsaacLabMultiAgentWrapper`` around a :class:`SkrlEnv`, which is its ``unwrapped``.

    Raises:
        MissingExtraError: skrl is not installed.
        ConfigError: A setting does not exist, has an invalid value, or is not supported by skrl.
    """
    try:
        from skrl.envs.wrappers.torch import wrap_env  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        raise missing_extra(error, "gpu_envs.views.skrl", ("skrl",), packages("skrl")) from None
    core = make_core(id, num_envs, device, **{"illegal_actions": "saturate", **config})
    return wrap_env(SkrlEnv(core, render_mode), wrapper="isaaclab-multi-agent", verbose=False)


def per_agent(cfg: Cfg, possible_agents: Sequence[str]) -> Cfg:
    """Replace the empty dicts of a configuration by dicts with a key per agent, in place.

    skrl 2.1.1 reads an empty dict as a dict without agents, so that ``IPPO_CFG()`` and ``MAPPO_CFG()`` fail with their
    default values. With the names of the agents, skrl applies all other settings to every agent.

    Args:
        cfg: ``IPPO_CFG``, ``MAPPO_CFG`` or another multi-agent configuration.
        possible_agents: Agents of the environment.

    Returns:
        The same configuration.
    """
    for field in dataclasses.fields(cfg):  # type: ignore[arg-type]
        if getattr(cfg, field.name) == {}:
            setattr(cfg, field.name, {agent: {} for agent in possible_agents})
    return cfg


class SkrlEnv(BatchedEnv):
    """Environment for skrl's ``wrap_env(env, wrapper="isaaclab-multi-agent")``.

    Values are tensors on the core's device; observations are views of the core's results. Worlds restart in the step
    that ends them (SAME_STEP). skrl has no concept of an agent that has left, so a row ends with its **world**. After
    its agent has left, a row has observation 0, reward 0 and ``info[agent]["alive"]`` False until then; see
    :class:`~gpu_envs.views.episode_ends.WorldEnds`.

    Args:
        core: Stacked-tensor environment.
        render_mode: "rgb_array", "human" or None.

    Raises:
        ConfigError: The core reuses buffers (skrl keeps an observation during the next step), has another autoreset
            mode, or has illegal actions that raise an error (skrl's policies do not use masks).
    """

    shapes_observations = False  # skrl's models take flat observations

    def __init__(self, core: Core, render_mode: str | None = None) -> None:
        if core.reuse_buffers:
            raise ConfigError(f"{core.id}: skrl keeps observations over a step; leave reuse_buffers=False")
        if core.autoreset != "same_step":
            raise ConfigError(f"{core.id}: skrl needs autoreset='same_step', got {core.autoreset!r}")
        accepts = core.illegal_actions == "loss" or core.definition.rules.illegal_noop
        if core.action_mask is not None and not accepts:
            raise ConfigError(
                f"{core.id}: expected an environment without illegal actions, as skrl's policies know no masks; "
                "choose illegal_actions='loss' in turn-based environments, or another library"
            )
        super().__init__(core, render_mode)
        widths = [space.shape[0] for space in core.observation_spaces.values()]
        self.state_space: spaces.Box = box(core.definition.global_state_size or sum(widths))
        """Space of ``state``, which all agents share."""
        self._ends = WorldEnds(core)

    def reset(
        self,
        seed: Seed | None = None,
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
            actions: Dict from agent to a tensor: (E, 1) or (E,) int64 (Discrete), (E, K) int64 (MultiDiscrete) or
                (E, K) float32 (Box).

        Returns:
            Dicts by agent: observations (E, D), rewards (E,), terminated and truncated (E,), True if the world ended,
            and info as returned by :meth:`gpu_envs.views.batched.BatchedEnv.step`.

        Raises:
            ActionError: An agent is missing or unknown, or its tensor is invalid; the message names the agent.
        """
        if self.core.action_kind == "discrete" and isinstance(actions, dict):
            actions = {agent: _flat(action) for agent, action in actions.items()}
        obs, reward, terminated, truncated, info = self.core.step(self._stack(actions))
        _, ended, cut = self._ends(terminated, truncated, info["valid"])
        return self._split_obs(obs), self._split(reward), self._split(ended), self._split(cut), self._infos(info)


def _flat(action: Any) -> Any:
    """Return a column (E, 1) of discrete actions, as skrl passes them, as (E,); return other values unchanged."""
    return action[:, 0] if isinstance(action, torch.Tensor) and action.ndim == 2 and action.shape[1] == 1 else action

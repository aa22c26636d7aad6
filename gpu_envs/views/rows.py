"""Agent rows as a ``gymnasium.vector.VectorEnv``, created by ``gymnasium.make_vec``."""

from functools import cached_property
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gpu_envs.definition.environment import env_summary
from gpu_envs.definition.observation_shapes import shape_observation
from gpu_envs.errors import ActionError, ConfigError, describe_tensor, format_names, shown
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.factory import AUTORESET, make_core
from gpu_envs.runtime.factory import autoreset_mode as mode_of
from gpu_envs.utils.agent_rows import of_agent, rows_index
from gpu_envs.utils.settings import check_value
from gpu_envs.utils.spare_arrays import SpareArrays
from gpu_envs.utils.summaries import Summary
from gpu_envs.utils.tensor_checks import numbers, plain
from gpu_envs.views import reset_options as options_of
from gpu_envs.views.batched import RENDER_MODES, RenderOutput, check_render_mode
from gpu_envs.views.episode_ends import WorldEnds
from gpu_envs.views.notebook import NotebookView
from gpu_envs.views.reset_options import env_mask_from_rows, seeds_per_env
from gpu_envs.views.scripted_agents import ScriptedAgents
from gpu_envs.views.specs import RebuildOnCopy, SpecInForce


class RowsEnv(NotebookView, VectorEnv, RebuildOnCopy):
    """Agent rows, as ``gymnasium.make_vec("gpu_envs/SimpleTag-v0", num_envs=1024, group="agent")`` returns them.

    Row ``world * n + k`` is agent ``agents[k]`` of a world: n rows per world, for one shared policy. The argument
    ``num_envs`` counts worlds. The attribute ``num_envs`` counts rows, as in Gymnasium.

    A row's episode ends with its **world**: only then is ``terminated`` or ``truncated`` True. It is truncated if the
    agent's own end was a truncation. Both are True if the agent terminated at the time limit of the episode, as with
    Gymnasium's ``TimeLimit``. After its agent has left, a row has observation 0, reward 0 and ``info["alive"]``
    False until then.

    Results are tensors on the core's device. They are copies unless ``reuse_buffers=True``. With ``group=`` or
    ``to_numpy=True`` the results of ``core`` itself are its own buffers. ``info`` has

    - "alive": the agent acts in the next step;
    - "valid": the agent was alive before this step;
    - "episode_return", "episode_length": the agent's;
    - "action_mask": legal actions, in environments with illegal actions;
    - "to_move": the agent is the player to act, in turn-based environments.

    ``info["_name"]`` is True in rows where ``info["name"]`` is defined, as in Gymnasium. With SAME_STEP, "final_obs" is
    the last observation of each agent, and "final_info" has the return and length of the finished episode, and the
    entries that the environment declares. A copied environment is rebuilt from its arguments and needs a reset.

    Args:
        num_envs: Number of worlds.
        env_id: "SimpleTag-v0", ...
        group: Group whose agents get rows; None means all agents, which must have equal spaces.
        agent: Agent that gets rows, one per world, in place of a group.
        opponents: Policies of the other agents: "random", a policy of ``trainers``, a callable
            ``policy(obs) -> action`` on tensors (E, n, D) and (E, n[, K]), or a dict of these by group or agent; n
            counts the agents of the group without rows. Images have their shape and dtype. If actions can be illegal,
            the signature is ``policy(obs, action_mask)``. Its inputs are copies unless ``reuse_buffers=True``.
        autoreset_mode: NEXT_STEP, SAME_STEP or DISABLED. With DISABLED, ``reset(options={"reset_mask": mask})`` resets
            worlds; the rows of a world must agree in the mask. A mask on a GPU is not checked, because that needs a
            host synchronization: there a world is reset if any of its rows is set.
        to_numpy: Return NumPy arrays.
        device: Device of the environment; None is cuda if available, else the CPU.
        render_mode: "rgb_array", "human" or None.
        **config: Settings, ``max_episode_steps=`` among them, as for :func:`gpu_envs.make`.
    """

    metadata: dict[str, Any] = {"render_modes": RENDER_MODES, "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012
    spec = SpecInForce()  # type: ignore[assignment]
    closed: bool = True  # until __init__ succeeds; an invalid argument leaves nothing to close

    def __init__(
        self,
        num_envs: int = 1,
        *,
        env_id: str,
        group: str | None = None,
        agent: str | None = None,
        opponents: Any = "random",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        to_numpy: bool = False,
        device: Any = None,
        render_mode: str | None = None,
        **config: Any,
    ) -> None:
        arguments = {"opponents": opponents, "autoreset_mode": autoreset_mode, "to_numpy": to_numpy, "device": device}
        RebuildOnCopy.__init__(
            self, num_envs, env_id=env_id, group=group, agent=agent, render_mode=render_mode, **arguments, **config
        )
        check_render_mode(env_id, render_mode)
        if "autoreset" in config:
            raise ConfigError(f"{env_id}: autoreset is not a setting of rows; use autoreset_mode")
        self.autoreset_mode: AutoresetMode
        mode = self.autoreset_mode = mode_of(env_id, "autoreset_mode", autoreset_mode)
        settings = {"illegal_actions": "saturate", "autoreset": AUTORESET[mode], **config}
        core: Core
        self.core: Core
        core = self.core = make_core(env_id, num_envs, device, **settings)
        rows = _rows(core, group, agent)
        self.agents: list[str] = [core.possible_agents[row] for row in rows]
        """The agents of one world that have rows, in order."""
        self.num_envs: int = core.num_envs * len(rows)
        self.single_observation_space: spaces.Space[Any] = core.definition.observation_spaces[self.agents[0]]
        self.single_action_space: spaces.Space[Any] = core.action_spaces[self.agents[0]]
        self.to_numpy: bool = check_value(core.id, "to_numpy", to_numpy, bool)
        self.render_mode = render_mode
        self.metadata = {
            "name": core.id,
            "render_modes": RENDER_MODES,
            "render_fps": core.render_fps,
            "autoreset_mode": self.autoreset_mode,
        }
        self._rows = rows_index(rows, core.device)
        # Arrays, and the rows of a group, are copied from the core's own buffers, which avoids a second copy.
        self._live = core.reuse_buffers
        self._on_host = self.to_numpy and core.device.type == "cpu"
        if (self._on_host or len(rows) < core.num_agents) and isinstance(core, Core):
            core.reuse_buffers = True
        self._copies = core.reuse_buffers and not self._live
        self._parts: dict[str, Any] = {}  # views of the rows' part of such buffers, created once
        self._spares: dict[str, SpareArrays] = {}  # arrays for their copies
        self._none = self._view(torch.zeros((core.num_envs, len(rows)), dtype=torch.bool, device=core.device))
        self._all_rows = self._row(~self._none)
        self._width: int = core.observation_spaces[self.agents[0]].shape[0]
        self._is_shaped: bool = self.single_observation_space is not core.observation_spaces[self.agents[0]]
        self._choices = int(core.num_choices[rows[0]].sum())  # n, width of the action masks of these agents
        self.set_opponents(opponents)
        self._ends = WorldEnds(core, self._on_host)
        definition = core.definition
        self._limit = 0 if definition.time_limit_terminates else definition.max_episode_steps
        self._screen: RenderOutput | None = None
        self.closed = False

    def _summary(self) -> Summary:
        core, facts = self.core, {"rows": self.num_envs, "worlds": self.core.num_envs, "device": self.core.device}
        return env_summary(core.id, core.definition, core.config, self.agents, **facts)

    @cached_property
    def observation_space(self) -> spaces.Space[Any]:  # type: ignore[override]
        """Observation space of all rows, created at first use because its bounds are as large as a batch."""
        return batch_space(self.single_observation_space, self.num_envs)

    @cached_property
    def action_space(self) -> spaces.Space[Any]:  # type: ignore[override]
        """Action space of all rows."""
        return batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start new episodes in all worlds, or in the worlds of ``options["reset_mask"]`` (num_envs,) bool.

        Args:
            seed: An int for all worlds, one int per world (a list, an array or an int64 tensor), or None; see
                :meth:`gpu_envs.runtime.core.Core.reset`.
            options: "reset_mask", and reset options of the environment.

        Raises:
            ActionError: The mask has the wrong shape or dtype, or the rows of a world disagree.
            ConfigError: A seed is not an int, or their number is not the number of worlds; the options are not a dict;
                or an option is unknown or invalid.
        """
        mask, env_options = options_of.read(self.core, options)
        worlds = None if mask is None else env_mask_from_rows(self.core, mask, len(self.agents))
        seeds = seeds_per_env(self.core, seed)
        super().reset(seed=seeds if isinstance(seeds, int) else None)
        obs, info = options_of.reset(self.core, seeds, worlds, env_options)
        self._ends.restart(None if worlds is None else self._view(worlds))
        return self._observed("_obs", obs), self._present(info)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play one step.

        Args:
            actions: (num_envs,) or (num_envs, K), a tensor on the core's device or an array-like of NumPy. Single
                choices may be a column (num_envs, 1). Any integer type is converted, and floats where actions are
                continuous.

        Raises:
            ActionError: See :meth:`gpu_envs.runtime.core.Core.step`.
        """
        core, rows = self.core, self._rows
        obs, reward, terminated, truncated, info = core.step(self._stack(actions))
        over, ended, cut = self._ends(*map(self._view, (terminated, truncated, info["valid"])))
        # Only arrays on the host are asked whether episodes have ended: tensors would synchronize with the device.
        if self._limit and (not self._on_host or over.any()):
            # As Gymnasium's TimeLimit, which truncates at the limit whether or not the episode terminates there.
            cut = cut | (ended & (self._view(info["episode_length"]) >= self._limit))
        out, mask = self._present(info), self._row(over[:, None] | self._none)
        same_step = self.autoreset_mode is AutoresetMode.SAME_STEP
        # Tensors of ends are always included: a check would synchronize with the device.
        if not same_step or not self.to_numpy or mask.any():
            episode = {name: self._to_rows(name, info[name]) for name in ("episode_return", "episode_length")}
            episode |= {f"_{name}": mask for name in episode}
            if same_step:
                last = self._observed("final_obs", info["final_obs"])
                episode |= {name: out[name] for label in core.definition.info for name in (label, f"_{label}")}
                out |= {"final_obs": last, "_final_obs": mask, "final_info": episode, "_final_info": mask}
            else:
                out |= episode
        rewards, ended, cut = self._to_rows("_reward", reward), self._row(ended[:, rows]), self._row(cut[:, rows])
        if self.to_numpy:
            rewards = rewards.astype(np.float64)
        return self._observed("_obs", obs), rewards, ended, cut, out

    def set_opponents(self, opponents: Any) -> None:
        """Replace the policies of the agents without rows; ``opponents`` is as for the class."""
        self._opponents = ScriptedAgents(self.core, opponents, self.agents, self._live)
        self._ezpickle_kwargs["opponents"] = opponents  # for copies

    def action_mask(self) -> Any:
        """Return the legal actions of every row for the next step, (num_envs, n) bool.

        Raises:
            ConfigError: The environment has no illegal actions.
        """
        if self.core.action_mask is None:
            raise ConfigError(f"{self.core.id} has no action masks, because all actions are legal")
        return self._row(self.core.action_mask[:, self._rows, : self._choices].clone())

    def sample_actions(self) -> Any:
        """Return a random legal action for every row, from the worlds' own random streams."""
        shape = self.single_action_space.shape
        return self._to_rows("_action", self.core.sample_actions(), shape[0] if shape else None)

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Return a frame (H, W, 3) uint8 per row, shared by the rows of a world; "human" shows the first 16 worlds."""
        if self.render_mode == "rgb_array":
            frames = self.core.render_frames(tuple(range(self.core.num_envs)))
            return tuple(frame for frame in frames for _ in self.agents)
        self._screen = self._screen or RenderOutput(self.core, self.render_mode)
        self._screen.show(tuple(range(min(16, self.core.num_envs))))
        return None

    def close_extras(self, **kwargs: Any) -> None:
        """Close the window and release the core."""
        if self._screen is not None:
            self._screen.close()
        self.core.close()

    def _observed(self, name: str, obs: torch.Tensor) -> Any:
        """Return observations of the core as rows, in the shape and dtype of their space."""
        rows = self._to_rows(name, obs, self._width)
        return shape_observation(rows, self.single_observation_space) if self._is_shaped else rows

    def _to_rows(self, name: str, tensor: torch.Tensor, width: int | None = None) -> Any:
        """Return a result of the core as rows, cut to a width if one is given.

        The name identifies the buffer: the key of an info entry, or a name with a leading "_".
        """
        part = self._parts.get(name)
        if part is None:
            part = self._view(tensor)[:, self._rows]
            if width is not None:
                part = part[:, :, :width]
            if self.core.reuse_buffers and isinstance(self._rows, slice):
                self._parts[name] = part
        return self._row(self._copy(name, part) if self._copies else part)

    def _view(self, tensor: torch.Tensor) -> Any:
        """Return a tensor of the core (E, ...) as an array over the same memory if the results are arrays on the host.

        NumPy's operations on few rows take a fraction of the time of PyTorch's.
        """
        return tensor.numpy() if self._on_host else tensor

    def _copy(self, name: str, part: Any) -> Any:
        """Return a copy of a part (E, n, ...) of a buffer, contiguous in memory."""
        if not self._on_host:
            return part.clone(memory_format=torch.contiguous_format)
        if name not in self._spares:
            self._spares[name] = SpareArrays(np.empty(part.shape, part.dtype))
        array = self._spares[name].take()
        array[...] = part
        return array

    def _row(self, part: Any) -> Any:
        """Reshape (E, n, ...) to rows (num_envs, ...)."""
        rows = part.reshape(self.num_envs, *part.shape[2:])
        return rows.cpu().numpy() if self.to_numpy and isinstance(rows, torch.Tensor) else rows

    def _present(self, info: dict[str, torch.Tensor]) -> dict[str, Any]:
        """Return the info entries that every row has at every step."""
        names = ("alive", "valid", "to_move", *self.core.definition.info)
        out = {name: self._to_rows(name, info[name]) for name in names if name in info}
        if "action_mask" in info:
            out["action_mask"] = self._to_rows("action_mask", info["action_mask"], self._choices)
        return out | {f"_{name}": self._all_rows for name in out}

    def _stack(self, actions: Any) -> torch.Tensor:
        """Return the joint action for the core: the actions of the rows and of the other agents."""
        core, dtype = self.core, self.core.action_buffer.dtype
        shape = (self.num_envs, *(self.single_action_space.shape or ()))
        if not isinstance(actions, torch.Tensor):
            kinds = "fiu" if core.action_kind == "continuous" else "iu"
            array = numbers(core.id, actions, kinds, self.single_action_space)
            actions = torch.as_tensor(array, dtype=dtype, device=core.device)
        if not plain(actions) or actions.shape != shape or actions.dtype != dtype or actions.device != core.device:
            actions = self._converted(actions, shape)
        actions = actions.reshape(core.num_envs, len(self.agents), *shape[1:])
        return self._opponents.join(self._rows, actions)

    def _converted(self, actions: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        """Return actions of another number type, or a column of single choices, as the core takes them.

        Raises:
            ActionError: They have another shape or device, or are not such numbers.
        """
        core, dtype = self.core, self.core.action_buffer.dtype
        if plain(actions) and actions.device == core.device:
            column = actions.squeeze(1) if actions.shape == (*shape, 1) and len(shape) == 1 else actions
            real = actions.is_floating_point() and core.action_kind == "continuous"
            is_integer = not (actions.is_floating_point() or actions.is_complex() or actions.dtype == torch.bool)
            if column.shape == shape and (real or is_integer):
                return column.to(dtype)
        raise ActionError(
            f"{core.id}: actions: expected {dtype} {shape} on {core.device}, got {describe_tensor(actions)}"
        )


def _rows(core: Core, group: str | None, agent: str | None) -> tuple[int, ...]:
    """Return the core's rows of an agent, of the agents of a group, or of all agents."""
    if agent is not None:
        if group is not None:
            raise ConfigError(f"{core.id}: expected one of group and agent, got both; leave group out for one agent")
        return (of_agent(core.id, {name: row for row, name in enumerate(core.possible_agents)}, agent),)
    if group is not None:
        if not isinstance(group, str) or group not in core.groups:
            raise ConfigError(f"{core.id}: group: expected one of {format_names(core.groups)}, got {shown(group)}")
        return core.groups[group]
    pairs = [(core.definition.observation_spaces[agent], core.action_spaces[agent]) for agent in core.possible_agents]
    if any(pair != pairs[0] for pair in pairs):
        choices = " or ".join(f"group={name!r}" for name in core.groups)
        raise ConfigError(f"{core.id}: the spaces of its groups differ, but rows: expected equal; choose {choices}")
    return tuple(range(core.num_agents))

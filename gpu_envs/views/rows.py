"""Agent rows as a ``gymnasium.vector.VectorEnv``, behind ``gymnasium.make_vec``."""

from functools import cached_property
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gpu_envs.checks import numbers, plain
from gpu_envs.config import AUTORESET, autoreset_member, check_value
from gpu_envs.core import Core
from gpu_envs.errors import ActionError, ConfigError, described, listed, shown
from gpu_envs.factory import make_core
from gpu_envs.joint import rows_index
from gpu_envs.views import options as options_of
from gpu_envs.views.anew import Anew
from gpu_envs.views.batched import RENDER_MODES, Screen, check_render_mode
from gpu_envs.views.ends import WorldEnds
from gpu_envs.views.options import many_seeds, worlds_of
from gpu_envs.views.others import Others
from gpu_envs.views.specs import SpecInForce


class RowsEnv(VectorEnv, Anew):
    """Agent rows; ``gymnasium.make_vec("gpu_envs/SimpleTag-v0", num_envs=1024, group="agent")`` makes them.

    Row ``world * n + k`` is agent ``agents[k]`` of a world: n rows a world, for one shared policy. The argument
    ``num_envs`` counts worlds, the attribute ``num_envs`` counts rows, as Gymnasium's users expect of it. With one
    agent they are the same.

    A row's episode ends with its **world**: only then is ``terminated`` or ``truncated`` True (truncated if the agent's
    own end was a truncation). An agent that left earlier goes on with observation 0, reward 0, ``info["alive"]`` False.

    Results are tensors on the core's device. ``info`` holds "alive" (acts on the next step), "valid" (was alive before
    this one), "episode_return" and "episode_length" (the agent's own), where actions can be illegal "action_mask", and
    where agents take turns "to_move". As everywhere in Gymnasium, ``info["_name"]`` says where ``info["name"]`` is
    defined. With SAME_STEP, "final_obs" is each agent's own true last observation, and the finished episode's figures
    are in "final_info". A copied environment is rebuilt from its arguments, and needs a reset. Results are copies,
    safe to keep, unless ``reuse_buffers=True``; where a group has rows, ``core`` itself hands out its own buffers.

    Args:
        num_envs: Number of worlds.
        env_id: "SimpleTag-v0", ...
        group: Whose rows; None takes all agents, if their spaces are equal.
        others: What agents of other groups do: "random", a callable ``policy(obs) -> action`` on tensors (E, n, D) and
            (E, n[, K]) (``policy(obs, action_mask)`` where actions can be illegal), or a dict of these by group. What
            a policy sees is its own to keep, unless ``reuse_buffers=True``.
        autoreset_mode: NEXT_STEP, SAME_STEP or DISABLED. With DISABLED, ``reset(options={"reset_mask": mask})`` resets
            worlds; the rows of a world must agree in the mask. A mask on a GPU is not looked at, since that would wait:
            there a world is reset if any of its rows is set.
        to_numpy: Return NumPy arrays.
        device: Where everything lives; None takes cuda if there is one.
        render_mode: "rgb_array", "human" or None.
        **config: Settings, ``max_episode_steps=`` among them, as for :func:`gpu_envs.make`.
    """

    metadata: dict[str, Any] = {"render_modes": RENDER_MODES, "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012
    spec = SpecInForce()  # type: ignore[assignment]
    closed = True  # until it is made; a refused argument leaves nothing to close

    def __init__(
        self,
        num_envs: int = 1,
        *,
        env_id: str,
        group: str | None = None,
        others: Any = "random",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        to_numpy: bool = False,
        device: Any = None,
        render_mode: str | None = None,
        **config: Any,
    ) -> None:
        arguments = {"others": others, "autoreset_mode": autoreset_mode, "to_numpy": to_numpy, "device": device}
        Anew.__init__(self, num_envs, env_id=env_id, group=group, render_mode=render_mode, **arguments, **config)
        check_render_mode(env_id, render_mode)
        if "autoreset" in config:
            raise ConfigError(f"{env_id}: Gymnasium calls it autoreset_mode=, one of {listed(AUTORESET)}")
        mode = self.autoreset_mode = autoreset_member(autoreset_mode)
        if mode is None:
            raise ConfigError(
                f"{env_id}: autoreset_mode must be one of {listed(AUTORESET)}, got {shown(autoreset_mode)}"
            )
        settings = {"illegal": "original", "autoreset": AUTORESET[mode], **config}
        core = self.core = make_core(env_id, num_envs, device, **settings)
        rows = _rows(core, group)
        self.agents = [core.possible_agents[row] for row in rows]
        """The agents of one world that have rows, in order."""
        self.num_envs = core.num_envs * len(rows)
        self.single_observation_space = core.observation_spaces[self.agents[0]]
        self.single_action_space = core.action_spaces[self.agents[0]]
        self.to_numpy = check_value(core.id, "to_numpy", to_numpy, bool)
        self.render_mode = render_mode
        self.metadata = {
            "name": core.id,
            "render_modes": RENDER_MODES,
            "render_fps": core.render_fps,
            "autoreset_mode": self.autoreset_mode,
        }
        self._rows = rows_index(rows, core.device)
        # A group's rows are copied out of the core's own buffers, so that nothing is copied twice.
        self._live = core.reuse_buffers
        if len(rows) < core.num_agents and isinstance(core, Core):
            core.reuse_buffers = True
        self._copies = core.reuse_buffers and not self._live
        self._parts: dict[str, torch.Tensor] = {}  # the rows' part of such buffers: views, made once
        self._everyone = self._array(torch.ones(self.num_envs, dtype=torch.bool, device=core.device))
        self._choices = int(core.num_choices[rows[0]].max())  # n, the width of these agents' action masks
        self._other_groups = [name for name in core.groups if group is not None and name != group]
        self.set_others(others)
        self._ends = WorldEnds(core)
        self._screen: Screen | None = None
        self.closed = False

    @cached_property
    def observation_space(self) -> spaces.Space:  # type: ignore[override]
        """All rows' observations; made at first use, since its bounds are as large as a batch."""
        return batch_space(self.single_observation_space, self.num_envs)

    @cached_property
    def action_space(self) -> spaces.Space:  # type: ignore[override]
        """All rows' actions."""
        return batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start new episodes in all worlds, or in those of ``options["reset_mask"]`` (num_envs,) bool.

        Args:
            seed: An int for all worlds, one int per world (a list, an array or an int64 tensor), or None.
            options: "reset_mask", and the environment's own, if it has any, for the start of these episodes.

        Raises:
            ActionError: A mask of another shape or dtype, or one whose rows disagree about their world.
            ConfigError: Seeds that are no ints, or not one per world; options that are no dict; an option that is
                unknown or makes no sense.
        """
        mask, own = options_of.read(self.core, options)
        worlds = None if mask is None else worlds_of(self.core, mask, len(self.agents))
        seeds = many_seeds(self.core, seed)
        super().reset(seed=None if isinstance(seeds, torch.Tensor) else seeds)
        obs, info = options_of.reset(self.core, seeds, worlds, own)
        self._ends.restart(worlds)
        return self._told("_obs", obs, self.single_observation_space), self._present(info)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play one step.

        Args:
            actions: (num_envs,) or (num_envs, K): a tensor on the core's device, or anything NumPy reads.

        Raises:
            ActionError: See :meth:`gpu_envs.core.Core.step`.
        """
        core, rows = self.core, self._rows
        obs, reward, terminated, truncated, info = core.step(self._stack(actions))
        over, ended, cut = self._ends(terminated, truncated, info["valid"])
        out, mask = self._present(info), self._array(over[:, None].expand(-1, len(self.agents)).reshape(-1))
        episode = {name: self._told(name, info[name]) for name in ("episode_return", "episode_length")}
        episode |= {f"_{name}": mask for name in episode}
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            out |= episode
        elif not self.to_numpy or mask.any():  # tensors come always: to look for an end would wait for the device
            last = self._told("final_obs", info["final_obs"], self.single_observation_space)
            out |= {"final_obs": last, "_final_obs": mask, "final_info": episode, "_final_info": mask}
        rewards, ended, cut = self._told("_reward", reward), self._row(ended[:, rows]), self._row(cut[:, rows])
        if self.to_numpy:
            rewards = rewards.astype(np.float64)
        return self._told("_obs", obs, self.single_observation_space), rewards, ended, cut, out

    def set_others(self, others: Any) -> None:
        """Let the agents that have no rows act in another way from now on; ``others`` as for the class."""
        self._others = Others(self.core, others, self._other_groups, self._live)
        self._ezpickle_kwargs["others"] = others  # for copies

    def action_mask(self) -> Any:
        """Legal choices of every row for the next step, bool (num_envs, n).

        Raises:
            ConfigError: The environment has no illegal actions.
        """
        if self.core.action_mask is None:
            raise ConfigError(f"{self.core.id} has no action masks: all actions are legal; ask for none")
        return self._row(self.core.action_mask[:, self._rows, : self._choices].clone())

    def sample_actions(self) -> Any:
        """A random legal action for every row, from the worlds' own streams."""
        return self._told("_action", self.core.sample_actions(), self.single_action_space)

    def render(self) -> tuple[np.ndarray, ...] | None:
        """A picture per row, uint8 (H, W, 3), which the rows of a world share; "human" shows the first 16 worlds."""
        if self.render_mode == "rgb_array":
            frames = self.core.frame(tuple(range(self.core.num_envs)))
            return tuple(frame for frame in frames for _ in self.agents)
        self._screen = self._screen or Screen(self.core, self.render_mode)
        self._screen.show(tuple(range(min(16, self.core.num_envs))))
        return None

    def close_extras(self, **kwargs: Any) -> None:
        """Release the window and the core."""
        if self._screen is not None:
            self._screen.close()
        self.core.close()

    def _told(self, name: str, tensor: torch.Tensor, space: spaces.Space | None = None) -> Any:
        """What the core told, as rows of the caller's own, cut to the size of a space if one is given.

        Its name stands for the buffer: that of an info, or one with a "_".
        """
        part = self._parts.get(name)
        if part is None:
            part = tensor[:, self._rows]
            if space is not None and space.shape:
                part = part[:, :, : space.shape[0]]
            if self.core.reuse_buffers and isinstance(self._rows, slice):
                self._parts[name] = part
        return self._row(part.clone(memory_format=torch.contiguous_format) if self._copies else part)

    def _row(self, part: torch.Tensor) -> Any:
        """(E, n, ...) as rows (num_envs, ...)."""
        return self._array(part.reshape(self.num_envs, *part.shape[2:]))

    def _array(self, tensor: torch.Tensor) -> Any:
        return tensor.cpu().numpy() if self.to_numpy else tensor

    def _present(self, info: dict[str, torch.Tensor]) -> dict[str, Any]:
        """What every row has at every step."""
        names = ("alive", "valid", "to_move", *self.core.definition.info)
        out = {name: self._told(name, info[name]) for name in names if name in info}
        if "action_mask" in info:
            out["action_mask"] = self._told("action_mask", info["action_mask"][..., : self._choices])
        return out | {f"_{name}": self._everyone for name in out}

    def _stack(self, actions: Any) -> torch.Tensor:
        """Rows' actions as the core takes them, with those of the agents that have no rows."""
        core, dtype = self.core, self.core.action_buffer.dtype
        shape = (self.num_envs, *(self.single_action_space.shape or ()))
        if not isinstance(actions, torch.Tensor):
            kinds = "fiu" if core.action_kind == "continuous" else "iu"
            array = numbers(core.id, actions, kinds, self.single_action_space)
            actions = torch.as_tensor(array, dtype=dtype, device=core.device)
        if not plain(actions) or actions.shape != shape or actions.dtype != dtype or actions.device != core.device:
            raise ActionError(f"{core.id}: actions must be {dtype} {shape} on {core.device}, got {described(actions)}")
        actions = actions.reshape(core.num_envs, len(self.agents), *shape[1:])
        return self._others.join(self._rows, actions)


def _rows(core: Core, group: str | None) -> tuple[int, ...]:
    """Rows of the core's agents that a group, or everyone, has."""
    if group is not None:
        if not isinstance(group, str) or group not in core.groups:
            raise ConfigError(f"{core.id}: group must be one of {listed(core.groups)}, got {shown(group)}")
        return core.groups[group]
    seats = [(core.observation_spaces[agent], core.action_spaces[agent]) for agent in core.possible_agents]
    if any(seat != seats[0] for seat in seats):
        choices = " or ".join(f"group={name!r}" for name in core.groups)
        raise ConfigError(f"{core.id}: its groups have different spaces, and rows must be alike; choose {choices}")
    return tuple(range(core.num_agents))

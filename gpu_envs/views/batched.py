"""Batched multi-agent environment: PettingZoo's parallel interface with tensors whose first axis is num_envs."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.observation_shapes import observation_blocks, shape_observation
from gpu_envs.definition.registry import find
from gpu_envs.errors import ActionError, ConfigError, describe_tensor, format_names
from gpu_envs.runtime.core import Core, Seed
from gpu_envs.runtime.factory import make_core
from gpu_envs.utils.agent_rows import of_agent
from gpu_envs.utils.settings import check_value
from gpu_envs.utils.tensor_checks import plain
from gpu_envs.views import reset_options as options_of
from gpu_envs.views.notebook import NotebookView

TensorDict = dict[str, torch.Tensor]  # by agent; the first axis of each tensor is num_envs
RENDER_MODES = ["rgb_array", "human"]  # or None


def make(
    id: str,
    num_envs: int = 1,
    device: str | torch.device | None = None,
    *,
    render_mode: str | None = None,
    **kwargs: Any,
) -> "BatchedEnv":
    """Make a batched multi-agent environment: per-agent dicts of tensors with a leading ``num_envs``.

    Args:
        id: "SimpleTag-v0", "gpu_envs/SimpleTag-v0", ... see :func:`gpu_envs.list_envs`.
        num_envs: Number of worlds.
        device: "cpu", "cuda", "cuda:1"; None selects cuda if available, else the CPU.
        render_mode: "rgb_array", "human" or None.
        **kwargs: Settings of every environment (autoreset, reuse_buffers, seed, ... see
            :class:`gpu_envs.runtime.core.Core`) and of this one (see its page).

    Returns:
        The environment; ``env.core`` is the stacked-tensor form of the same worlds.

    Raises:
        UnknownEnvironmentError: The id is unknown; the message names similar ids.
        ConfigError: A setting is unknown or has an invalid value.
        DeviceError: The device is not available.
    """
    if render_mode is not None and find(id).host is not None:
        kwargs["render_mode"] = "rgb_array"  # this environment shows the frames of its worlds
    make_again = partial(make, id, num_envs, device, render_mode=render_mode, **kwargs)
    return BatchedEnv(make_core(id, num_envs, device, **kwargs), render_mode, make_again)


class BatchedEnv(NotebookView):
    """Per-agent dictionaries of tensors over a :class:`~gpu_envs.runtime.core.Core`.

    The class does not inherit from ``pettingzoo.ParallelEnv``, because libraries convert values of that class to NumPy.
    All agents stay in the dictionaries; ``info[agent]["alive"]`` is True if the agent acts in the next step.

    An environment from :func:`gpu_envs.make` can be pickled and copied. The copy is rebuilt from its arguments and
    needs a reset.

    Args:
        core: Stacked-tensor environment, public as ``.core``.
        render_mode: "rgb_array", "human" or None.
        remake: Function that builds an equal environment, for copies.
    """

    shapes_observations = True
    """Observations have the shape and dtype of the declared space; False: all are flat, of float32."""

    def __init__(
        self, core: Core, render_mode: str | None = None, remake: "Callable[[], BatchedEnv] | None" = None
    ) -> None:
        check_render_mode(core.id, render_mode)
        self.core = core
        self._remake = remake
        self.num_envs: int = core.num_envs
        self.device: torch.device = core.device
        self.possible_agents: list[str] = list(core.possible_agents)
        self.observation_spaces: Mapping[str, spaces.Box | spaces.Dict] = (
            core.definition.observation_spaces if self.shapes_observations else core.observation_spaces
        )
        self.action_spaces: dict[str, spaces.Space[Any]] = core.action_spaces
        self.render_mode = render_mode
        self.metadata: dict[str, Any] = {
            "name": core.id,
            "render_modes": RENDER_MODES,
            "render_fps": core.render_fps,
            "autoreset_mode": core.autoreset,
        }
        self._window: Any = None
        choices = core.num_choices.sum(1).tolist()
        self._split_obs = _observation_splitter(core, self.observation_spaces)
        blocks = (box for space in self.observation_spaces.values() for box in observation_blocks(space).values())
        self._converts = any(box.dtype != np.float32 for box in blocks)
        self._split = _splitter(self.possible_agents, None, 0)
        self._split_action = self._split
        if core.action_kind != "discrete":
            widths = [(space.shape or (0,))[0] for space in core.action_spaces.values()]
            self._split_action = _splitter(self.possible_agents, widths, core.action_buffer.shape[2])
        self._targets = list(self._split_action(core.action_buffer).values())  # views of the buffer by agent
        self._alike = all(target.shape == core.action_buffer[:, 0].shape for target in self._targets)
        self._splits = {
            "final_obs": self._split_obs,
            "action_mask": _splitter(self.possible_agents, choices, max(choices)),
        }
        self._views: dict[int, Any] = {}  # views of reused buffers, created once

    def __reduce__(self) -> Any:
        return super().__reduce__() if self._remake is None else (self._remake, ())

    @property
    def agents(self) -> list[str]:
        """All agents; they leave at different times in different worlds."""
        return list(self.possible_agents)

    @property
    def num_agents(self) -> int:
        """Number of agents per world."""
        return len(self.possible_agents)

    @property
    def max_num_agents(self) -> int:
        """Number of agents per world."""
        return len(self.possible_agents)

    @property
    def unwrapped(self) -> "BatchedEnv":
        """This environment."""
        return self

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the observation space of one agent in one world; ConfigError if there is no such agent."""
        return of_agent(self.core.id, self.observation_spaces, agent)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the action space of one agent in one world; ConfigError if there is no such agent."""
        return of_agent(self.core.id, self.action_spaces, agent)

    def reset(
        self,
        seed: Seed | None = None,
        options: dict[str, Any] | None = None,
        *,
        reset_mask: torch.Tensor | None = None,
    ) -> tuple[TensorDict, dict[str, TensorDict]]:
        """Start new episodes; see :meth:`gpu_envs.runtime.core.Core.reset`.

        Args:
            seed: An int for all worlds, or one per world; None continues the current random streams.
            options: ``{"reset_mask": m}`` is equal to ``reset_mask=m``. Further options of an environment are
                documented on its page.
            reset_mask: Worlds to reset, (E,) bool; None resets all.

        Raises:
            ConfigError: The options are not a dict, have an unknown key, or contain a second mask.
            ActionError: The mask has the wrong shape, dtype or device.
        """
        worlds, env_options = options_of.read(self.core, options, reset_mask)
        obs, info = options_of.reset(self.core, seed, worlds, env_options)
        return self._cached(obs, self._split_obs), self._infos(info)

    def step(self, actions: TensorDict) -> tuple[TensorDict, TensorDict, TensorDict, TensorDict, dict[str, TensorDict]]:
        """Play one step.

        Args:
            actions: Dict from agent to a tensor: (E,) int64 (Discrete), (E, K) int64 (MultiDiscrete) or (E, K) float32
                (Box).

        Returns:
            Dicts by agent: observations (E, D), rewards, terminated and truncated (E,), and info. D is the agent's own
            width; images have their shape, and a Dict is a dict of its blocks. An info has "valid", "alive",
            "final_obs", "episode_return" and "episode_length". Environments with illegal actions add "action_mask"
            (E, n), turn-based environments add "to_move". See :meth:`gpu_envs.runtime.core.Core.step`.

        Raises:
            ActionError: An agent is missing or unknown, or its tensor is invalid; the message names the agent.
        """
        obs, reward, terminated, truncated, info = self.core.step(self._stack(actions))
        return (
            self._cached(obs, self._split_obs),
            self._cached(reward, self._split),
            self._cached(terminated, self._split),
            self._cached(truncated, self._split),
            self._infos(info),
        )

    def sample_actions(self) -> TensorDict:
        """Return a random legal action for every agent; see :meth:`gpu_envs.runtime.core.Core.sample_actions`."""
        return self._split_action(self.core.sample_actions())

    def state(self) -> torch.Tensor:
        """Return the global state (E, S)."""
        return self.core.state()

    def render(self) -> np.ndarray | None:
        """Return the first 16 worlds tiled in one frame (H, W, 3) uint8, or show it with ``render_mode="human"``."""
        self._window = self._window or RenderOutput(self.core, self.render_mode)
        return self._window.show(tuple(range(min(16, self.num_envs))))

    def close(self) -> None:
        """Release the environment."""
        if self._window is not None:
            self._window.close()
        self.core.close()

    def _cached(self, tensor: torch.Tensor, split: Callable) -> Any:
        """Split a stacked tensor by agent; views of reused buffers are created once."""
        if not self.core.reuse_buffers or (split is self._split_obs and self._converts):
            return split(tensor)
        views = self._views.get(tensor.data_ptr())
        if views is None:
            views = self._views[tensor.data_ptr()] = split(tensor)
        return dict(views)

    def _infos(self, info: TensorDict) -> dict[str, TensorDict]:
        split = {name: self._cached(tensor, self._splits.get(name, self._split)) for name, tensor in info.items()}
        return {agent: {name: views[agent] for name, views in split.items()} for agent in self.possible_agents}

    def _stack(self, actions: TensorDict) -> torch.Tensor:
        """Stack the agents' actions in the core's action buffer."""
        core, buffer, agents = self.core, self.core.action_buffer, self.possible_agents
        if not isinstance(actions, dict):
            actual = type(actions).__name__
            raise ActionError(
                f"{core.id}: actions: expected a dict by agent, got {actual}; stacked tensors go to env.core.step"
            )
        try:
            columns = []
            for target, agent in zip(self._targets, agents, strict=True):
                action = actions.get(agent)
                if (
                    not isinstance(action, torch.Tensor)
                    or action.shape != target.shape
                    or action.dtype != target.dtype
                    or action.device != target.device
                ):
                    self._refuse(action, agent, target)
                columns.append(action.detach() if action.requires_grad else action)  # stack(out=) needs it
            if len(actions) != len(columns):
                unknown = sorted(map(str, set(actions) - set(agents)))
                raise ActionError(
                    f"{core.id}: action for unknown agent {unknown[0]}; the agents are {format_names(agents)}"
                )
            if self._alike:
                return torch.stack(columns, dim=1, out=buffer)
            for target, column in zip(self._targets, columns, strict=True):  # padding is never read
                target.copy_(column)
            return buffer
        except (RuntimeError, TypeError):  # sparse or nested tensors, which are not checked in every step
            for target, agent in zip(self._targets, agents, strict=True):
                if not plain(actions[agent]):
                    self._refuse(actions[agent], agent, target)
            raise

    def _refuse(self, action: Any, agent: str, target: torch.Tensor) -> NoReturn:
        expected = f"a {target.dtype} tensor {tuple(target.shape)} on {target.device}"
        if action is None:
            raise ActionError(f"{self.core.id}: no action for {agent}; expected {expected}")
        raise ActionError(f"{self.core.id}: action of {agent}: expected {expected}, got {describe_tensor(action)}")


class RenderOutput:
    """Output of ``render()`` of a view: a frame as an array, or in a window."""

    def __init__(self, core: Core, render_mode: str | None) -> None:
        if render_mode is None:
            raise ConfigError(f"{core.id}: render() needs a render_mode; make(..., render_mode='rgb_array' or 'human')")
        self.core: Core = core
        self.mode: str = render_mode
        self.window: Any = None

    def show(self, envs: tuple[int, ...]) -> np.ndarray | None:
        """Draw these worlds, tiled: return a frame (H, W, 3) uint8, or None if a window shows it."""
        from gpu_envs.rendering.video import tile
        from gpu_envs.rendering.window import Window

        frames = self.core.render_frames(envs, 512 if len(envs) == 1 else 256)
        picture = frames[0] if len(envs) == 1 else np.asarray(tile(frames))
        if self.mode == "rgb_array":
            return picture
        self.window = self.window or Window(title=self.core.id, fps=self.core.render_fps)
        self.window.show(picture)
        return None

    def close(self) -> None:
        """Close the window if it is open."""
        if self.window is not None:
            self.window.close()
            self.window = None


def check_render_mode(env_id: str, render_mode: str | None) -> None:
    """Raise a ConfigError if the render mode is unknown."""
    check_value(env_id, "render_mode", render_mode, str | None, choices=tuple(RENDER_MODES))


def _observation_splitter(
    core: Core, declared: Mapping[str, spaces.Box | spaces.Dict]
) -> Callable[[torch.Tensor], TensorDict]:
    """Return a function that splits observations (E, A, D) by agent, into the shapes of their spaces."""
    agents = list(core.possible_agents)
    if declared is core.observation_spaces or all(
        declared[agent] is core.observation_spaces[agent] for agent in agents
    ):
        return _splitter(agents, [core.observation_spaces[agent].shape[0] for agent in agents], core.obs_width)

    def split(tensor: torch.Tensor) -> TensorDict:
        rows = zip(agents, tensor.unbind(1), strict=True)
        return {agent: shape_observation(row, declared[agent]) for agent, row in rows}

    return split


def _splitter(agents: list[str], widths: list[int] | None, widest: int) -> Callable[[torch.Tensor], TensorDict]:
    """Return a function that splits a stacked tensor (E, A, ...) into one view per agent, each with its own width."""

    def split(tensor: torch.Tensor) -> TensorDict:
        rows = tensor.unbind(1)
        if widths is None:
            return dict(zip(agents, rows, strict=True))
        return {
            agent: row if width == widest else row[:, :width]
            for agent, row, width in zip(agents, rows, widths, strict=True)
        }

    return split

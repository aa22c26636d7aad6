"""The batched multi-agent environment: PettingZoo's parallel signature, values are tensors with a leading num_envs."""

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.checks import plain
from gpu_envs.config import check_value
from gpu_envs.core import Core
from gpu_envs.errors import ActionError, ConfigError, described, listed
from gpu_envs.views import options as options_of

TensorDict = dict[str, torch.Tensor]  # by agent, each led by the worlds
RENDER_MODES = ["rgb_array", "human"]  # besides None


class BatchedEnv:
    """Dicts of tensors over a :class:`~gpu_envs.core.Core`, one entry per agent.

    It is deliberately no ``pettingzoo.ParallelEnv``: libraries that detect that class route everything through NumPy.
    All agents stay in the dicts; ``info[agent]["alive"]`` says who acts on the next step.

    What :func:`gpu_envs.make` made can be pickled and copied: it is made anew then, and needs a reset.

    Args:
        core: The stacked-tensor environment; public as ``.core``.
        render_mode: "rgb_array", "human" or None.
        again: Makes such an environment anew, for copies.
    """

    def __init__(
        self, core: Core, render_mode: str | None = None, again: "Callable[[], BatchedEnv] | None" = None
    ) -> None:
        check_render_mode(core.id, render_mode)
        self.core = core
        self._again = again
        self.num_envs = core.num_envs
        self.device = core.device
        self.possible_agents = list(core.possible_agents)
        self.observation_spaces = core.observation_spaces
        self.action_spaces = core.action_spaces
        self.render_mode = render_mode
        self.metadata = {
            "name": core.id,
            "render_modes": RENDER_MODES,
            "render_fps": core.render_fps,
            "autoreset_mode": core.autoreset,
        }
        self._window: Any = None
        widths = [space.shape[0] for space in core.observation_spaces.values()]
        choices = core.num_choices.amax(1).tolist()
        self._split_obs = _splitter(self.possible_agents, widths, core.obs_width)
        self._split = _splitter(self.possible_agents, None, 0)
        self._split_action = self._split
        if core.action_kind != "discrete":
            own = [(space.shape or (0,))[0] for space in core.action_spaces.values()]
            self._split_action = _splitter(self.possible_agents, own, core.action_buffer.shape[2])
        self._targets = list(self._split_action(core.action_buffer).values())  # each agent's part of the buffer
        self._alike = all(target.shape == core.action_buffer[:, 0].shape for target in self._targets)
        self._splits = {
            "final_obs": self._split_obs,
            "action_mask": _splitter(self.possible_agents, choices, max(choices)),
        }
        self._kept: dict[int, Any] = {}  # views of reused buffers, made once

    def __reduce__(self) -> Any:
        return super().__reduce__() if self._again is None else (self._again, ())

    @property
    def agents(self) -> list[str]:
        """All agents; a batch has no single moment at which one of them is gone."""
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

    def observation_space(self, agent: str) -> spaces.Space:
        """Observation space of one agent in one world."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space:
        """Action space of one agent in one world."""
        return self.action_spaces[agent]

    def reset(
        self,
        seed: int | torch.Tensor | None = None,
        options: dict[str, Any] | None = None,
        *,
        reset_mask: torch.Tensor | None = None,
    ) -> tuple[TensorDict, dict[str, TensorDict]]:
        """Start new episodes; see :meth:`gpu_envs.core.Core.reset`.

        Args:
            seed: An int for all worlds, or (E,) int64, one per world; None continues the present streams.
            options: ``{"reset_mask": m}`` works as ``reset_mask=m``. An environment may have options of its own for
                these starts, see its page.
            reset_mask: (E,) bool, which worlds to reset; None resets all.

        Raises:
            ConfigError: An unknown option, options that are no dict, or a second mask.
            ActionError: A mask that does not fit.
        """
        worlds, own = options_of.read(self.core, options, reset_mask)
        obs, info = options_of.reset(self.core, seed, worlds, own)
        return self._cached(obs, self._split_obs), self._infos(info)

    def step(self, actions: TensorDict) -> tuple[TensorDict, TensorDict, TensorDict, TensorDict, dict[str, TensorDict]]:
        """Play one step.

        Args:
            actions: A tensor by agent: (E,) int64 (Discrete), (E, K of that agent) int64 (MultiDiscrete) or float32
                (Box).

        Returns:
            Dicts by agent: observations (E, D of that agent), rewards, terminated, truncated (E,) and info, itself a
            dict of "valid", "alive", "final_obs", "episode_return", "episode_length", where there are illegal actions
            "action_mask" (E, n of that agent) and where agents take turns "to_move". See
            :meth:`gpu_envs.core.Core.step`.

        Raises:
            ActionError: An agent missing or unknown, or a tensor that does not fit; names the agent.
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
        """A random legal action for every agent; see :meth:`gpu_envs.core.Core.sample_actions`."""
        return self._split_action(self.core.sample_actions())

    def state(self) -> torch.Tensor:
        """Global state (E, S)."""
        return self.core.state()

    def render(self) -> np.ndarray | None:
        """Worlds 0 to 15 as one tiled uint8 picture (H, W, 3), or in a window with ``render_mode="human"``."""
        self._window = self._window or Screen(self.core, self.render_mode)
        return self._window.show(tuple(range(min(16, self.num_envs))))

    def close(self) -> None:
        """Release the environment."""
        if self._window is not None:
            self._window.close()
        self.core.close()

    def _cached(self, tensor: torch.Tensor, split: Callable) -> Any:
        """Split a stacked tensor by agent; views of reused buffers are made once."""
        if not self.core.reuse_buffers:
            return split(tensor)
        views = self._kept.get(tensor.data_ptr())
        if views is None:
            views = self._kept[tensor.data_ptr()] = split(tensor)
        return dict(views)

    def _infos(self, info: TensorDict) -> dict[str, TensorDict]:
        split = {name: self._cached(tensor, self._splits.get(name, self._split)) for name, tensor in info.items()}
        return {agent: {name: views[agent] for name, views in split.items()} for agent in self.possible_agents}

    def _stack(self, actions: TensorDict) -> torch.Tensor:
        """Bring the agents' actions into one tensor, in the core's own buffer."""
        try:
            return self._stacked(actions)
        except (RuntimeError, TypeError):  # sparse and nested tensors; to look for them costs every step
            for target, agent in zip(self._targets, self.possible_agents, strict=True):
                if not plain(actions[agent]):
                    self._refuse(actions, agent, target)
            raise

    def _stacked(self, actions: TensorDict) -> torch.Tensor:
        core, buffer = self.core, self.core.action_buffer
        columns = []
        for target, agent in zip(self._targets, self.possible_agents, strict=True):
            action = actions.get(agent) if isinstance(actions, dict) else None
            if (
                not isinstance(action, torch.Tensor)
                or action.shape != target.shape
                or action.dtype != target.dtype
                or action.device != target.device
            ):
                self._refuse(actions, agent, target)
            columns.append(action.detach() if action.requires_grad else action)  # stack(out=) takes no gradients
        if len(actions) != len(columns):
            unknown = sorted(map(str, set(actions) - set(self.possible_agents)))
            raise ActionError(
                f"{core.id}: action for unknown agent {unknown[0]}; the agents are {listed(self.possible_agents)}"
            )
        if self._alike:
            return torch.stack(columns, dim=1, out=buffer)
        for target, column in zip(self._targets, columns, strict=True):  # padding stays as it is: nobody reads it
            target.copy_(column)
        return buffer

    def _refuse(self, actions: Any, agent: str, target: torch.Tensor) -> NoReturn:
        wanted = f"a {target.dtype} tensor {tuple(target.shape)} on {target.device}"
        if not isinstance(actions, dict):
            raise ActionError(
                f"{self.core.id}: actions must be a dict by agent, got {type(actions).__name__}; "
                "stacked tensors go to env.core.step"
            )
        if agent not in actions:
            raise ActionError(f"{self.core.id}: no action for {agent}; expected {wanted}")
        raise ActionError(f"{self.core.id}: action of {agent} must be {wanted}, got {described(actions[agent])}")


class Screen:
    """What ``render()`` of every view does: one picture as an array, or in a window."""

    def __init__(self, core: Core, render_mode: str | None, size: int = 512) -> None:
        if render_mode is None:
            raise ConfigError(f"{core.id}: render() needs a render_mode; make(..., render_mode='rgb_array' or 'human')")
        self.core, self.mode, self.size = core, render_mode, size
        self.window: Any = None

    def show(self, envs: tuple[int, ...]) -> np.ndarray | None:
        """Draw these worlds, tiled: a frame (height, width, 3) uint8, or None where a window shows it."""
        from gpu_envs.video import Window, tile

        frames = self.core.frame(envs, self.size if len(envs) == 1 else self.size // 2)
        picture = frames[0] if len(envs) == 1 else np.asarray(tile(frames))
        if self.mode == "rgb_array":
            return picture
        self.window = self.window or Window(title=self.core.id, fps=self.core.render_fps)
        self.window.show(picture)
        return None

    def close(self) -> None:
        """Close the window, if there is one."""
        if self.window is not None:
            self.window.close()
            self.window = None


def check_render_mode(env_id: str, render_mode: str | None) -> None:
    """Refuse an unknown render mode by a ConfigError."""
    check_value(env_id, "render_mode", render_mode, str | None, choices=tuple(RENDER_MODES))


def _splitter(agents: list[str], widths: list[int] | None, widest: int) -> Callable[[torch.Tensor], TensorDict]:
    """A function from a stacked tensor (E, A, ...) to views by agent, cut to their true widths."""

    def split(tensor: torch.Tensor) -> TensorDict:
        rows = tensor.unbind(1)
        if widths is None:
            return dict(zip(agents, rows, strict=True))
        return {
            agent: row if width == widest else row[:, :width]
            for agent, row, width in zip(agents, rows, widths, strict=True)
        }

    return split

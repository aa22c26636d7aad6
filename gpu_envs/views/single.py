"""One world in NumPy: what the single-world views, PettingZoo's and Gymnasium's, have in common."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.errors import ActionError, ConfigError, ResetNeededError, listed
from gpu_envs.registry import make_core
from gpu_envs.views.batched import RENDER_MODES, Screen, check_render_mode
from gpu_envs.views.options import reset as options_reset

FIXED = ("num_envs", "autoreset", "reuse_buffers")


class OneWorld:
    """A core of one world without autoreset, read and written agent by agent as NumPy arrays and Python scalars.

    Everything handed out is a copy. Actions are checked here, before the world moves.

    Args:
        env_id: "SimpleTag-v0", ...
        device: Where the world lives; the CPU by default, since a single world feeds no GPU.
        render_mode: "rgb_array", "human" or None.
        settings: The runner's and the environment's settings, as for :func:`gpu_envs.make`.
    """

    def __init__(self, env_id: str, device: Any, render_mode: str | None, settings: dict[str, Any]) -> None:
        for name in FIXED:
            if name in settings:
                raise ConfigError(f"{env_id}: {name} is fixed in the view of a single world; gpu_envs.make takes it")
        check_render_mode(env_id, render_mode)
        core = self.core = make_core(env_id, 1, device or "cpu", autoreset="disabled", reuse_buffers=True, **settings)
        self.render_mode = render_mode
        self.agents: list[str] = []
        """Who acts on the next step."""
        self.observation_spaces = {
            agent: copy.deepcopy(core.observation_spaces[agent]) for agent in core.possible_agents
        }
        self.action_spaces = {agent: copy.deepcopy(core.action_spaces[agent]) for agent in core.possible_agents}
        self.masked = core.action_mask is not None
        self.saturates = core.definition.saturates and core.illegal == "original"
        self.metadata = {
            "name": core.id,
            "render_modes": RENDER_MODES,
            "render_fps": core.render_fps,
            "is_parallelizable": True,
        }
        self._rows = {agent: row for row, agent in enumerate(core.possible_agents)}
        self._started = False
        self._screen: Screen | None = None

    def reset(self, seed: int | None, options: dict[str, Any] | None = None) -> None:
        """Start an episode with everyone in it."""
        options_reset(self.core, seed, None, options)
        self.agents = list(self.core.possible_agents)
        self._started = True
        self._fetch()

    def step(self, actions: Mapping[str, Any], others_random: bool = False) -> None:
        """Play one step.

        Args:
            actions: By agent, a value of its action space. What agents do that have left, or are not on the move where
                agents take turns, is ignored.
            others_random: Let living agents without an entry act at random; else they are missed.

        Raises:
            ActionError: Naming the agent. The world has not moved then.
            ResetNeededError: Before the first reset, and after the last agent has left.
        """
        core = self.core
        self.check_running()
        if not isinstance(actions, Mapping):
            raise ActionError(f"{core.id}: actions must be a dict by agent, got {type(actions).__name__}")
        table = (
            core.sample_actions().cpu().clone() if others_random else torch.zeros_like(core.action_buffer, device="cpu")
        )
        rows, living = table[0].numpy(), set(self.agents)
        for agent, action in actions.items():
            if agent not in self._rows:
                raise ActionError(f"{core.id}: action for unknown agent {agent}; the agents are {listed(self._rows)}")
            if agent in living and self.moves(agent):
                value = self.checked(agent, action)
                rows[(self._rows[agent], *(slice(size) for size in value.shape))] = value
        if not others_random:
            for agent in self.agents:
                if agent not in actions:
                    raise ActionError(f"{core.id}: no action for {agent}; expected {self.action_spaces[agent]}")
        core.step(table.to(core.device))
        self._fetch()
        alive = self._alive
        self.agents = [agent for agent in self.agents if alive[self._rows[agent]]]

    def moves(self, agent: str) -> bool:
        """Does this agent decide on the next step? Everybody does where agents do not take turns."""
        return self.core.to_move is None or bool(self.core.to_move[0, self._rows[agent]])

    @property
    def over(self) -> bool:
        """Has an episode begun, and everyone left it?"""
        return self._started and not self.agents

    def check_running(self) -> None:
        """Refuse to go on where there is no episode."""
        if not self._started:
            raise ResetNeededError(f"{self.core.id}: step before the first reset; call reset() first")
        if not self.agents:
            raise ResetNeededError(f"{self.core.id}: the episode is over, all agents have left; call reset()")

    def observation(self, agent: str) -> np.ndarray:
        """What an agent sees: float32, its true width."""
        return self._obs[self._rows[agent], : self.observation_spaces[agent].shape[0]].copy()

    def outcome(self, agent: str) -> tuple[float, bool, bool]:
        """Reward, terminated and truncated of the last step."""
        row = self._rows[agent]
        return float(self._reward[row]), bool(self._terminated[row]), bool(self._truncated[row])

    def action_mask(self, agent: str) -> np.ndarray:
        """Legal actions for the next step as int8, which is what a space's ``sample(mask)`` takes."""
        assert self.core.action_mask is not None
        return self.core.action_mask[0, self._rows[agent], : self.mask_size(agent)].cpu().numpy().astype(np.int8)

    def info(self, agent: str) -> dict[str, Any]:
        """What an agent is told beside its observation: its action mask, and what the environment adds."""
        row, core = self._rows[agent], self.core
        told: dict[str, Any] = {"action_mask": self.action_mask(agent)} if self.masked else {}
        if core.to_move is not None:
            told["to_move"] = self.moves(agent)
        own = {name: core.world_state[field] for name, field in core.definition.info.items()}
        return told | {name: values[0, row].cpu().numpy().copy() for name, values in own.items()}

    def mask_size(self, agent: str) -> int:
        """Number of choices in an agent's action mask."""
        space = self.action_spaces[agent]
        return int(space.n) if isinstance(space, spaces.Discrete) else int(np.max(space.nvec))  # type: ignore[attr-defined]

    def state(self) -> np.ndarray:
        """Global state (S,), float32."""
        return self.core.state()[0].cpu().numpy().copy()

    def render(self) -> np.ndarray | None:
        """The world as uint8 (H, W, 3), or None where it went to a window."""
        self._screen = self._screen or Screen(self.core, self.render_mode)
        return self._screen.show((0,))

    def close(self) -> None:
        """Release the window and the core."""
        if self._screen is not None:
            self._screen.close()
        self.core.close()

    def _fetch(self) -> None:
        """Bring the results here. On a CPU these are views of live buffers: copy before handing out."""
        core = self.core
        live = (core.obs, core.reward, core.terminated, core.truncated, core.alive)
        self._obs, self._reward, self._terminated, self._truncated, self._alive = (
            tensor[0].cpu().numpy() for tensor in live
        )
        if self.render_mode == "human":
            self.render()

    def checked(self, agent: str, action: Any) -> np.ndarray:
        """An action as an array, refused where it does not lie in the agent's space or is illegal."""
        space = self.action_spaces[agent]
        continuous = isinstance(space, spaces.Box)
        try:
            value = np.asarray(action)
        except (TypeError, ValueError):  # a tensor on a GPU, a ragged list
            value = np.asarray(None)
        if value.dtype.kind not in ("fiu" if continuous else "iu") or value.shape != space.shape:
            shown = f"{value.dtype} {value.shape}" if value.dtype.kind != "O" else type(action).__name__
            raise ActionError(f"{self.core.id}: action of {agent} must be one of {space}, got {shown}")
        value = value.astype(np.float32 if continuous else np.int64)
        if self.core.illegal == "loss":  # part of the game
            return value
        if self.saturates:
            if not np.isfinite(value).all():
                raise ActionError(f"{self.core.id}: action {value.tolist()} of {agent} is not finite; expected {space}")
        elif not space.contains(value):
            raise ActionError(f"{self.core.id}: action {value.tolist()} of {agent} is out of range; expected {space}")
        if self.masked and not self.action_mask(agent)[value.astype(np.int64)].all():
            raise ActionError(f"{self.core.id}: action {value.tolist()} of {agent} is illegal here (see action_mask)")
        return value

"""One world in NumPy: what the single-world views, PettingZoo's and Gymnasium's, have in common."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.errors import ActionError, ConfigError, ResetNeededError, listed
from gpu_envs.factory import make_core, takes_turns
from gpu_envs.views import options as options_of
from gpu_envs.views.batched import RENDER_MODES, Screen, check_render_mode

FIXED = ("num_envs", "autoreset", "reuse_buffers")  # arguments that this view chooses


class OneWorld:
    """A core of one world without autoreset, read and written agent by agent as NumPy arrays and Python scalars.

    Everything handed out is a copy. Actions are checked here, before the world moves.

    Args:
        env_id: "SimpleTag-v0", ...
        device: Where the world lives; the CPU by default, since a single world feeds no GPU.
        render_mode: "rgb_array", "human" or None.
        settings: The runner's and the environment's settings, as for :func:`gpu_envs.make`. Without ``illegal`` among
            them an illegal move loses where agents take turns, as in PettingZoo's classic games; an action outside of
            its space stays an error.
        illegal: What it is without turns.
    """

    def __init__(
        self,
        env_id: str,
        device: Any,
        render_mode: str | None,
        settings: dict[str, Any],
        illegal: str = "error",
    ) -> None:
        for name in FIXED:
            if name in settings:
                raise ConfigError(f"{env_id}: {name} is fixed in the view of a single world; gpu_envs.make takes it")
        check_render_mode(env_id, render_mode)
        self._takes_all = settings.get("illegal") == "loss"  # out of range loses, too
        if "illegal" not in settings:
            settings = settings | {"illegal": "loss" if takes_turns(env_id, settings) else illegal}
        place = "cpu" if device is None else device
        core = self.core = make_core(env_id, 1, place, autoreset="disabled", reuse_buffers=True, **settings)
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
        self._kinds = "fiu" if core.action_kind == "continuous" else "iu"  # of NumPy's dtypes that actions may have
        self._actions = torch.zeros_like(core.action_buffer, device="cpu")
        self._table: np.ndarray = self._actions[0].numpy()
        self._low, self._high = self._bounds()
        self._told = core.definition.info
        self._started = False
        self._screen: Screen | None = None
        self._fetch()

    def reset(self, seed: int | None, options: dict[str, Any] | None = None) -> None:
        """Start an episode with everyone in it."""
        _, own = options_of.read(self.core, options, names=())  # one world needs no mask
        options_of.reset(self.core, seed, None, own)
        self.agents = list(self.core.possible_agents)
        self._started = True
        self._show()

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
        acting = {agent for agent in self.agents if core.to_move is None or self.moves(agent)}
        missing = [agent for agent in self.agents if agent not in actions]
        table = self._table
        table[...] = core.sample_actions()[0].cpu().numpy() if missing and others_random else 0
        for agent, action in actions.items():
            row = self._rows.get(agent)
            if row is None:
                raise ActionError(f"{core.id}: action for unknown agent {agent}; the agents are {listed(self._rows)}")
            if agent in acting:
                value = self._shaped(agent, action)
                table[(row, *map(slice, value.shape))] = value
        if missing and not others_random:
            raise ActionError(f"{core.id}: no action for {missing[0]}; expected {self.action_spaces[missing[0]]}")
        if not self._fits():
            for agent in actions:
                if agent in acting:
                    self.check(agent, actions[agent])
        core.step(self._actions.to(core.device))
        self._show()
        if not self._alive.all():
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
        """Raise a ResetNeededError where there is no episode."""
        if not self._started:
            raise ResetNeededError(f"{self.core.id}: step before the first reset; call reset() first")
        if not self.agents:
            raise ResetNeededError(f"{self.core.id}: the episode is over, all agents have left; call reset()")

    def check(self, agent: str, action: Any) -> None:
        """Raise an ActionError for an action that does not lie in the agent's space, or is illegal."""
        space, value = self.action_spaces[agent], self._shaped(agent, action)
        if self._takes_all:
            return
        told = f"{self.core.id}: action {value.tolist()} of {agent}"
        value = value.astype(self._table.dtype)
        if self.saturates:
            if not np.isfinite(value).all():
                raise ActionError(f"{told} is not finite; expected {space}")
        elif not space.contains(value):
            raise ActionError(f"{told} is out of range; expected {space}")
        if self.masked and self.core.illegal != "loss" and not self.action_mask(agent)[value].all():
            raise ActionError(f"{told} is illegal here (see action_mask)")

    def observation(self, agent: str) -> np.ndarray:
        """What an agent sees: (D,) float32, D its true width."""
        return self._obs[self._rows[agent], : self.observation_spaces[agent].shape[0]].copy()

    def outcome(self, agent: str) -> tuple[float, bool, bool]:
        """Reward, terminated and truncated of the last step."""
        row = self._rows[agent]
        return float(self._reward[row]), bool(self._terminated[row]), bool(self._truncated[row])

    def action_mask(self, agent: str) -> np.ndarray:
        """Legal actions for the next step, (n,) int8, which is what a space's ``sample(mask)`` takes."""
        assert self.core.action_mask is not None
        return self.core.action_mask[0, self._rows[agent], : self.mask_size(agent)].cpu().numpy().astype(np.int8)

    def info(self, agent: str) -> dict[str, Any]:
        """What an agent is told beside its observation: its action mask, and what the environment adds."""
        row, core = self._rows[agent], self.core
        told: dict[str, Any] = {"action_mask": self.action_mask(agent)} if self.masked else {}
        if core.to_move is not None:
            told["to_move"] = self.moves(agent)
        for name, field in self._told.items():
            told[name] = core.world_state[field][0, row].cpu().numpy().copy()
        return told

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

    def _show(self) -> None:
        """Bring the results here, and into the window if there is one."""
        if self.core.device.type != "cpu":
            self._fetch()
        if self.render_mode == "human":
            self.render()

    def _fetch(self) -> None:
        """Results as arrays. On a CPU these are views of live buffers, made once: copy before handing out."""
        core = self.core
        live = (core.obs, core.reward, core.terminated, core.truncated, core.alive)
        self._obs, self._reward, self._terminated, self._truncated, self._alive = (
            tensor[0].cpu().numpy() for tensor in live
        )

    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The lowest and the highest actions that are taken, of all agents at once."""
        number = np.finfo if self._table.dtype.kind == "f" else np.iinfo
        low = np.full_like(self._table, number(self._table.dtype).min)
        high = np.full_like(self._table, number(self._table.dtype).max)
        if self.saturates or self._takes_all:  # beyond the space: part of the rules
            return low, high
        for agent, row in self._rows.items():
            space: Any = self.action_spaces[agent]
            if isinstance(space, spaces.Discrete):
                low[row], high[row] = space.start, space.start + space.n - 1
            else:
                ends = (
                    (space.low, space.high)
                    if isinstance(space, spaces.Box)
                    else (space.start, space.start + space.nvec - 1)
                )
                low[row, : space.shape[0]], high[row, : space.shape[0]] = ends
        return low, high

    def _fits(self) -> bool:
        """Are all actions of the table within bounds and legal? If not, :meth:`check` says whose is not."""
        table = self._table
        if not ((table >= self._low) & (table <= self._high)).all():  # NaN is neither
            return False
        if self.core.action_mask is None or self.core.illegal == "loss":
            return True
        mask = self.core.action_mask[0].cpu().numpy()
        return bool(np.take_along_axis(mask, table.reshape(len(mask), -1), 1).all())

    def _shaped(self, agent: str, action: Any) -> np.ndarray:
        """An action as an array, refused where it has not the form of the agent's space."""
        space = self.action_spaces[agent]
        try:
            value = np.asarray(action)
        except (TypeError, ValueError, RuntimeError):  # a tensor on a GPU or without memory, a ragged list
            value = np.asarray(None)
        if value.dtype.kind not in self._kinds or value.shape != space.shape:
            shown = f"{value.dtype} {value.shape}" if value.dtype.kind != "O" else type(action).__name__
            raise ActionError(f"{self.core.id}: action of {agent} must be one of {space}, got {shown}")
        return value

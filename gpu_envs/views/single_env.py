"""A single world in NumPy: base of the PettingZoo and Gymnasium views."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.observation_shapes import shape_row
from gpu_envs.errors import ActionError, ConfigError, ResetNeededError, format_names
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.factory import make_core, takes_turns
from gpu_envs.utils.devices import host_view
from gpu_envs.views import reset_options as options_of
from gpu_envs.views.batched import RENDER_MODES, RenderOutput, check_render_mode

FIXED = ("num_envs", "autoreset", "reuse_buffers")  # arguments that this view chooses
_INTS = (int, np.int64)  # usual types of discrete actions; not bool, which is a subclass


class SingleEnv:
    """A core of one world without autoreset, accessed agent by agent as NumPy arrays and Python scalars.

    All results are copies. Actions are checked here, before the world is stepped.

    Args:
        env_id: "SimpleTag-v0", ...
        device: Device of the world; None is the CPU, because a single world does not occupy a GPU.
        render_mode: "rgb_array", "human" or None.
        settings: Settings of the core and of the environment, as for :func:`gpu_envs.make`. Without
            ``illegal_actions`` among them, an illegal move loses the game in turn-based environments, as in
            PettingZoo's classic games. An action outside of its space is always an error then.
        illegal_actions: Default of ``illegal_actions`` in environments with simultaneous moves.
    """

    def __init__(
        self,
        env_id: str,
        device: Any,
        render_mode: str | None,
        settings: dict[str, Any],
        illegal_actions: str = "error",
    ) -> None:
        for name in FIXED:
            if name in settings:
                raise ConfigError(f"{env_id}: {name} is fixed in the view of a single world; set it in gpu_envs.make")
        check_render_mode(env_id, render_mode)
        self._takes_all = settings.get("illegal_actions") == "loss"  # out of range loses, too
        turns = takes_turns(env_id, settings, refused=FIXED)  # also the first check of the environment's settings
        if "illegal_actions" not in settings:
            settings = settings | {"illegal_actions": "loss" if turns else illegal_actions}
        target = "cpu" if device is None else device
        core: Core
        self.core: Core
        core = self.core = make_core(env_id, 1, target, autoreset="disabled", reuse_buffers=True, **settings)
        self.render_mode = render_mode
        self.agents: list[str] = []
        """Agents that act in the next step."""
        self.observation_spaces: dict[str, spaces.Box | spaces.Dict] = {
            agent: copy.deepcopy(core.definition.observation_spaces[agent]) for agent in core.possible_agents
        }
        self.action_spaces: dict[str, spaces.Space[Any]] = {
            agent: copy.deepcopy(core.action_spaces[agent]) for agent in core.possible_agents
        }
        self.masked: bool = core.action_mask is not None
        self._refuses = self.masked and core.illegal_actions != "loss" and not core.definition.rules.illegal_noop
        self.saturates: bool = core.definition.saturates and core.illegal_actions == "saturate"
        self.metadata: dict[str, Any] = {
            "name": core.id,
            "render_modes": RENDER_MODES,
            "render_fps": core.render_fps,
            "is_parallelizable": True,
        }
        self._rows = {agent: row for row, agent in enumerate(core.possible_agents)}
        # Kinds of NumPy dtypes that are accepted as actions.
        self._kinds = "fiu" if core.action_kind == "continuous" else "iu"
        self._actions = torch.zeros_like(core.action_buffer, device="cpu")
        self._table: np.ndarray = self._actions[0].numpy()
        self._low, self._high = self._bounds()
        discrete = core.action_kind == "discrete"
        self._ends = list(zip(self._low.tolist(), self._high.tolist(), strict=True)) if discrete else []
        self._buffer: Any = host_view(core.action_buffer)  # sample_actions() writes to it, too
        self.started = False
        """Whether an episode was started."""
        self._screen: RenderOutput | None = None
        self._read_results()

    @torch.inference_mode(False)  # copies from a GPU are written to in place
    def _read_results(self) -> None:
        """Make arrays of the world's results: views of live buffers, or of copies in memory of the host."""
        core = self.core
        live = {"obs": core.obs, "reward": core.reward, "terminated": core.terminated, "truncated": core.truncated}
        live |= core._buffers.info
        on_host = core.device.type == "cpu"
        hosts = live if on_host else {name: torch.empty_like(tensor, device="cpu") for name, tensor in live.items()}
        self._copies = [] if on_host else [(hosts[name], tensor) for name, tensor in live.items()]
        arrays = {name: tensor[0].numpy() for name, tensor in hosts.items()}
        self._reward, self._terminated, self._truncated, self._alive = (
            _numbers(arrays[name]) for name in ("reward", "terminated", "truncated", "alive")
        )
        self._to_move = _numbers(arrays["to_move"]) if "to_move" in arrays else None
        self._obs: dict[str, Any] = {}
        self._masks: dict[str, list[np.ndarray]] = {}  # one per action component
        self._infos: dict[str, dict[str, np.ndarray]] = {}
        for agent, row in self._rows.items():
            self._obs[agent] = shape_row(arrays["obs"][row], self.observation_spaces[agent])
            self._infos[agent] = {name: arrays[name][row, ...] for name in core.definition.info}
            if self.masked:
                sizes = [size for size in core.num_choices[row].tolist() if size]
                self._masks[agent] = np.split(arrays["action_mask"][row, : sum(sizes)], np.cumsum(sizes)[:-1])

    def reset(self, seed: int | None, options: dict[str, Any] | None = None) -> None:
        """Start an episode with all agents."""
        _, env_options = options_of.read(self.core, options, names=())  # a single world has no mask
        options_of.reset(self.core, seed, None, env_options)
        self.agents = list(self.core.possible_agents)
        self.started = True
        self._show()

    def step(self, actions: Mapping[str, Any], opponents_random: bool = False) -> None:
        """Play one step.

        Args:
            actions: Dict from agent to a value of its action space. Actions of agents that have left, or that are not
                to move in a turn-based environment, are not needed and ignored.
            opponents_random: Agents without an entry act at random instead of causing an error.

        Raises:
            ActionError: An action is missing or invalid; the message names the agent and the world is unchanged.
            ResetNeededError: The environment was not reset, or the episode is over.
        """
        core = self.core
        self.check_running()
        if not isinstance(actions, Mapping):
            raise ActionError(f"{core.id}: actions: expected a dict by agent, got {type(actions).__name__}")
        missing = [agent for agent in self.agents if agent not in actions and self.moves(agent)]
        table = self._table
        on_host = core.device.type == "cpu"
        if missing and opponents_random:
            sampled = core.sample_actions()
            table[...] = self._buffer[0] if on_host else sampled[0].cpu().numpy()
        else:
            table.fill(0)
        checked = True
        for agent, action in actions.items():
            row = self._rows.get(agent)
            if row is None:
                raise ActionError(
                    f"{core.id}: action for unknown agent {agent}; the agents are {format_names(self._rows)}"
                )
            if not self._alive[row] or not self.moves(agent):
                continue
            if type(action) in _INTS and self._is_choice(agent, action):
                table[row] = action
            else:
                value, checked = self._shaped(agent, action), False
                table[(row, *map(slice, value.shape))] = value
        if missing and not opponents_random:
            raise ActionError(f"{core.id}: no action for {missing[0]}; expected {self.action_spaces[missing[0]]}")
        if not checked and not self._fits():
            for agent, action in actions.items():
                if self._alive[self._rows[agent]] and self.moves(agent):
                    self.check(agent, action)
        if on_host:
            self._buffer[0] = table
        else:
            core.action_buffer.copy_(self._actions)
        core.step_in_place()
        self._show()
        alive = self._alive.tolist()
        if not all(alive):
            self.agents = [agent for agent in self.agents if alive[self._rows[agent]]]

    def moves(self, agent: str) -> bool:
        """Return whether this agent acts in the next step; always True with simultaneous moves."""
        return self._to_move is None or self._to_move[self._rows[agent]]

    @property
    def over(self) -> bool:
        """Whether an episode was started and all agents have left it."""
        return self.started and not self.agents

    def check_running(self) -> None:
        """Raise a ResetNeededError if no episode is running."""
        if not self.started:
            raise ResetNeededError(f"{self.core.id}: step before the first reset; call reset() first")
        if not self.agents:
            raise ResetNeededError(f"{self.core.id}: the episode is over, all agents have left; call reset()")

    def check(self, agent: str, action: Any) -> None:
        """Raise an ActionError if an action is outside of the agent's space or illegal."""
        if type(action) in _INTS and self._is_choice(agent, action):
            return
        space, value = self.action_spaces[agent], self._shaped(agent, action)
        if self._takes_all:
            return
        subject = f"{self.core.id}: action {value.tolist()} of {agent}"
        value = value.astype(self._table.dtype)
        if self.saturates:
            if not np.isfinite(value).all():
                raise ActionError(f"{subject} is not finite; expected {space}")
        elif not space.contains(value):
            raise ActionError(f"{subject} is out of range; expected {space}")
        choices = np.atleast_1d(value).tolist()
        if self._refuses and not all(part[i] for part, i in zip(self._masks[agent], choices, strict=True)):
            raise ActionError(f"{subject} is illegal here (see action_mask)")

    def observation(self, agent: str) -> Any:
        """Return a copy of the observation of an agent, in the shape and dtype of its space; a dict for a Dict."""
        obs, space = self._obs[agent], self.observation_spaces[agent]
        if isinstance(space, spaces.Dict):
            return {name: obs[name].astype(box.dtype) for name, box in space.spaces.items()}
        return obs.astype(space.dtype)

    def outcome(self, agent: str) -> tuple[float, bool, bool]:
        """Return the reward, terminated and truncated of the last step."""
        row = self._rows[agent]
        return self._reward[row], self._terminated[row], self._truncated[row]

    def action_mask(self, agent: str) -> np.ndarray | tuple[np.ndarray, ...]:
        """Return the legal actions of the next step as taken by ``sample(mask)`` of a space.

        They are (n,) int8 for ``Discrete`` and a tuple of such, one per component, for ``MultiDiscrete``.
        """
        masks = [mask.astype(np.int8) for mask in self._masks[agent]]
        return masks[0] if self._ends else tuple(masks)

    def mask_space(self, agent: str) -> spaces.Space[Any]:
        """Return the space of an agent's action masks."""
        space = self.action_spaces[agent]
        if isinstance(space, spaces.Discrete):
            return spaces.Box(0, 1, (int(space.n),), np.int8)
        return spaces.Tuple([spaces.Box(0, 1, (int(size),), np.int8) for size in space.nvec])  # type: ignore[attr-defined]

    def info(self, agent: str) -> dict[str, Any]:
        """Return an agent's info: whether it is to move, and the environment's own entries."""
        info: dict[str, Any] = {}
        if self._to_move is not None:
            info["to_move"] = self.moves(agent)
        for name, array in self._infos[agent].items():
            info[name] = array.copy()
        return info

    def state(self) -> np.ndarray:
        """Return the global state (S,) float32."""
        return self.core.state()[0].cpu().numpy().copy()

    def render(self) -> np.ndarray | None:
        """Return a frame (H, W, 3) uint8, or None if a window shows it."""
        self._screen = self._screen or RenderOutput(self.core, self.render_mode)
        return self._screen.show((0,))

    def close(self) -> None:
        """Close the window and release the core."""
        if self._screen is not None:
            self._screen.close()
        self.core.close()

    def _show(self) -> None:
        """Copy the results from a GPU and update the window."""
        for host, live in self._copies:
            host.copy_(live)
        if self.render_mode == "human":
            self.render()

    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lowest and the highest accepted actions of all agents."""
        number = np.finfo if self._table.dtype.kind == "f" else np.iinfo
        low = np.full_like(self._table, number(self._table.dtype).min)
        high = np.full_like(self._table, number(self._table.dtype).max)
        if self.saturates or self._takes_all:  # out-of-range actions are handled by the rules
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

    def _is_choice(self, agent: str, action: int) -> bool:
        """Return whether an int is within the bounds of a discrete agent and legal; :meth:`check` says why not."""
        if not self._ends:
            return False
        low, high = self._ends[self._rows[agent]]
        return low <= action <= high and (not self._refuses or bool(self._masks[agent][0][action]))

    def _fits(self) -> bool:
        """Return whether all actions are within bounds and legal; :meth:`check` finds the invalid one."""
        table = self._table
        if not ((table >= self._low) & (table <= self._high)).all():  # False for NaN
            return False
        if self.core.action_mask is None or self.core.illegal_actions == "loss":
            return True
        mask = self.core.action_mask[0].cpu().numpy()
        return bool(np.take_along_axis(mask, table.reshape(len(mask), -1), 1).all())

    def _shaped(self, agent: str, action: Any) -> np.ndarray:
        """Return an action as an array; raise an ActionError if its shape or dtype does not fit the space."""
        space = self.action_spaces[agent]
        try:
            value = np.asarray(action)
        except (TypeError, ValueError, RuntimeError):  # a tensor on a GPU or without memory, a ragged list
            value = np.asarray(None)
        if value.dtype.kind not in self._kinds or value.shape != space.shape:
            actual = f"{value.dtype} {value.shape}" if value.dtype.kind != "O" else type(action).__name__
            raise ActionError(f"{self.core.id}: action of {agent}: expected one of {space}, got {actual}")
        return value


def _numbers(array: np.ndarray) -> Any:
    """Return a view of an array (A,) that gives Python's numbers, in a fraction of the time of NumPy's."""
    return memoryview(array)  # type: ignore[arg-type]

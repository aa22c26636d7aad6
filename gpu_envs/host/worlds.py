"""Single worlds of host environments, and the loop over those of one process."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from gpu_envs.errors import ConfigError, HostError
from gpu_envs.host.definition import HostDefinition

SKIP, CLEAR, STEP, RESET = 0, 1, 2, 3
"""Commands to a world: leave its row as it is, clear it, play a step, start an episode."""
LIVE = ("obs", "final_obs", "reward", "terminated", "truncated", "alive", "to_move", "action_mask", "action")
"""Arrays (E, A, ...) that worlds read and write."""
PER_WORLD = ("command", "next_seed", "over", "elapsed", "playing")
"""Arrays (E,): the command, the seed of the next episode, whether the episode has ended in this step, its steps before
this one, and at the first world the index of the world that plays."""


class WorldRow:
    """The rows of one world in the arrays of a batch."""

    def __init__(self, arrays: Mapping[str, np.ndarray], world: int, definition: HostDefinition) -> None:
        widths = [space.shape[0] for space in definition.flat_spaces.values()]
        self.obs: list[np.ndarray] = [obs[:width] for obs, width in zip(arrays["obs"][world], widths, strict=True)]
        """Observation (D,) of every agent."""
        self.reward: np.ndarray = arrays["reward"][world]
        """Rewards (A,)."""
        self.terminated: np.ndarray = arrays["terminated"][world]
        """Agents whose episode has ended in this step, (A,)."""
        self.truncated: np.ndarray = arrays["truncated"][world]
        """Agents whose episode was cut in this step, (A,)."""
        self.alive: np.ndarray = arrays["alive"][world]
        """Agents that act on the next step, (A,)."""
        self.to_move: np.ndarray = arrays["to_move"][world]
        """Agents that decide on the next step, (A,), where agents take turns."""
        self.action_mask: np.ndarray = arrays["action_mask"][world]
        """Legal choices (A, n); no rows without masks."""


class World(Protocol):
    """One world of a host environment, which writes into its `row`."""

    definition: HostDefinition
    """Agents and spaces."""

    def reset(self, seed: int, row: WorldRow) -> None:
        """Start an episode; the row is cleared, so that no agent is alive."""
        ...

    def step(self, action: np.ndarray, row: WorldRow) -> None:
        """Play a step with actions (A,) or (A, K).

        Rewards, flags, movers and legal choices are cleared, and agents that have left observe zeros. Agents that the
        step terminates or truncates stay alive until it is over.
        """
        ...

    def render(self) -> np.ndarray | None:
        """Return a frame (H, W, 3) uint8, or None."""
        ...

    def close(self) -> None:
        """Release the environment."""
        ...


Maker = tuple[str, Any, dict[str, Any]]
"""Module of an adapter, such as "gpu_envs.host.pettingzoo"; what its ``make_world`` takes: a name or a function; and
settings of the environment."""


class WorldBatch:
    """Worlds of one process, which play one after the other."""

    def __init__(
        self,
        worlds: Sequence[World],
        arrays: Mapping[str, np.ndarray],
        resets: bool,
        limit: int,
        label: str,
        first: int = 0,
    ) -> None:
        """Bind the worlds to arrays.

        Args:
            worlds: The worlds.
            arrays: Arrays of `LIVE` and `PER_WORLD` of these worlds.
            resets: A world whose episode has ended starts the next one in the same step.
            limit: Steps after which an episode is truncated; 0: none.
            label: ID of the environment, for messages.
            first: Index of the first world, for messages.
        """
        self._worlds: Sequence[World] = worlds
        self._rows: list[WorldRow] = [WorldRow(arrays, index, world.definition) for index, world in enumerate(worlds)]
        self._actions: list[np.ndarray] = list(arrays["action"])
        self._arrays, self._resets, self._limit = arrays, resets, limit
        self._label, self._first = label, first
        self._turn_based: bool = bool(worlds) and worlds[0].definition.turn_based

    def run(self) -> None:
        """Run the command of every world; rewards, flags and `over` of those that play are cleared.

        Raises:
            HostError: A world has raised an error, which is the cause.
        """
        arrays, command = self._arrays, self._arrays["command"]
        is_step, starts, cleared = command == STEP, command == RESET, command == CLEAR
        try:
            if is_step.any():
                if not arrays["alive"].all():
                    arrays["obs"][is_step[:, None] & ~arrays["alive"]] = 0.0
                self._clear_choices(is_step)
                self._step_worlds(is_step)
                self._end_step(is_step)
                if self._resets:
                    starts |= arrays["over"]
            if (starts | cleared).any():
                arrays["obs"][starts | cleared] = 0.0
                arrays["alive"][starts | cleared] = False
                self._clear_choices(starts | cleared)
            if starts.any():
                self._reset_worlds(starts)
        except Exception as error:
            kind = "" if isinstance(error, HostError) else f"{type(error).__name__}: "
            raise HostError(f"{self._label}: {self._current_world()}{kind}{error}") from error
        if not self._turn_based:
            arrays["to_move"][...] = arrays["alive"]

    def _current_world(self) -> str:
        """Return the start of a message about the world that plays."""
        return f"world {self._first + int(self._arrays['playing'][0])}: "

    def _step_worlds(self, is_step: np.ndarray) -> None:
        """Play a step in worlds (E,)."""
        worlds, rows, actions, playing = self._worlds, self._rows, self._actions, self._arrays["playing"]
        for index in np.flatnonzero(is_step).tolist():
            playing[0] = index
            worlds[index].step(actions[index], rows[index])

    def _reset_worlds(self, starts: np.ndarray) -> None:
        """Start episodes in worlds (E,)."""
        seeds, playing = self._arrays["next_seed"].tolist(), self._arrays["playing"]
        for index in np.flatnonzero(starts).tolist():
            playing[0] = index
            self._worlds[index].reset(seeds[index], self._rows[index])

    def render(self, world: int) -> np.ndarray | None:
        """Return a frame (H, W, 3) of a world, or None."""
        return self._worlds[world].render()

    def settle(self) -> None:
        """Do nothing: an interrupt ends a call here."""

    def close(self) -> None:
        """Close the worlds."""
        close_worlds(self._worlds)

    def _clear_choices(self, mask: np.ndarray) -> None:
        """Clear who moves and legal choices of worlds (E,); the first choice counts as the no-op."""
        arrays = self._arrays
        if self._turn_based:
            arrays["to_move"][mask] = False
        if arrays["action_mask"].size:
            arrays["action_mask"][mask] = False
            arrays["action_mask"][mask, :, 0] = True

    def _end_step(self, is_step: np.ndarray) -> None:
        """Truncate episodes at the limit, and keep the last observations of agents that leave."""
        arrays = self._arrays
        alive, to_move = arrays["alive"], arrays["to_move"]
        terminated, truncated = arrays["terminated"], arrays["truncated"]
        if self._limit:
            truncated |= alive & (is_step & (arrays["elapsed"] + 1 >= self._limit))[:, None]
        done = terminated | truncated
        if done.any():
            truncated &= ~terminated
            arrays["final_obs"][done] = arrays["obs"][done]
            alive &= ~done
            to_move &= alive
        arrays["over"][:] = is_step & ~alive.any(1)


def make_worlds(maker: Maker, count: int, label: str) -> Iterator[World]:
    """Make worlds one after the other; `label` is the ID of the environment.

    Raises:
        ConfigError: The environment is unknown, a setting is invalid, or worlds share an environment.
        HostError: The environment has raised an error.
    """
    module, source, settings = maker
    envs: list[Any] = []
    try:
        adapter = importlib.import_module(module)
        for _ in range(count):
            world = adapter.make_world(source, settings)
            env = getattr(world, "env", world)
            if any(env is other for other in envs):
                raise ConfigError("expected a new environment from every call of the function, got the same one twice")
            envs.append(env)
            yield world
    except (ConfigError, ImportError) as error:
        raise ConfigError(f"{label}: {error}".replace(f"{label}: {label}:", f"{label}:")) from error
    except Exception as error:
        raise HostError(f"{label}: making a world failed: {type(error).__name__}: {error}") from error


def close_worlds(worlds: Iterable[World]) -> None:
    """Close worlds; an error in one of them is of no further consequence."""
    for world in worlds:
        with contextlib.suppress(Exception):  # the code of another library
            world.close()

"""Worlds of OpenSpiel's games: agents are the players, who take turns or move at the same time."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import numpy as np
from gymnasium import spaces

from gpu_envs.errors import ConfigError, missing_extra, packages, shown
from gpu_envs.host.definition import HostDefinition
from gpu_envs.host.worlds import WorldRow

try:
    import pyspiel
except ModuleNotFoundError as error:
    raise missing_extra(error, "gpu_envs.host.open_spiel", ("pyspiel",), packages("open_spiel")) from None


def make_world(source: Any, settings: dict[str, Any]) -> OpenSpielWorld:
    """Return a world of a game.

    Args:
        source: Name of a game such as "leduc_poker" or "leduc_poker(players=3)", or a function that returns a
            ``pyspiel.Game``.
        settings: Parameters of the game, or arguments of the function.

    Raises:
        ConfigError: The game or a parameter is unknown, or the game cannot be played by learners.
    """
    try:
        game = pyspiel.load_game(source, settings) if settings and isinstance(source, str) else None
        if game is None:
            game = pyspiel.load_game(source) if isinstance(source, str) else source(**settings)
    except (pyspiel.SpielError, RuntimeError) as error:
        raise ConfigError(f"open_spiel:{source}: {str(error).splitlines()[0]}") from None
    if not isinstance(game, pyspiel.Game):
        raise ConfigError(f"expected a pyspiel.Game, got {shown(game)}")
    return OpenSpielWorld(game)


class OpenSpielWorld:
    """A world of a ``pyspiel.Game``.

    Observations are information states if the game has them as tensors, else observations. Chance draws from the seed
    of the episode.
    """

    def __init__(self, game: Any) -> None:
        """Read the game; raise a ConfigError if learners cannot play it."""
        self._game, kind = game, game.get_type()
        name = kind.short_name
        has_infostates = kind.provides_information_state_tensor
        if not has_infostates and not kind.provides_observation_tensor:
            raise ConfigError(f"open_spiel:{name}: expected a game with tensors of observations, got one without")
        if kind.dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
            raise ConfigError(f"open_spiel:{name}: expected turns or simultaneous moves, got a mean-field game")
        shape = game.information_state_tensor_shape() if has_infostates else game.observation_tensor_shape()
        agents = tuple(f"player_{player}" for player in range(game.num_players()))
        box = spaces.Box(-np.inf, np.inf, (int(np.prod(shape)),), np.float32)
        self._reads = "information_state_tensor" if has_infostates else "observation_tensor"
        self._turns = kind.dynamics != pyspiel.GameType.Dynamics.SIMULTANEOUS
        self.definition: HostDefinition = HostDefinition(
            key=f"open_spiel {metadata.version('open_spiel')}",
            agents=agents,
            observation_spaces=dict.fromkeys(agents, box),
            action_spaces=dict.fromkeys(agents, spaces.Discrete(game.num_distinct_actions())),
            groups={"player": tuple(range(len(agents)))},
            has_masks=True,
            turn_based=self._turns,
            roles={name: (name,) for name in agents} if len(agents) > 1 else {},
            zero_sum=kind.utility == pyspiel.GameType.Utility.ZERO_SUM,
            render_fps=1,
            spiel_game=game if has_infostates else None,
        )
        self._state: Any = None
        self._random = np.random.default_rng(0)
        self._returns = np.zeros(len(agents))

    def reset(self, seed: int, row: WorldRow) -> None:
        """Start an episode, see `World.reset`."""
        self._random = np.random.default_rng(seed)
        self._state = self._game.new_initial_state()
        self._returns[:] = 0.0
        self._draw_chance()
        row.alive[:] = True
        self._write(row)

    def step(self, action: np.ndarray, row: WorldRow) -> None:
        """Play a step with actions (A,) or (A, K), see `World.step`."""
        state = self._state
        if state.is_simultaneous_node():
            state.apply_actions([int(choice) for choice in action])
        else:
            state.apply_action(int(action[state.current_player()]))
        self._draw_chance()
        returns = np.asarray(state.returns())
        row.reward[:] = returns - self._returns
        self._returns = returns
        if state.is_terminal():
            row.terminated[:] = True
        self._write(row)

    def _draw_chance(self) -> None:
        while self._state.is_chance_node():
            outcomes, chances = zip(*self._state.chance_outcomes(), strict=True)
            at = np.searchsorted(np.cumsum(chances), self._random.random(), side="right")
            self._state.apply_action(outcomes[min(int(at), len(outcomes) - 1)])

    def _write(self, row: WorldRow) -> None:
        """Write observations, legal choices and who moves."""
        state, read = self._state, getattr(self._state, self._reads)
        for player in range(len(row.alive)):
            row.obs[player][:] = read(player)
        if state.is_terminal():
            return
        movers = range(len(row.alive)) if state.is_simultaneous_node() else (state.current_player(),)
        for player in movers:
            row.action_mask[player] = False
            row.action_mask[player, state.legal_actions(player)] = True
            row.to_move[player] = True

    def render(self) -> np.ndarray | None:
        """Return None in place of a frame (H, W, 3): games have no pictures."""
        return None

    def close(self) -> None:
        """Forget the episode."""
        self._state = None

"""Training tasks of games with hidden information: self-play of two policies, evaluated by cross-play."""

from collections.abc import Sequence

from benchmarks.training.tasks.training_task import NO_TABLE, Goal, TrainingTask

_BY_CROSS_PLAY = (
    "cross-play: each side against random opponents, since the return of self-play is about 0 or that of the side that "
    "moves first. The bar is that of OpenSpiel's own DQN on its own game after as many steps, with the settings of its "
    "example dqn_breakthrough_pytorch.py, and the other threshold is random play"
)
_GAMES: Sequence[tuple[str, str, str, dict[str, str]]] = (
    ("liars-dice", "LiarsDice-v0", "liars_dice", {"player_0": "player_0", "player_1": "player_1"}),
    ("goofspiel", "Goofspiel-v0", "goofspiel", {"player_0": "player_0", "player_1": "player_1"}),
    ("phantom-tic-tac-toe", "PhantomTicTacToe-v0", "phantom_ttt", {"cross_0": "cross", "nought_0": "nought"}),
    ("dark-hex", "DarkHex-v0", "dark_hex", {"black_0": "black", "white_0": "white"}),
    ("oshi-zumo", "OshiZumo-v0", "oshi_zumo", {"left_0": "left", "right_0": "right"}),
    ("markov-soccer", "MarkovSoccer-v0", "markov_soccer", {"a_0": "a", "b_0": "b"}),
)
"""Names of tasks, environments and OpenSpiel's games, and names of returns by policy in the order of seats."""


def _goals(game: str, returns: dict[str, str]) -> tuple[Goal, ...]:
    """Return the goals of each seat against random opponents: OpenSpiel's DQN, and random play."""
    return tuple(
        Goal(f"return {of}", bound, playing=(policy,), greedy=False, origin=origin)
        for seat, (policy, of) in enumerate(returns.items())
        for bound, origin in ((f"openspiel {game} {seat}", None), ("random", "chosen"))
    )


HIDDEN_GAMES: Sequence[TrainingTask] = tuple(
    TrainingTask(f"{name}-ppo", f"{env_id} {NO_TABLE}", _goals(game, returns), "measured", _BY_CROSS_PLAY, zoo=False)
    for name, env_id, game, returns in _GAMES
)
"""All tasks of the module."""

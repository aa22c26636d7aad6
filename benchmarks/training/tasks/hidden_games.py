"""Training tasks of games with hidden information: self-play of two policies, evaluated by cross-play."""

from collections.abc import Sequence

from benchmarks.training.tasks.training_task import NO_TABLE, Goal, TrainingTask

_BY_CROSS_PLAY = (
    "cross-play: each side against random opponents, intervals apart from random play's, since the return of "
    "self-play is about 0 or that of the side that moves first. No source with returns of PPO against random opponents "
    "in this game is known"
)
_BY_EXPLOITABILITY = (
    f"{_BY_CROSS_PLAY}. Rudolph et al. 2025 (arXiv 2502.08938) train PPO in self-play in games of this kind and "
    "measure exploitability"
)
_FLAT = (
    f"{_BY_CROSS_PLAY}. Both players are one group whose rewards sum to 0, so that the curve is flat. League runs "
    "compute NashConv"
)
_LITTMAN = (
    f"{_BY_CROSS_PLAY}. Littman 1994 evaluates minimax-Q in this game by games won against random and other opponents, "
    "with a game that a step ends at random"
)
_GAMES: Sequence[tuple[str, str, dict[str, str], str]] = (
    ("liars-dice", "LiarsDice-v0", {"player_0": "player_0", "player_1": "player_1"}, _FLAT),
    ("goofspiel", "Goofspiel-v0", {"player_0": "player_0", "player_1": "player_1"}, _FLAT),
    ("phantom-tic-tac-toe", "PhantomTicTacToe-v0", {"cross_0": "cross", "nought_0": "nought"}, _BY_EXPLOITABILITY),
    ("dark-hex", "DarkHex-v0", {"black_0": "black", "white_0": "white"}, _BY_EXPLOITABILITY),
    ("oshi-zumo", "OshiZumo-v0", {"left_0": "left", "right_0": "right"}, _BY_CROSS_PLAY),
    ("markov-soccer", "MarkovSoccer-v0", {"a_0": "a", "b_0": "b"}, _LITTMAN),
)
"""Names of tasks, environments, names of returns by policy, and sources."""
HIDDEN_GAMES: Sequence[TrainingTask] = tuple(
    TrainingTask(
        f"{name}-ppo",
        f"{env_id} {NO_TABLE}",
        tuple(Goal(f"return {of}", "random", playing=(policy,), greedy=False) for policy, of in returns.items()),
        "chosen",
        source,
        zoo=False,
    )
    for name, env_id, returns, source in _GAMES
)
"""All tasks of the module."""

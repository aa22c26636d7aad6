"""Training tasks of games with hidden information: self-play of two policies, evaluated by cross-play."""

from collections.abc import Sequence

from benchmarks.training.tasks.training_task import NO_TABLE, Goal, TrainingTask

_DQN = (
    "cross-play: each side against random opponents, since the return of self-play is about 0 or that of the side that "
    "moves first. The threshold is OpenSpiel's own DQN in self-play on its own game after as many steps, with the "
    "settings of its example dqn_breakthrough_pytorch.py. Its agents explore with a probability above 0.9 in so "
    "few steps, so that each learns against nearly random opponents. Its example evaluates without exploration, so the "
    "most probable actions are judged here. The other threshold is random play, which earns more than OpenSpiel's DQN "
    "in the first seats of Goofspiel and Oshi-Zumo"
)
_SAME = (
    "cross-play against random opponents, with OpenSpiel's DQN and random play as thresholds, as in PPO on LiarsDice-v0"
)
"""Source of the thresholds of all tasks but the first, whose section explains them."""
_EXPLOITABILITY = (
    ". Rudolph et al. 2025 (arXiv 2502.08938) train PPO in self-play in this game and measure exploitability"
)
_GAMES: Sequence[tuple[str, str, str, dict[str, str]]] = (
    ("liars-dice", "LiarsDice-v0", "liars_dice", {"player_0": "player_0", "player_1": "player_1"}),
    ("goofspiel", "Goofspiel-v0", "goofspiel", {"player_0": "player_0", "player_1": "player_1"}),
    ("phantom-tic-tac-toe", "PhantomTicTacToe-v0", "phantom_ttt", {"cross_0": "cross", "nought_0": "nought"}),
    ("dark-hex", "DarkHex-v0", "dark_hex", {"black_0": "black", "white_0": "white"}),
    ("oshi-zumo", "OshiZumo-v0", "oshi_zumo", {"left_0": "left", "right_0": "right"}),
    ("markov-soccer", "MarkovSoccer-v0", "markov_soccer", {"a_0": "a", "b_0": "b"}),
)
"""Names of tasks, environments, OpenSpiel's games, and returns by policy in the order of seats."""
_BY_DQN = ("liars-dice", "phantom-tic-tac-toe", "dark-hex")
"""Games that DQN learns, too."""
_EPISODES = {"liars-dice-dqn": 131_072}
"""Evaluation episodes by name of the task where the interval of 4,096 is wider than the distance to the bar."""


def _task(algorithm: str, name: str, env_id: str, game: str, returns: dict[str, str]) -> TrainingTask:
    """Return a task whose goals are the returns of each seat against random opponents."""
    goals = list[Goal]()
    for seat, (policy, of) in enumerate(returns.items()):
        goals.append(Goal(f"return {of}", f"openspiel {game} {seat}", playing=(policy,)))
        goals.append(Goal(f"return {of}", "random", playing=(policy,), origin="chosen"))
    task = f"{name}-{algorithm}"
    source = _DQN if task == "liars-dice-ppo" else _SAME
    source += _EXPLOITABILITY if name in ("phantom-tic-tac-toe", "dark-hex") else ""
    options = f"{env_id} {NO_TABLE}" if algorithm == "ppo" else f"{env_id} --algorithm {algorithm} {NO_TABLE}"
    return TrainingTask(task, options, tuple(goals), "measured", source, episodes=_EPISODES.get(task, 4096), zoo=False)


HIDDEN_GAMES: Sequence[TrainingTask] = (
    *(_task("ppo", *game) for game in _GAMES),
    *(_task("dqn", *game) for game in _GAMES if game[0] in _BY_DQN),
)
"""All tasks of the module."""

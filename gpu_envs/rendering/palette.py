"""Colors of roles, the same in worlds, curves, tables of payoffs and reports: an adversary is red everywhere."""

from collections.abc import Sequence

PALETTE = {
    "blue": "#1f6fb5",
    "red": "#c8321f",
    "green": "#0c7f5d",
    "purple": "#8d5aa6",
    "olive": "#8a6a00",
    "pink": "#b0417a",
    "orange": "#c0480a",
    "slate": "#55606e",
}
"""Colors on a white ground by name, with a contrast of at least 3 : 1, in the order in which lines take them."""
GAIN, LOSS = "blue", "red"
"""Colors of a high and of a low payoff."""
_ADVERSARIES = ("adversary", "leadadversary", "tagger", "eve")
_WORLDS = {  # not the colors of the rules below: as the environment is drawn
    "ConnectFour-v0": {"player_0": "red", "player_1": "olive"},
    "DiscGame-v0": {"player_0": "blue", "player_1": "red"},
    "SimpleAdversary-v0": {"agent": "blue"},
    "SimpleSpread-v0": {"agent": "blue"},
    "TicTacToe-v0": {"player_0": "red", "player_1": "blue"},
}
_NAMES = {"agent": "green", "alice": "green", "bob": "green", "runner": "blue"}


def role_colors(env_id: str, names: Sequence[str]) -> dict[str, str]:
    """Return the color of roles, seats or groups by name, as the worlds of the environment show their agents.

    Args:
        env_id: ID of the environment.
        names: Names of the roles, seats or groups. Names without their own color take the next free one.

    Returns:
        Names of `PALETTE`.
    """
    fixed = _WORLDS.get(env_id.rpartition(":")[2], {})
    colors: dict[str, str] = {}
    for name in dict.fromkeys(names):
        usual = "red" if name in _ADVERSARIES else _NAMES.get(name) if len(set(names)) > 1 else None
        if color := fixed.get(name, usual):
            colors[name] = color
    free = [color for color in PALETTE if color not in colors.values()] or list(PALETTE)
    uncolored = [name for name in dict.fromkeys(names) if name not in colors]
    return colors | {name: free[number % len(free)] for number, name in enumerate(uncolored)}

"""One line about every environment, for lists. It imports nothing, so that the command line starts fast."""

__all__ = ["FAMILIES", "SUMMARIES"]

FAMILIES = {
    "mpe": "Multi-Agent Particle Environments",
    "tag": "WarpDrive's Tag",
    "grid": "games on grids",
    "cards": "cooperative card games",
    "classic": "classic control",
    "games": "games for populations and leagues",
}
"""Titles of the families, which are the folders of ``gpu_envs/envs``, in the order of lists."""
SUMMARIES = {
    "Simple-v0": (1, "One agent moves to a landmark"),
    "SimpleAdversary-v0": (3, "Agents hide their goal from an adversary"),
    "SimpleCrypto-v0": (3, "Two agents hide a message from a third"),
    "SimplePush-v0": (2, "An adversary keeps an agent from its goal"),
    "SimpleReference-v0": (2, "Each agent knows the goal of the other"),
    "SimpleSpeakerListener-v0": (2, "A speaker names the listener's goal"),
    "SimpleSpread-v0": (3, "Agents cover landmarks without collisions"),
    "SimpleTag-v0": (4, "Slow adversaries chase fast agents"),
    "SimpleWorldComm-v0": (6, "Tag with food, forests and a leader's words"),
    "TagContinuous-v0": (105, "Taggers chase many runners on a square"),
    "TagGridworld-v0": (11, "Taggers chase one runner on a grid"),
    "LevelBasedForaging-v0": (2, "Players with levels collect food with levels"),
    "Hanabi-v0": (2, "Fireworks by players with unseen own cards"),
    "Acrobot-v1": (1, "Swing two links above a line"),
    "CartPole-v1": (1, "Balance a pole on a cart"),
    "MountainCar-v0": (1, "Drive a weak car up a hill"),
    "MountainCarContinuous-v0": (1, "Drive a weak car up a hill by any force"),
    "MultiCartPole-v0": (4, "Several poles on carts, one per agent"),
    "Pendulum-v1": (1, "Swing a pendulum up and keep it there"),
    "ClimbingGame-v0": (2, "Cooperative matrix game with large losses"),
    "ConnectFour-v0": (2, "Four discs in a row"),
    "DiscGame-v0": (2, "Points of a disc, where self-play cycles"),
    "KuhnPoker-v0": (2, "Poker with one card for each player"),
    "LeducPoker-v0": (2, "Poker with a public card and two rounds"),
    "MatrixGame-v0": (2, "Any matrix game, played repeatedly"),
    "RockPaperScissors-v0": (2, "Rock-paper-scissors, played repeatedly"),
    "TicTacToe-v0": (2, "Three marks in a row"),
    "TwoStepGame-v0": (2, "Cooperative game of two steps, from QMIX"),
}
"""Number of agents with the default settings, and the task, by id; ``tests/gpu_envs/cli`` compares the numbers."""

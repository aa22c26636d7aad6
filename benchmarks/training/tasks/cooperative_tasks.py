"""Training tasks of grids, kitchens, cards, and other cooperative environments."""

from collections.abc import Sequence

from benchmarks.training.tasks.training_task import NO_TABLE, Goal, TrainingTask

_FORAGE = "LevelBasedForaging-v0 --env-arg force_coop=True"
_LBF = (
    "all players together earn 1, the maximum, if they load all food (Foraging-8x8-2p-2f-coop); the other threshold is "
    "the heuristic H4 of lbforaging, the best with H2"
)
_RWARE = (
    "both robots together (rware-tiny-2ag) make at least 18 deliveries in 500 steps. Random robots make nearly none. "
    "The scripted ones make more, since they see the whole warehouse and not only the cells around them"
)
_COOK = "Overcooked-v0 --env-arg old_dynamics=True --env-arg reward_shaping_factor=1.0"
_COOKED = (
    "IPPO in JAX on JaxMARL 0.2.0's cramped_room with the settings that JaxMARL publishes for Overcooked, after as "
    "many steps; shaped rewards do not count, and both players receive the reward of a soup. Carroll et al. 2019 show "
    "about 200 per episode (400 for both players) for PPO in self-play"
)
_HANABI = (
    "Hanabi-v0 --env-arg colors=2 --env-arg hand_size=2 --env-arg max_information_tokens=3 --env-arg max_life_tokens=1"
)
_POINTS = (
    "Hanabi-Small of the Hanabi Learning Environment: at most 10 points, which both players get, so at most 20. It has "
    "one life, so that a wrong play costs all points. The other threshold is the rule of its example SimpleAgent, "
    "which plays every hinted card. Published results are for the full game and for at least 100 million steps"
)
_BATTLE = (
    "all five allies together on 2s3z: each gets 1 for the whole damage and 1 for a victory, so that 10 are possible. "
    "Every return over 5 has won battles in it"
)
_RIDDLE = (
    "intervals must lie apart from random play's. For three prisoners together the best policy found that ignores the "
    "lamp gets 1.60 and one that knows all visits 2.22, over all 729 sequences. So few steps do not teach the lamp"
)
_COINS = (
    "both players together; taking every coin gives about 0, since half of the coins have the other color and each of "
    "them gives 1 and costs 2"
)
_BY_US = "mpe2 has no baseline of these scenarios; intervals must lie apart from random play's"

COOPERATIVE_TASKS: Sequence[TrainingTask] = (
    *(
        TrainingTask(
            f"foraging-{name}",
            f"{_FORAGE} --algorithm {name} --total-steps {steps} {NO_TABLE}",
            (Goal("return player", 0.99, greedy=False), Goal("return player", "scripted", greedy=False)),
            "chosen",
            _LBF,
            zoo=name == "ippo",
        )
        for name, steps in (("ippo", 1_000_000), ("mappo", 2_000_000))
    ),
    TrainingTask(
        "warehouse-ippo",
        f"RobotWarehouse-v0 --algorithm ippo {NO_TABLE}",
        (Goal("return robot", 18.0, greedy=False), Goal("return robot", "random", greedy=False)),
        "chosen",
        _RWARE,
        seeds=1,
    ),
    TrainingTask(
        "overcooked-ippo",
        f"{_COOK} --algorithm ippo {NO_TABLE}",
        (Goal("return player", "jaxmarl overcooked", greedy=False),),
        "measured",
        _COOKED,
        judged_with=(("reward_shaping_factor", 0.0),),
    ),
    TrainingTask(
        "smax-mappo",
        f"SMAX-v0 --env-arg scenario=2s3z --algorithm mappo {NO_TABLE}",
        (Goal("return ally", 9.0, greedy=False), Goal("return ally", "random", greedy=False)),
        "chosen",
        _BATTLE,
        seeds=1,
    ),
    TrainingTask(
        "hanabi-ippo",
        f"{_HANABI} --algorithm ippo {NO_TABLE}",
        (Goal("return player", 2.5, greedy=False), Goal("return player", "scripted", greedy=False)),
        "chosen",
        _POINTS,
        zoo=False,
    ),
    *(
        TrainingTask(
            f"{name}-ppo",
            f"{env} {NO_TABLE}",
            tuple(Goal(f"return {group}", bound, greedy=False) for group, bound in goals),
            "chosen",
            source,
            seeds=1,
            zoo=False,
        )
        for name, env, goals, source in (
            ("collect-treasure", "CollectTreasure-v0", (("collector", "random"), ("deposit", "random")), _BY_US),
            ("simple-formation", "SimpleFormation-v0", (("agent", -44.0), ("agent", "random")), _BY_US),
            ("simple-line", "SimpleLine-v0", (("agent", -44.0), ("agent", "random")), _BY_US),
            ("switch-riddle", "SwitchRiddle-v0", (("agent", "random"),), _RIDDLE),
            ("coin-game", "CoinGame-v0", (("player", None),), _COINS),
            ("coin-game-shared", "CoinGame-v0 --env-arg shared_rewards=True", (("player", 180.0),), _COINS),
        )
    ),
)
"""All tasks of the module."""

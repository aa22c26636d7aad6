"""Training tasks of grids, kitchens, cards, and other cooperative environments."""

from collections.abc import Sequence

from benchmarks.training.tasks.smax_tasks import SMAX_TASKS
from benchmarks.training.tasks.training_task import NO_TABLE, Goal, TrainingTask

_FORAGE = "LevelBasedForaging-v0 --env-arg force_coop=True"
_LBF = (
    "all players together earn 1, the maximum, if they load all food (Foraging-8x8-2p-2f-coop). The package has no "
    "learning baseline. So the first threshold is PPO of Stable-Baselines3 on lbforaging 2.0.0. It has SuperSuit's "
    "wrappers, the settings of PettingZoo's tutorial (sb3_waterworld_vector.py), 8 worlds, equally many environment "
    "steps, and one policy for both players, as here. It reaches the maximum, so that one failed episode of a seed "
    "misses it. The second threshold is the heuristic H4 of lbforaging; H2 and H4 are the best of its four"
)
_RWARE = (
    "deliveries of both robots together in 500 steps (rware-tiny-2ag), after 8 million steps. EPyMARL's "
    "MAPPO reaches about 17.4 on rware after 20 million steps, read from the plot of tiny-2ag in the README of Mava "
    "(InstaDeep, commit 57c8e64). Mava's own MAPPO reaches about 16 on Jumanji's warehouse, where a collision ends the "
    "episode, and 19.5 where robots pass through each other. EPyMARL's IPPO reaches about 1 (Mava's "
    "docs/jumanji_rware_comparison.md). The scripted robots make more, since they see the whole warehouse and not only "
    "the cells around them"
)
_COOK = "Overcooked-v0 --env-arg old_dynamics=True --env-arg reward_shaping_factor=1.0"
_COOKED = (
    "IPPO in JAX on JaxMARL 0.2.0's cramped_room with the settings that JaxMARL publishes for Overcooked, after as "
    "many steps; shaped rewards do not count, and both players receive the reward of a soup. Carroll et al. 2019 show "
    "about 200 per episode (400 for both players) for PPO in self-play"
)
_COOKED_DEFAULT = (
    "the default rules, in which a player starts the cooking and soups have recipes. JaxMARL has the old rules only, "
    "so the threshold is random play. For comparison, Carroll et al. 2019 show about 400 for both players with the old "
    "rules"
)
_HANABI = (
    "Hanabi-v0 --env-arg colors=2 --env-arg hand_size=2 --env-arg max_information_tokens=3 --env-arg max_life_tokens=1"
)
_POINTS = (
    "Hanabi-Small of the Hanabi Learning Environment: at most 10 points, which both players get, so at most 20. It has "
    "one life, so that a wrong play costs all points. The first threshold is IPPO in JAX on JaxMARL 0.2.0's Hanabi "
    "with these settings of the game, after equally many steps, with the same learner settings as for the game of 25 "
    "points. The second threshold is the rule of the example SimpleAgent, which plays every hinted card. Published "
    "results are for the full game and for at least 100 million steps"
)
_FULL = (
    "the game of 25 points for two players. The threshold is IPPO in JAX on JaxMARL 0.2.0's Hanabi after as many "
    "steps. It has the settings that JaxMARL publishes for Hanabi, but 64 worlds in place of 1024, so that it learns "
    "from 122 rollouts and not from 7. It is one seed, and seeds differ by more than the distance to it. Published "
    "results need far more: JaxMARL trains for 10 billion steps. Both players receive the points"
)
_ECONOMY = (
    "OneStepEconomy-v0 --env-arg payment_max_skill_multiplier=10.0 --env-arg bracket_spacing=linear "
    "--env-arg n_brackets=3 --env-arg top_bracket_cutoff=200.0 --env-arg labor_cost=0.0005 --env-arg labor_exponent=3.0"
)
_TWO_LEVELS = "--learn-after planner=300000 --anneal tax_limit=[0,1,90000]"
OPTIMAL_WELFARE = 110.84672981
"""Welfare of the best taxes here, by `benchmarks.training.tasks.tax_optimum.brute_force`; a test compares both."""
_OPTIMUM = (
    "the social welfare, in units of the best that any of the 9,261 schedules reaches with exact best responses, by "
    "brute force. Without taxes it is 0.67, with the best flat tax, that of Saez's formula, 0.97, and with random "
    "rates and best responses 0.88. Workers learn alone first while the limit of random taxes rises, then planner and "
    "workers learn together. The planner is judged with the scripted workers, which respond exactly, and with those "
    "that learned with it"
)
_EFFORT = "--anneal energy_cost=[0,0.21,600000]"
_WORKERS = (
    "trained workers must differ from random play. Productivity is the coin of all agents at the end, equality is 1 "
    "minus the normalized Gini index [%]. The coin of a house depends on the building skill, so that the skilled "
    "agents should build and the others sell them wood and stone, as Zheng et al. 2022 show. The correlations are "
    "those of the four agents of a world: of skill and houses built, and of skill and coin from trade, sales minus "
    "purchases. Workers learn while the energy cost rises for 600,000 steps, and are judged at the full cost; with the "
    "full cost from the start they learn not to work. Zheng et al. 2022 (arXiv 2004.13332) publish productivity 3,285, "
    "equality 39 % and product 1,278 in the free market, and 2,656, 48 % and 1,261 with these federal taxes. Their "
    "trainings are far longer, so that these values are no threshold here. As published, the free market is more "
    "productive, and the taxes make coin more equal"
)
_PLANNER = (
    "both phases of examples/gather_trade_build_planner.yaml, shortened to some minutes on a CPU: workers alone with "
    "rising energy cost and taxes, then workers and planner. This only shows that the training runs: the planner makes "
    "1,600 decisions while it learns, and the workers do not earn their labor yet. The whole training needs a "
    "GPU, and has not been run. Zheng et al. 2022 publish productivity 2,907, equality 57 % and "
    "product 1,664 for their planner"
)
_RIDDLE = (
    "IPPO in JAX on JaxMARL 0.2.0's switch_riddle with the settings that JaxMARL publishes for it, after as "
    "many steps. Its networks have no memory, and learn to say nothing. The other threshold is "
    "the best policy found that ignores the lamp: 1.605 for "
    "three prisoners together, over all 729 sequences. With the lamp, and another policy for each prisoner, the same "
    "search finds 2.198 (`python -m benchmarks.training.tasks.switch_riddle_search 60`), and a policy that knows all "
    "visits gets 2.222. A seed below 1.605 has not learned to use the lamp"
)
_JAXMARL_COINS = (
    "The threshold is IPPO in JAX on JaxMARL 0.2.0's coin_game after as many steps. JaxMARL publishes no settings for "
    "it, so that it gets those of switch_riddle. Its players share a policy"
)
_COINS = (
    "cross-play: each player against a random one. The return of self-play says little: two selfish players who take "
    "every coin earn about 0, since half of the coins have the other color and each of them gives 1 and costs 2. "
    f"{_JAXMARL_COINS}"
)
_SHARED_COINS = f"both players together. {_JAXMARL_COINS}"
_SB3 = (
    "PPO of Stable-Baselines3 on mpe2 1.1.1 with SuperSuit's wrappers, after as many steps of 8 worlds, with the "
    "settings of PettingZoo's tutorial (sb3_waterworld_vector.py). There all agents share one policy, which does not "
    "observe which agent it acts for"
)
_TREASURES = (
    f"{_SB3}. It is one seed, and seeds differ by more than the distance to it. Collectors still make few deliveries "
    "then: the scripted policy of the environment, which sees the whole state, earns far more"
)
_FORMATION = (
    f"{_SB3}. Here each agent sees only itself and the landmark, and has a policy of its own. The other threshold is a "
    "scripted policy that sees as much: agent i of 4 goes straight to the place at i quarters of the circle. The "
    "scenario is that of Agarwal et al. 2019 (arXiv 1906.01202), whose agents send messages to each other; their code "
    "has policies for 3, 5, 7 and 10 agents, not for mpe2's 4 (github.com/sumitsk/marl_transfer, commit 647a07e)"
)

COOPERATIVE_TASKS: Sequence[TrainingTask] = (
    *(
        TrainingTask(
            f"foraging-{name}",
            f"{_FORAGE} --algorithm {name} {NO_TABLE}",
            (
                Goal("return player", "sb3 Foraging-8x8-2p-2f-coop-v3 player", greedy=False),
                Goal("return player", "scripted", greedy=False, origin="chosen"),
            ),
            "measured",
            _LBF,
            zoo=name == "ippo",
        )
        for name in ("ippo", "mappo")
    ),
    TrainingTask(
        "warehouse-ippo",
        f"RobotWarehouse-v0 --algorithm ippo {NO_TABLE}",
        (
            Goal("return robot", 17.5, greedy=False),
            Goal("return robot", "random", greedy=False, origin="chosen"),
        ),
        "published",
        _RWARE,
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
        "overcooked-default-ippo",
        f"Overcooked-v0 --algorithm ippo {NO_TABLE}",
        (Goal("return player", "random", greedy=False),),
        "chosen",
        _COOKED_DEFAULT,
        zoo=False,
        variant="with the default rules",
        judged_with=(("reward_shaping_factor", 0.0),),
    ),
    *SMAX_TASKS,
    TrainingTask(
        "hanabi-ippo",
        f"{_HANABI} --algorithm ippo {NO_TABLE}",
        (
            Goal("return player", "jaxmarl hanabi-small", greedy=False),
            Goal("return player", "scripted", greedy=False, origin="chosen"),
        ),
        "measured",
        _POINTS,
        zoo=False,
        variant="of 10 points",
    ),
    TrainingTask(
        "hanabi-full-ippo",
        f"Hanabi-v0 --algorithm ippo {NO_TABLE}",
        (Goal("return player", "jaxmarl hanabi", greedy=False),),
        "measured",
        _FULL,
        zoo=False,
        variant="of 25 points",
    ),
    TrainingTask(
        "switch-riddle-mappo",
        f"SwitchRiddle-v0 --algorithm mappo {NO_TABLE}",
        (Goal("return agent", "jaxmarl riddle"), Goal("return agent", 1.605, origin="chosen")),
        "measured",
        _RIDDLE,
        episodes=16_384,
        zoo=False,
    ),
    TrainingTask(
        "one-step-economy-ppo",
        f"{_ECONOMY} {_TWO_LEVELS} {NO_TABLE}",
        (
            Goal("return planner", 0.98, ("planner",), "scripted", unit=OPTIMAL_WELFARE),
            Goal("return planner", 0.98, unit=OPTIMAL_WELFARE),
        ),
        "chosen",
        _OPTIMUM,
        seeds=5,
    ),
    *(
        TrainingTask(
            f"gather-trade-build-{name}",
            f"GatherTradeBuild-v0 --env-arg {taxes} {_EFFORT} {NO_TABLE}",
            (
                Goal("productivity", "random", greedy=False),
                Goal("equality", greedy=False),
                Goal("equality x productivity", "random", greedy=False),
                Goal("correlation of skill and houses", "random", greedy=False),
                Goal("correlation of skill and trade", "random", greedy=False, below=True),
                Goal("houses of the most skilled", "random", greedy=False),
                Goal("houses of the least skilled", greedy=False),
                Goal("return agent", "random", greedy=False),
            ),
            "chosen",
            _WORKERS,
            episodes=128,
            zoo=False,
            variant=variant,
        )
        for name, taxes, variant in (
            ("free-market", "disable_taxes=True", "in the free market"),
            ("us-federal", "tax_model=us-federal-single-filer-2018-scaled", "with the federal taxes of 2018"),
        )
    ),
    TrainingTask(
        "gather-trade-build-planner",
        "GatherTradeBuild-v0 --config examples/gather_trade_build_planner.yaml --device cpu --num-envs 16 "
        "--num-threads 1 --total-steps 320000 --learn-after planner=160000 "
        "--env-arg tax_annealing_schedule=[2,0.2] --anneal energy_cost=[0,0.21,160000] --learner.num-minibatches 4",
        tuple(Goal(name, greedy=False) for name in ("productivity", "equality", "equality x productivity")),
        "chosen",
        _PLANNER,
        seeds=1,
        episodes=128,
        zoo=False,
        variant="with a planner",
    ),
    *(
        TrainingTask(
            f"{name}-ppo",
            f"{env} {NO_TABLE}",
            tuple(
                goal
                for group in groups
                for goal in (
                    Goal(f"return {group}", f"sb3 {name.replace('-', '_')}_v1 {group}", greedy=greedy),
                    Goal(f"return {group}", other, greedy=greedy, origin="chosen"),
                )
            ),
            "measured",
            source,
            episodes=8192 if name == "collect-treasure" else 1024,
            zoo=False,
        )
        for name, env, groups, other, greedy, source in (
            (
                "collect-treasure",
                "CollectTreasure-v0 --total-steps 500000",
                ("collector", "deposit"),
                "random",
                True,
                _TREASURES,
            ),
            ("simple-formation", "SimpleFormation-v0", ("agent",), "fixed places", False, _FORMATION),
            ("simple-line", "SimpleLine-v0", ("agent",), "random", False, _SB3),
        )
    ),
    TrainingTask(
        "coin-game-ppo",
        f"CoinGame-v0 {NO_TABLE}",
        (
            Goal("return player_0", "jaxmarl coins 0", playing=("player_0",), greedy=False),
            Goal("return player_1", "jaxmarl coins 1", playing=("player_1",), greedy=False),
            Goal("return player", greedy=False),
        ),
        "measured",
        _COINS,
        zoo=False,
    ),
    TrainingTask(
        "coin-game-shared-ppo",
        f"CoinGame-v0 --env-arg shared_rewards=True {NO_TABLE}",
        (
            Goal("return player", "jaxmarl coins-shared", greedy=False),
            Goal("return player", 180.0, greedy=False, origin="chosen"),
        ),
        "measured",
        _SHARED_COINS,
        zoo=False,
        variant="with shared rewards",
    ),
)
"""All tasks of the module."""

"""All training tasks."""

from collections.abc import Sequence

from benchmarks.training.tasks.cooperative_tasks import COOPERATIVE_TASKS
from benchmarks.training.tasks.hidden_games import HIDDEN_GAMES
from benchmarks.training.tasks.training_task import NO_TABLE, Goal, Origin, TrainingTask

_TWO = f"TwoStepGame-v0 --total-steps 100000 --num-envs 32 {NO_TABLE}"
_CLIMB = f"ClimbingGame-v0 --total-steps 100000 --num-envs 32 {NO_TABLE}"
_EXPLORE = "--learner.epsilon 1 --learner.epsilon-final 1"
_QMIX = (
    "Rashid et al. 2018, section 6.1: under full exploration QMIX finds the optimal 8 (16 for both players), VDN "
    "cannot represent it and settles for 7 (14)"
)
_CLAUS = "Claus and Boutilier 1998: the optimum pays 11 to each player (22 for both), the safe corner 5 (10)"
_SPREAD = f"--total-steps 1000000 {NO_TABLE}"
_JAX = "IPPO in JAX on JaxMARL 0.2.0 with the settings that JaxMARL publishes for MPE, after as many steps"
_PENDULUM = "policies that swing up and stay get about -140, random ones -1200"
_SPEECH = (
    "a listener that does not understand loses least in the middle of the landmarks, see "
    "`trainers.evaluation.scripted_policies`; the listener's intervals must lie apart"
)
_LISTENER = (Goal("return listener", "scripted"), Goal("return listener", "random"))
_KEEP = f"--checkpoint-interval {{}} --keep-last-checkpoints 100 {NO_TABLE}"
_TAG = (
    "TagContinuous-v0 --env-arg num_taggers=5 --env-arg num_runners=100 --env-arg grid_length=20.0 "
    "--env-arg episode_length=500 --env-arg num_other_agents_observed=10"
)
_TAG_JOINT = (
    f"{_TAG} --total-steps 2500000 --num-envs 32 --learner.rollout-length 50 --learner.num-minibatches 64 "
    "--learner.num-epochs 2 --learner.gamma 0.95 --learner.gae-lambda 0.7 --learner.learning-rate-final 3e-4 "
    f"{_KEEP.format(78)}"
)
_TAG_LEAGUE = (
    f"{_TAG} --algorithm fictitious_self_play --iterations 20 --steps 64000 --rules.latest 0.5 --rules.random 0.3 "
    "--rules.freeze-every 60000 --episodes-per-matchup 8 --device cpu --train-overrides num_envs=32 "
    "--train-overrides learner.rollout_length=50 --train-overrides learner.num_minibatches=64 "
    "--train-overrides learner.num_epochs=2 --train-overrides learner.gamma=0.95 "
    "--train-overrides learner.gae_lambda=0.7 --train-overrides learner.learning_rate_final=3e-4"
)
_WARPDRIVE_TAG = (
    "1 and 88 survivors and 390 steps are what policies reach that WarpDrive trained for 1e9 steps on a GPU, in this "
    "configuration and from one fixed layout. Its taggers leave 0.2 of 100 random runners and need 388 steps. Its "
    "runners keep 87.9 of 100 against random taggers. The thresholds by cross-play are chosen: random, scripted and "
    "earlier policies in the same place. Scripted policies read positions and headings from the state. Trained ones "
    "observe the ten nearest agents, and not their own heading. The run shared its cores with other programs"
)


def _sides_of_tag(measures: dict[str, tuple[str, bool]]) -> tuple[Goal, ...]:
    """Return the goals of both sides of a game of tag, all by cross-play.

    Each side beats random and scripted policies in its place, the opponents being scripted, and its own earlier
    checkpoints, the opponents being the final policies.

    Args:
        measures: What is judged, and whether smaller is better, by group.
    """
    opponents = (("scripted", "random"), ("scripted", "scripted"), ("trained", "checkpoint 0.25"))
    return tuple(
        Goal(of, bound, (group,), against, greedy=False, below=below, origin="chosen")
        for group, (of, below) in measures.items()
        for against, bound in (*opponents, ("trained", "checkpoint 0.5"))
    )


_TAG_GOALS = (
    Goal("survivors runner", 1.0, ("tagger",), greedy=False, below=True),
    Goal("length", 390.0, ("tagger",), greedy=False, below=True),
    Goal("survivors runner", 88.0, ("runner",), greedy=False),
    *_sides_of_tag({"tagger": ("return tagger", False), "runner": ("return runner", False)}),
)


_SOLVED = (Goal("return agent", 475.0),)
_GYMNASIUM = "Gymnasium's reward threshold of CartPole-v1"
_AS_JAX = (Goal("return agent", "jaxmarl", greedy=False),)
_BEYOND_RANDOM = tuple(Goal(f"return {side}", "random", playing=(side,)) for side in ("adversary", "agent"))
_BY_CROSS_PLAY = "cross-play: each side against random opponents, intervals apart from random play's"


def _with_actors(
    name: str, options: str, goals: tuple[Goal, ...], origin: Origin, source: str
) -> Sequence[TrainingTask]:
    """Return tasks of APPO with actors whose weights are 1, 2 and 4 updates old, with steps and threshold of PPO."""
    options = options if NO_TABLE in options else f"{options} {NO_TABLE}"
    return [
        TrainingTask(
            f"{name}-appo-actors-{count}", f"{options} --algorithm appo --num-actors {count}", goals, origin,
            f"{source}; the threshold of PPO after as many steps. Actors sample with weights that are up to {count} "
            "updates old", zoo=False,
        )
        for count in (1, 2, 4)
    ]  # fmt: skip


def _against_joint(measures: dict[str, str]) -> tuple[Goal, ...]:
    """Return the goals of both sides that compare them with joint PPO in their place, by measure of the group."""
    joint = "zoo tag-continuous-joint"
    return tuple(
        Goal(of, joint, (group,), against, greedy=False, origin="chosen")
        for group, of in measures.items()
        for against in ("trained", joint)
    )


TASKS: Sequence[TrainingTask] = (
    TrainingTask(
        "cartpole-ppo",
        f"CartPole-v1 --until-return 475 {NO_TABLE}",
        (Goal("seconds", 10.0, below=True), Goal("return agent")),
        "chosen",
        "between PureJaxRL, which takes about 5 s to a mean of 475 over the last 100 episodes, and Stable-Baselines3, "
        "which takes about 42 s",
    ),
    *(
        TrainingTask(
            f"cartpole-{name}",
            f"CartPole-v1 --algorithm {name} {NO_TABLE}",
            _SOLVED,
            "published",
            _GYMNASIUM,
            zoo=name == "a2c",
        )
        for name in ("a2c", "appo", "impala", "pg")
    ),
    *_with_actors("cartpole", "CartPole-v1", _SOLVED, "published", _GYMNASIUM),
    TrainingTask(
        "cartpole-dqn",
        f"CartPole-v1 --algorithm dqn {NO_TABLE}",
        (Goal("return agent", 400.0),),
        "chosen",
        "the greedy policy of DQN still changes at the end, so the threshold is below the maximum of 500",
    ),
    *(
        TrainingTask(
            f"simple-spread-{name}", f"SimpleSpread-v0 --algorithm {name} {_SPREAD}", _AS_JAX, "measured", _JAX
        )
        for name in ("ippo", "mappo")
    ),
    *_with_actors("simple-spread", f"SimpleSpread-v0 {_SPREAD}", _AS_JAX, "measured", _JAX),
    *COOPERATIVE_TASKS,
    *HIDDEN_GAMES,
    TrainingTask("simple-tag-ppo", f"SimpleTag-v0 {NO_TABLE}", _BEYOND_RANDOM, "chosen", _BY_CROSS_PLAY),
    TrainingTask(
        "simple-tag-iql",
        f"SimpleTag-v0 --algorithm iql {NO_TABLE}",
        _BEYOND_RANDOM,
        "chosen",
        _BY_CROSS_PLAY,
        zoo=False,
    ),
    *_with_actors("simple-tag", "SimpleTag-v0", _BEYOND_RANDOM, "chosen", _BY_CROSS_PLAY),
    TrainingTask(
        "tag-continuous",
        _TAG_LEAGUE,
        (*_TAG_GOALS, *_against_joint({"tagger": "return tagger", "runner": "return runner"})),
        "measured",
        f"{_WARPDRIVE_TAG}. Half of the matches of a side are against the other side as it is, 30 % against random "
        "policies, and the others against its earlier copies. The policies of tag-continuous-joint, which are trained "
        "against each other alone and for twice as many steps, are thresholds too",
        seeds=1,
        episodes=128,
        command="league train",
    ),
    TrainingTask("tag-continuous-joint", _TAG_JOINT, _TAG_GOALS, "measured", _WARPDRIVE_TAG, seeds=1, episodes=128),
    TrainingTask(
        "tag-gridworld",
        "TagGridworld-v0 --env-arg use_full_observation=False --total-steps 500000 --learner.num-minibatches 16 "
        "--learner.gamma 0.95 --learner.learning-rate-final 1e-4 --learner.entropy-coef-final 0.0001 "
        f"{_KEEP.format(12)}",
        (
            Goal("length", "random", ("tagger",), greedy=False, below=True),
            Goal("length", "random", ("runner",), greedy=False),
            *_sides_of_tag({"tagger": ("length", True), "runner": ("length", False)}),
        ),
        "chosen",
        "cross-play by the steps until the tag, since nearly every episode ends with one: each side against random and "
        "scripted opponents and against the other side's final policy, intervals apart. Agents observe their own cell "
        "and the runner's, the runner that of the nearest tagger (use_full_observation=False). With the default "
        "observation, the cells of all agents, a trial of 800,000 steps did not reach the thresholds against scripted "
        "policies. Its taggers needed 23.5 steps against the scripted runner, scripted ones 7.0. Its runner lasted 3.4 "
        "steps against scripted taggers, the scripted one 7.0",
    ),
    TrainingTask(
        "two-step-qmix", f"{_TWO} --algorithm qmix {_EXPLORE}", (Goal("return player", 16.0),), "published", _QMIX
    ),
    TrainingTask(
        "two-step-vdn",
        f"{_TWO} --algorithm vdn {_EXPLORE}",
        (Goal("return player", 14.0, below=True),),
        "published",
        _QMIX,
    ),
    TrainingTask(
        "two-step-iql", f"{_TWO} --algorithm iql {_EXPLORE}", (Goal("return player"),), "published", _QMIX, zoo=False
    ),
    TrainingTask("two-step-ippo", f"{_TWO} --algorithm ippo", (Goal("return player"),), "published", _QMIX, zoo=False),
    TrainingTask(
        "two-step-mappo", f"{_TWO} --algorithm mappo", (Goal("return player"),), "published", _QMIX, zoo=False
    ),
    TrainingTask(
        "climbing-qmix",
        f"{_CLIMB} --algorithm qmix {_EXPLORE}",
        (Goal("return player"),),
        "published",
        _CLAUS,
        zoo=False,
    ),
    TrainingTask(
        "climbing-vdn", f"{_CLIMB} --algorithm vdn {_EXPLORE}", (Goal("return player"),), "published", _CLAUS, zoo=False
    ),
    TrainingTask(
        "climbing-ippo", f"{_CLIMB} --algorithm ippo", (Goal("return player"),), "published", _CLAUS, zoo=False
    ),
    TrainingTask(
        "climbing-mappo", f"{_CLIMB} --algorithm mappo", (Goal("return player"),), "published", _CLAUS, zoo=False
    ),
    *(
        TrainingTask(
            f"pendulum-{name}",
            f"Pendulum-v1 --algorithm {name} {NO_TABLE}",
            (Goal("return agent", -200.0),),
            "chosen",
            _PENDULUM,
        )
        for name in ("sac", "td3", "ddpg")
    ),
    *(
        TrainingTask(
            f"speaker-listener-{name}",
            f"SimpleSpeakerListener-v0 --algorithm {name} {NO_TABLE}",
            _LISTENER,
            "chosen",
            _SPEECH,
            zoo=name in ("maddpg", "mappo"),
        )
        for name in ("maddpg", "matd3", "masac", "mappo")
    ),
)

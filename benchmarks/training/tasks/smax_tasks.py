"""Training tasks of SMAX-v0: win rates against the heuristic enemy, compared with JaxMARL's own baselines."""

from collections.abc import Sequence

from benchmarks.training.baselines import SMAX_STEPS
from benchmarks.training.tasks.training_task import NO_TABLE, Goal, TrainingTask

__all__ = ["SMAX_TASKS"]

_MAXIMUM = "All five allies together can earn 10"
_SOURCES = {
    "mappo": (
        "the win rate of JaxMARL's own MAPPO with recurrent networks, baselines/MAPPO/mappo_rnn_smax.py with its "
        "published settings, after 999,424 steps. The training here takes whole rollouts, up to 0.8 % more steps. Both "
        "sample their actions. The published settings are for 10 million steps, and the learning rate falls to 0 over "
        f"the steps of a training. {_MAXIMUM}"
    ),
    "qmix": (
        "the win rate and the return of JaxMARL's own QMIX with recurrent networks, baselines/QLearning/qmix_rnn.py "
        "with its published settings, after as many steps, rounded down to whole updates. Both take the best actions. "
        "The published settings are for 10 million steps; so few show only how fast both begin to learn. "
        f"{_MAXIMUM}"
    ),
}
_EPISODES = {"smax-qmix-5m-vs-6m": 16_384}
"""Evaluation episodes by name of the task where victories are rare, so that 1,024 have too few of them."""


def _task(
    algorithm: str, area: str, goals: tuple[Goal, ...], seeds: int, more: str = "", zoo: bool = False
) -> TrainingTask:
    """Return the task of an algorithm on a map."""
    name = f"smax-{algorithm}" if area == "2s3z" else f"smax-{algorithm}-{area.replace('_', '-')}"
    return TrainingTask(
        name,
        f"SMAX-v0 --env-arg scenario={area} --algorithm {algorithm} {more}{NO_TABLE}",
        goals,
        "measured",
        _SOURCES[algorithm],
        seeds=seeds,
        zoo=zoo,
        variant=f"on {area}",
        episodes=_EPISODES.get(name, 1024),
    )


def _mappo(area: str, seeds: int, more: str = "", zoo: bool = False) -> TrainingTask:
    goals = (
        Goal("won_battle ally", f"jaxmarl_smax mappo-{area}", greedy=False),
        Goal("won_battle ally", "random", greedy=False, origin="chosen"),
        Goal("return ally", "random", greedy=False, origin="chosen"),
    )
    return _task("mappo", area, goals, seeds, more, zoo)


def _qmix(area: str, seeds: int, more: str = "") -> TrainingTask:
    goals = (
        Goal("won_battle ally", f"jaxmarl_smax qmix-{area}"),
        Goal("return ally", f"jaxmarl_smax qmix-{area} return"),
        Goal("return ally", "random", origin="chosen"),
    )
    return _task("qmix", area, goals, seeds, more)


SMAX_TASKS: Sequence[TrainingTask] = (
    _mappo("2s3z", 3, zoo=True),
    _mappo("5m_vs_6m", 1, "--num-envs 32 --learner.learning-rate 1e-3 "),
    _qmix("2s3z", 3),
    _qmix("5m_vs_6m", 3, f"--total-steps {SMAX_STEPS['qmix', '5m_vs_6m']} "),
)
"""All tasks of the module."""

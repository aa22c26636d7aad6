"""Training tasks of SMAX-v0: win rates against the heuristic enemy, compared with JaxMARL's own baselines."""

from collections.abc import Sequence

from benchmarks.training.tasks.training_task import NO_TABLE, Goal, TrainingTask

__all__ = ["SMAX_TASKS"]

_SOURCES = {
    "mappo": (
        "the win rate of JaxMARL's own MAPPO with recurrent networks, baselines/MAPPO/mappo_rnn_smax.py with its "
        "published settings, after 999,424 steps. Both sample their actions. The published settings are for 10 million "
        "steps, and the learning rate falls to 0 over the steps of a training. All five allies together can earn 10"
    ),
}


def _task(algorithm: str, area: str, seeds: int, more: str = "", zoo: bool = False) -> TrainingTask:
    """Return the task of an algorithm on a map."""
    name = f"smax-{algorithm}" if area == "2s3z" else f"smax-{algorithm}-{area.replace('_', '-')}"
    return TrainingTask(
        name,
        f"SMAX-v0 --env-arg scenario={area} --algorithm {algorithm} {more}{NO_TABLE}",
        (
            Goal("won_battle ally", f"jaxmarl_smax {algorithm}-{area}", greedy=False),
            Goal("won_battle ally", "random", greedy=False, origin="chosen"),
            Goal("return ally", "random", greedy=False, origin="chosen"),
        ),
        "measured",
        _SOURCES[algorithm],
        seeds=seeds,
        zoo=zoo,
        variant=f"on {area}",
    )


SMAX_TASKS: Sequence[TrainingTask] = (
    _task("mappo", "2s3z", 3, zoo=True),
    _task("mappo", "5m_vs_6m", 1, "--num-envs 32 --learner.learning-rate 1e-3 "),
)
"""All tasks of the module."""

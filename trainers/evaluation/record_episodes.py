"""Play policies and record their episodes."""

from __future__ import annotations

from gpu_envs.runtime.core import Core
from gpu_envs.runtime.episode_recorder import Episode
from gpu_envs.utils.progress import Progress
from trainers.evaluation.policy_evaluation import EvaluationResult, evaluate_policies
from trainers.evaluation.policy_runner import Players

__all__ = ["record_policies"]


def record_policies(
    core: Core, players: Players, seed: int, greedy: bool = False, progress: Progress | None = None
) -> tuple[list[Episode], EvaluationResult]:
    """Play and record the first episode of every environment; arguments as of `evaluate_policies`."""

    def report(episodes: int) -> None:
        if progress is not None:
            progress(episodes, "recording")

    with core.record_episodes(range(core.num_envs)) as recorder:
        outcome = evaluate_policies(core, players, seed, greedy, finished_so_far=report)
        return [episode for episode in recorder.take() if episode.number == 0], outcome

"""Learned best responses as runs of a training, which `gpu-envs eval`, `render` and `export` read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from league.game import Game
from league.policies.team import TeamPolicy, part_policy
from league.rollout.best_response import settled
from trainers.config.train_config import TrainConfig
from trainers.models.policy import Policy
from trainers.storage import checkpoint
from trainers.storage.checkpoint_manifest import FOLDER

__all__ = ["save_responses"]


def save_responses(
    folder: Path, game: Game, train: TrainConfig, responses: Mapping[str, Sequence[Policy | TeamPolicy]], steps: int
) -> list[Path]:
    """Write one run for each training, whose policies are the responses of all roles, without learners.

    Args:
        folder: Folder of the runs.
        game: Game of the responses.
        train: Training settings.
        responses: Responses by role, the same number for each.
        steps: Environment steps of a training.

    Returns:
        The folders of the runs, response-0, response-1, ...
    """
    config, runs = dataclasses.asdict(settled(game, train)), []
    for number in range(min(map(len, responses.values()))):
        policies: dict[str, Policy] = {}
        for role, trained in responses.items():
            parts = game.parts[game.seats_of(role)[0]]
            for index, name in enumerate(game.learners_of(role)):
                policy = part_policy(trained[number], parts, index)
                assert isinstance(policy, Policy)
                policies[name] = policy
        run = folder / f"response-{number}"
        checkpoint.save(run / FOLDER, train.iterations, steps, config, {}, policies)
        runs.append(run)
    return runs

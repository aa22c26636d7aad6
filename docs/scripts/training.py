"""How an environment is trained: commands, their results and presets, for the summary of its page."""

import functools
import shlex
from typing import Any

from benchmarks.experiments import publish
from benchmarks.training import learning_page, train_tasks
from benchmarks.training.tasks import TASKS, TrainingTask
from trainers.config.presets import PRESETS

recorded = functools.cache(train_tasks.recorded)
algorithms_on = functools.cache(publish.algorithms_on)


def trainings(env_id: str, docs: str) -> str:
    """Return the commands that train an environment, each with links to its results, and published comparisons.

    "" without any of these and without a preset.

    Args:
        env_id: ID of the environment.
        docs: Path of the folder docs/ from the page.
    """
    links: dict[str, list[str]] = {}
    for task in TASKS:
        if shlex.split(task.options)[0] == env_id and task.name in recorded():
            links.setdefault(_command(task), []).append(_link(task, docs))
    algorithms = sorted({algorithm for id, _, algorithm in PRESETS if id == env_id})
    if not links:
        links = {_train(env_id, algorithm): [] for algorithm in algorithms}
    parts = [f"`{command}`" + f" ({', '.join(task_links)})" * bool(task_links) for command, task_links in links.items()]
    for name, compared in algorithms_on(env_id).items():
        parts.append(f"compared: [{', '.join(compared)}]({docs}/learning.md#{name.replace('_', '-')})")
    parts += [f"settings: [presets]({docs}/guides/train.md#presets)"] * bool(algorithms)
    return "; ".join(parts)


def _train(env_id: str, algorithm: str) -> str:
    return f"gpu-envs train {env_id}" + f" --algorithm {algorithm}" * (algorithm != "ppo")


def _command(task: TrainingTask) -> str:
    """Return the command of a task, without the options that differ from the presets."""
    words: list[Any] = shlex.split(task.options)
    if task.command == "train":
        return _train(words[0], learning_page.algorithm_of(task))
    return f"gpu-envs {task.command} {words[0]} --algorithm {words[words.index('--algorithm') + 1]}"


def _link(task: TrainingTask, docs: str) -> str:
    """Return a link to the results, named by a task without the name of the environment."""
    words = learning_page.title(task).replace(f" on {shlex.split(task.options)[0]}", "")
    return f"[{words}]({docs}/learning.md#results)"

"""How an environment is trained: commands, published comparisons and presets, for the summary of its page."""

import functools

from benchmarks.experiments import publish
from trainers.config.presets import PRESETS

algorithms_on = functools.cache(publish.algorithms_on)


def trainings(env_id: str, docs: str) -> str:
    """Return the commands that train an environment with a preset, and links to published comparisons; "" without any.

    Args:
        env_id: ID of the environment.
        docs: Path of the folder docs/ from the page.
    """
    algorithms = sorted({algorithm for id, _, algorithm in PRESETS if id == env_id})
    parts = [f"`gpu-envs train {env_id}{f' --algorithm {name}' * (name != 'ppo')}`" for name in algorithms]
    for name, compared in algorithms_on(env_id).items():
        parts.append(f"compared: [{', '.join(compared)}]({docs}/learning.md#{name.replace('_', '-')})")
    parts += [f"settings: [presets]({docs}/guides/train.md#presets)"] * bool(algorithms)
    return "; ".join(parts)

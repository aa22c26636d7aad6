"""Learners and the training loop: rollouts, returns, PPO, checkpoints, evaluation and the commands `train` and `eval`.

Start reading at `ppo.py` (the algorithm), then `loop.py` (what drives it). To play with what was trained::

    policy = trainers.load_policy("out/<run>")
    action = policy.act(obs, greedy=True)

Nothing is imported before it is used, so that the command line finds its subcommands without paying for torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainers.checkpoint import load_policy

__all__ = ["load_policy"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from trainers import checkpoint

        return getattr(checkpoint, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Learners and the training loop: rollouts, returns, PPO, checkpoints, evaluation and the `train` and `eval` commands.

Start reading at `ppo.py` (the algorithm), then `loop.py` (what drives it). Nothing is imported here, so that the
command line finds its subcommands without paying for torch.
"""

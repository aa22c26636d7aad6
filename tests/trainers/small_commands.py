"""Options of small training runs, for tests of several rooms."""

SMALL = [
    "SimpleTag-v0", "--device", "cpu", "--num-envs", "16", "--total-steps", "1000", "--num-threads", "1",
    "--eval-episodes", "8", "--checkpoint-interval", "2", "--env-arg", "num_good=2", "--no-video",
    "--learner.rollout-length", "10", "--learner.hidden_sizes", "16",
]  # fmt: skip

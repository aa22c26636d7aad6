"""The training loop: collect rollouts, update learners, evaluate, log and save."""

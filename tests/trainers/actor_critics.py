"""Small actor-critic learners, and trainers of toy environments."""

import dataclasses

from trainers.algorithms.on_policy.a2c import A2C, A2CConfig
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.learner_spec import LearnerSpec
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer

SMALL = {"rollout_length": 8, "hidden_sizes": (16,), "learning_rate": 0.01}


KINDS = {
    "ppo": ("ppo", PPOConfig(**SMALL, num_minibatches=2)),
    "mappo": ("mappo", PPOConfig(**SMALL, critic_input="state", num_minibatches=2)),
    "recurrent": ("ppo", PPOConfig(**SMALL, network="gru", num_minibatches=2)),
    "recurrent mappo": ("mappo", PPOConfig(**SMALL, network="gru", critic_input="state", num_minibatches=2)),
    "a2c": ("a2c", A2CConfig(**SMALL)),
    "a2c, all else": ("a2c", A2CConfig(**SMALL, network="gru", critic_input="state", optimizer="adam")),
}


def trainer_of(core, config, out, algorithm="ppo", **changes) -> Trainer:
    """Return a trainer of a toy environment, or of a real one by its id."""
    name = core if isinstance(core, str) else type(core).__name__
    arguments = {
        "num_envs": 8 if isinstance(core, str) else core.num_envs,
        "eval_episodes": 0,
        "num_threads": 1,
        **changes,
    }
    run = TrainConfig(name, algorithm=algorithm, learner=config, **arguments)
    return Trainer(run, out) if isinstance(core, str) else Trainer(run, out, None, lambda *_, **__: core)


def learner_for(kind: str, core, state_width: int = 0, seed: int = 0, **changes):
    algorithm, config = KINDS[kind]
    config = dataclasses.replace(config, **changes)
    problem = LearnerSpec(
        core.obs_width, core.action_spaces[core.possible_agents[0]], core.num_envs, core.num_agents, 10_000, seed=seed,
        state_width=state_width,
    )  # fmt: skip
    return (A2C if algorithm == "a2c" else PPO)(config, problem)

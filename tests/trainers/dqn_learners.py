"""Small DQN learners and their rollouts for tests."""

from trainers.algorithms.off_policy.dqn import DQN, DQNConfig
from trainers.base.learner_spec import LearnerSpec
from trainers.base.transition import Transition

FAST = {
    "rollout_length": 8, "updates": 8, "batch_size": 64, "learning_starts": 256, "learning_rate": 3e-3, "hidden_sizes":
    (32,),
    "tau": 0.1, "gamma": 0.9, "epsilon_fraction": 0.5, "replay_size": 8192,
}  # fmt: skip
NEVER = {"learning_starts": 10**9, "normalize_obs": False}


def learner_for(core, total_steps: int = 5_000, seed: int = 0, **settings) -> DQN:
    """Return a small learner for a core."""
    space = core.action_spaces[core.possible_agents[0]]
    problem = LearnerSpec(
        core.obs_width, space, core.num_envs, core.num_agents, total_steps, "cpu", seed,
        has_action_mask=core.action_mask is not None,
    )  # fmt: skip
    return DQN(DQNConfig(**{**FAST, **settings}), problem)


def drive(core, learner: DQN, iterations: int) -> list[dict[str, float]]:
    """Play and learn; return the metrics of every iteration."""
    core.reset()
    history = []
    for _ in range(iterations):
        for _ in range(learner.config.rollout_length):
            core.step(learner.act(core.obs, core.info.get("action_mask")))
            learner.observe(
                Transition(
                    core.reward, core.terminated, core.truncated, core.valid, core.obs, core.final_obs,
                    next_mask=core.action_mask, restarted=core.elapsed_steps == 0,
                )
            )  # fmt: skip
        history.append({name: float(value) for name, value in learner.update().items()})
    return history

"""Small learners of a team, QMIX and VDN, for several test files."""

from gymnasium import spaces

from trainers.algorithms import algorithm_specs
from trainers.algorithms.off_policy.qmix import QMIX
from trainers.base.learner_spec import LearnerSpec
from trainers.base.transition import Transition
from trainers.runner.agent_assignment import CriticState

TWO = spaces.Discrete(2)


FAST = {
    "rollout_length": 8, "updates": 8, "batch_size": 64, "learning_starts": 128, "learning_rate": 3e-3,
    "learning_rate_final": 3e-3, "hidden_sizes": (32,), "tau": 0.1, "replay_size": 8192,
}  # fmt: skip


GRU = {"network": "gru", "window": 3, "burn_in": 1}


def learner_for(core, kind: str = "qmix", total_steps: int = 8_000, seed: int = 0, **settings) -> QMIX:
    algorithm = algorithm_specs.find(kind)
    space, masked = core.action_spaces[core.possible_agents[0]], core.action_mask is not None
    config = algorithm.settings(**{**FAST, **settings})
    width = CriticState(core, config.central_input).width
    problem = LearnerSpec(
        core.obs_width,
        space,
        core.num_envs,
        core.num_agents,
        total_steps,
        seed=seed,
        state_width=width,
        has_action_mask=masked,
    )
    return algorithm.learner_type(config, problem)


def drive(core, learner: QMIX, iterations: int) -> list[dict[str, float]]:
    core.reset()
    critic_state, history = CriticState(core, learner.central_input), []
    for _ in range(iterations):
        for _ in range(learner.config.rollout_length):
            core.step(learner.act(core.obs, core.action_mask, None, critic_state.now()))
            learner.observe(
                Transition(
                    core.reward, core.terminated, core.truncated, core.valid, core.obs, core.final_obs,
                    next_mask=core.action_mask, restarted=core.elapsed_steps == 0, next_state=critic_state.now(),
                    final_state=critic_state.final(),
                )
            )  # fmt: skip
        history.append({name: float(value) for name, value in learner.update().items()})
    return history


def gru(core, **settings) -> QMIX:
    """Return a learner with recurrent networks."""
    return learner_for(core, network="gru", hidden_sizes=(16,), window=4, **settings)

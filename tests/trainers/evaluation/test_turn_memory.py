"""Recurrent policies in games of turns: equal information states give equal hidden states, wherever they act."""

import pytest
import torch

from league.game import Game
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.models.policy_set import PolicyRunner, PolicySet
from trainers.runner.agent_assignment import acting_groups, assign_policies
from trainers.runner.collector import Collector
from trainers.runner.learner_group import LearnerGroup

GAMES = {
    "kuhn": ("KuhnPoker-v0", {}),
    "phantom": ("PhantomTicTacToe-v0", {"obstype": "reveal-nothing"}),
    "phantom, number of turns": ("PhantomTicTacToe-v0", {"obstype": "reveal-numturns"}),
    "dark hex": ("DarkHex-v0", {"gameversion": "cdh", "board_size": 3, "obstype": "reveal-nothing"}),
    "abrupt dark hex": ("DarkHex-v0", {"gameversion": "adh", "board_size": 3, "obstype": "reveal-nothing"}),
    "leduc": ("LeducPoker-v0", {}),
    "liar's dice": ("LiarsDice-v0", {"dice_sides": 3}),
}
"""Games of turns with hidden cards, dice or moves, whose observations are information states."""
QUICK = ("phantom", "dark hex")
CASES = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in GAMES]
WORLDS, STEPS = 48, 30


def config_of(name, sharing="group", **learner):
    env_id, env = GAMES[name]
    ppo = PPOConfig(**{"network": "gru", "hidden_sizes": (8,), "rollout_length": 7, **learner})
    settings = {"num_envs": WORLDS, "total_steps": 10**4, "eval_episodes": 0, "seed": 2, "num_threads": 1}
    return TrainConfig(env_id, env, learner=ppo, sharing=sharing, **settings)


def with_large_weights(assignments):
    """Make the hidden states depend on every observation."""
    generator = torch.Generator().manual_seed(0)
    for assignment in assignments.values():
        for parameter in assignment.learner.net.actor.parameters():
            parameter.data += torch.randn(parameter.shape, generator=generator)
    return assignments


@pytest.mark.parametrize("name", CASES)
def test_equal_information_states_have_equal_hidden_states_everywhere(name):
    """In trainings, evaluations and league matchups, with the same policies in the same worlds."""
    config = config_of(name)
    core = make_train_core(config, WORLDS, 2)
    assignments = with_large_weights(assign_policies(config, core))
    groups = acting_groups(assignments, core)
    policies = {key: assignment.policy() for key, assignment in assignments.items()}
    players = {member: policies[key] for key, assignment in assignments.items() for member in assignment.members}
    runner = PolicyRunner(core, players)
    game = Game.of(config.env_id, config.env)
    seats = []
    for seat in game.seats:
        (member,) = {group for group in players if set(seat.members) <= {group, *names_of(core, group)}}
        ensemble = PolicySet([players[member]], core, [seat.members], 0)
        ensemble.assign(torch.zeros(WORLDS, dtype=torch.int64))
        seats.append((ensemble, ensemble.agents[0].rows))
    memories, repeated, action = {}, 0, torch.zeros_like(core.action_buffer)
    info = core.reset(seed=5)[1]
    for group in groups:
        group.start()
    for step in range(STEPS):
        if step % config.learner.rollout_length == 0 and step:
            for assignment in assignments.values():
                assignment.learner.skip_update()
            for group in groups:
                group.start()
        moves = info["to_move"].clone()
        for group in groups:
            group.act(core, info, action)
        for ensemble, _ in seats:
            ensemble.act(core.obs, info, core.sample_actions())
        action = runner.act(core.obs, info)
        hidden = torch.zeros(WORLDS, core.num_agents, 8)
        for batch in runner.sets:
            states = batch.parts[0].hidden_state.split(WORLDS)
            for agents, state in zip(batch.agents, states, strict=True):
                hidden[:, agents.rows] = state
        for ensemble, rows in seats:
            torch.testing.assert_close(ensemble.parts[0].hidden_state[moves[:, rows]], hidden[:, rows][moves[:, rows]])
        for assignment in assignments.values():
            rows = assignment.agents.rows
            memory = assignment.learner.recurrent_state.actor_next
            torch.testing.assert_close(memory[moves[:, rows]], hidden[:, rows][moves[:, rows]])
        for world, agent in moves.nonzero().tolist():
            key = (agent, core.obs[world, agent].numpy().tobytes())
            repeated += key in memories
            torch.testing.assert_close(hidden[world, agent], memories.setdefault(key, hidden[world, agent]))
        info = core.step(action)[4]
        for group in groups:
            group.observe(core, info, action, core.elapsed_steps == 0, core.valid)
    assert repeated > 2 * WORLDS


def names_of(core, group):
    return [core.possible_agents[row] for row in core.groups[group]]


@pytest.mark.parametrize("sharing", ["group", "all"])
@pytest.mark.parametrize("name", CASES)
def test_first_update_has_ratio_one(name, sharing):
    """The sequences of an update advance as in acting, also across rollouts; batched with two policies."""
    config = config_of(name, sharing, num_epochs=1, num_minibatches=1, learning_rate=1e-9, learning_rate_final=0.0)
    core = make_train_core(config, WORLDS, 2)
    if sharing == "all" and len({space.shape for space in core.observation_spaces.values()}) > 1:
        pytest.skip("agents differ")
    learners = LearnerGroup(config, core)
    with_large_weights(learners.assignments)
    collector = Collector(config, core, learners)
    for _ in range(3):
        collector.collect()
        metrics = learners.update(1, str)
        for policy in learners.assignments:
            assert abs(metrics[f"{policy}/approx_kl"]) < 1e-5
            assert metrics[f"{policy}/clip_fraction"] == 0.0
            assert metrics[f"{policy}/grad_norm"] > 0


def test_rollout_that_continues_from_a_checkpoint_advances_alike():
    """Whether the first step of a rollout shows something new depends on the rollout before."""
    config = config_of("phantom")
    states = []
    for resumes in (False, True):
        core = make_train_core(config, WORLDS, 2)
        learners = LearnerGroup(config, core)
        with_large_weights(learners.assignments)
        collector = Collector(config, core, learners)
        for number in range(3):
            collector.collect()
            for assignment in learners.assignments.values():
                assignment.learner.skip_update()
            if resumes and number == 1:
                saved = {**collector.state_dict(), **learners.state_dict()}
                saved = {key: value.clone() if torch.is_tensor(value) else value for key, value in saved.items()}
                core = make_train_core(config, WORLDS, 2)
                learners = LearnerGroup(config, core)
                collector = Collector(config, core, learners)
                collector.load_state_dict(saved)
                learners.load_state_dict(saved)
        states.append(learners.state_dict())
    hidden = [key for key in states[0] if ".hidden_state." in key]
    assert any(key.endswith("advances") for key in hidden)
    for key in hidden:
        assert torch.equal(states[0][key], states[1][key]), key


def test_checkpoint_without_advances_can_be_continued():
    """Checkpoints of earlier versions have none."""
    config = config_of("phantom")
    core = make_train_core(config, WORLDS, 2)
    learners = LearnerGroup(config, core)
    state = {key: value for key, value in learners.state_dict().items() if not key.endswith("hidden_state.advances")}
    assert len(state) < len(learners.state_dict())
    learners.load_state_dict(state)
    for assignment in learners.assignments.values():
        assert assignment.learner.rollout.advances[0].all()

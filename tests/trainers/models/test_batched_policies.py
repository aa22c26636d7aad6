"""Batched policies: several policies or learners act in one call as they do one by one."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from toy_core import Corridor, Identity, Recall

from trainers.algorithms import algorithm_specs
from trainers.algorithms.on_policy.advantages import minibatch
from trainers.algorithms.on_policy.batched_actor_critics import BatchedActorCritics
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.learner_spec import LearnerSpec
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.evaluation.policy_evaluation import evaluate_policies
from trainers.models.batched_policies import BatchedPolicies, can_batch
from trainers.models.policy_set import PolicyRunner
from trainers.runner import collector
from trainers.runner.agent_assignment import ActingGroup, assign_policies
from trainers.runner.collector import Collector
from trainers.runner.learner_group import LearnerGroup
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint

SPACES = {
    "discrete": spaces.Discrete(5),
    "multi": spaces.MultiDiscrete([3, 2]),
    "box": spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([3.0, 1.0], np.float32)),
}


def policies(count: int, space: str = "discrete", **settings) -> list:
    """Return policies with random weights, normalizers and deviations."""
    members = []
    for seed in range(count):
        learner = PPO(PPOConfig(hidden_sizes=(8, 6), **settings), LearnerSpec(4, SPACES[space], 5, 3, 100, seed=seed))
        generator = torch.Generator().manual_seed(seed)
        learner.net.normalizer.update(torch.randn((50, 4), generator=generator) * (1 + seed) + seed)
        for parameter in learner.net.parameters():
            parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
        members.append(learner.policy())
    return members


@pytest.mark.parametrize("body", ["mlp", "gru"])
@pytest.mark.parametrize("space", SPACES)
def test_batched_actions_equal_those_of_single_policies(space, body):
    alone = policies(3, space, network=body)
    batched = BatchedPolicies(alone)
    hidden_state = alone[0].initial_hidden_state(3, 5, 3)
    hidden_states = [policy.initial_hidden_state(5, 3) for policy in alone]
    generator = torch.Generator().manual_seed(9)
    for _ in range(4):
        obs = torch.randn((3, 5, 3, 6), generator=generator)  # wider than the policies' observations
        mask = torch.rand((3, 5, 3, 5), generator=generator) < 0.7 if space == "discrete" else None
        if mask is not None:
            mask[..., 0] = True  # a legal choice
        together = batched.act(obs, mask, greedy=True, hidden_state=hidden_state)
        for i, policy in enumerate(alone):
            inputs, legal = obs[i, ..., : policy.obs_width], None if mask is None else mask[i]
            single = policy.act(inputs, legal, greedy=True, hidden_state=hidden_states[i])
            torch.testing.assert_close(together[i], single)
            if hidden_state is not None:
                torch.testing.assert_close(hidden_state[i], hidden_states[i])


def test_batched_samples_follow_each_policys_probabilities():
    alone = policies(2)
    batched = BatchedPolicies(alone)
    batched.generator.manual_seed(3)
    obs = torch.tensor([[0.5, -1.0, 2.0, 0.0]]).expand(2, 20_000, 1, 4)
    drawn = batched.act(obs)
    for i, policy in enumerate(alone):
        expected = policy.actor(policy.normalizer(obs[i, 0, 0])).softmax(-1)
        actual = torch.bincount(drawn[i].flatten(), minlength=5) / 20_000
        torch.testing.assert_close(actual, expected, atol=0.015, rtol=0.0)
    box = BatchedPolicies(policies(2, "box"))
    spread = box.head.log_std.exp().flatten(0, 2)
    drawn = box.head.sample(torch.zeros(2, 20_000, 1, 2), box.generator, None)[0]
    torch.testing.assert_close(drawn.std((1, 2)), spread, atol=0.0, rtol=0.03)


def test_only_policies_of_equal_shape_can_batch():
    first, other = policies(2)
    assert can_batch(first, other)
    assert not can_batch(first, policies(1, "multi")[0])
    assert not can_batch(first, policies(1, activation="relu")[0])
    picture = policies(1, network="cnn", image=(1, 2, 2))[0]
    assert not can_batch(picture, picture)
    assert not can_batch(first, object())


@pytest.mark.parametrize(("core", "body"), [(Corridor, "mlp"), (Recall, "gru")])
def test_policy_runner_batches_policies_of_equal_shape(core, body):
    """With one policy per agent, greedy play equals the play of single policies."""
    worlds = core(6)
    config = TrainConfig("Toy", num_envs=6, sharing="agent", learner=PPOConfig(hidden_sizes=(8,), network=body))
    seats = assign_policies(config, worlds)
    players = {name: seat.learner.policy() for name, seat in seats.items()}
    cast = PolicyRunner(worlds, players)
    assert len(cast.sets) == 1
    obs, info = worlds.reset(seed=1)
    hidden_states = {name: policy.initial_hidden_state(6, 1) for name, policy in players.items()}
    for _ in range(6):
        expected = []
        for row, (name, policy) in enumerate(players.items()):
            if hidden_states[name] is not None:
                hidden_states[name].masked_fill_((worlds.elapsed_steps == 0)[:, None, None], 0.0)
            inputs = obs[:, row : row + 1, : policy.obs_width]
            expected.append(policy.act(inputs, greedy=True, hidden_state=hidden_states[name]))
        action = cast.act(obs, info, greedy=True)
        for row, hidden_state in enumerate(hidden_states.values()):
            if hidden_state is not None:
                states = cast.sets[0].parts[0].hidden_state  # (players * worlds, 1, H)
                torch.testing.assert_close(states[row * 6 : row * 6 + 6], hidden_state)
        assert torch.equal(action, torch.cat(expected, 1))
        obs, _, _, _, info = worlds.step(action)


def test_policy_runner_separates_masks_and_group_sizes():
    core = Identity(8, masked=True)
    seats = assign_policies(TrainConfig("Identity", num_envs=8), core)
    players = {name: seat.learner.policy() for name, seat in seats.items()}
    assert len(PolicyRunner(core, players).sets) == 2  # two agents in one group, one in the other
    seats = assign_policies(TrainConfig("Identity", num_envs=8, sharing="agent"), core)
    players = {name: seat.learner.policy() for name, seat in seats.items()}
    assert len(PolicyRunner(core, players).sets) == 1
    first, second = (
        evaluate_policies(core, players, seed=2) for _ in range(2)
    )  # the toy asserts that every action is legal
    assert first == second


# -------------------------------------------------------------------------------------------------------- in training

TOYS = {"Identity": Identity, "Corridor": Corridor}
TRAININGS = {
    "ppo": ("SimpleSpread-v0", "ppo", {}),
    "a2c, with dead agents": ("Corridor", "a2c", {}),
    "masks, rows apart": ("Identity", "ppo", {}),
    "recurrent": ("SimpleSpread-v0", "ppo", {"network": "gru"}),
    "state": ("SimpleSpread-v0", "mappo", {}),
    "turns": ("TicTacToe-v0", "ppo", {}),
    "continuous actions": ("TagContinuous-v0", "ppo", {}),
    "squashed": ("TagContinuous-v0", "ppo", {"squash": True}),
}


def training(case: str) -> Collector:
    """Return a trainer with one policy per agent; rollouts extend beyond episode ends."""
    env_id, algorithm, learner = TRAININGS[case]
    env = {"num_taggers": 1, "num_runners": 2} if env_id == "TagContinuous-v0" else {}
    length = 30 if env_id == "SimpleSpread-v0" else 7
    learner = algorithm_specs.find(algorithm).settings(**{"hidden_sizes": (8, 6), "rollout_length": length, **learner})
    config = TrainConfig(
        env_id, env, algorithm=algorithm, learner=learner, num_envs=6, total_steps=10_000, sharing="agent", seed=5
    )
    core = (
        TOYS[env_id](6, **{"masked": True} if "masks" in case else {})
        if env_id in TOYS
        else make_train_core(config, 6, 5)
    )
    return Collector(config, core, LearnerGroup(config, core))


def one_by_one(seats, core) -> list[ActingGroup]:
    return [ActingGroup(seat.agents, seat.learner, seat.critic_state) for seat in seats.values()]


@pytest.mark.variations(quick=2)
@pytest.mark.parametrize("case", TRAININGS)
def test_batched_learners_store_the_same_rollouts_as_single_ones(case, monkeypatch):
    """Equal samples of the same streams, and equal log-probabilities, observations, states, hidden states and ends."""
    together = training(case)
    with monkeypatch.context() as patch:
        patch.setattr(collector, "acting_groups", one_by_one)
        alone = training(case)
    assert any(isinstance(part.actor, BatchedActorCritics) for part in together.groups)
    assert not any(isinstance(part.actor, BatchedActorCritics) for part in alone.groups)
    for iteration, tolerance in enumerate((2e-6, 1e-5, 1e-5)):
        alone.collect()
        together.collect()
        for name, seat in together.learners.assignments.items():
            learner, other = seat.learner, alone.learners.assignments[name].learner
            actual, expected = vars(learner.rollout), vars(other.rollout)
            assert actual.keys() == expected.keys()
            for key in sorted(actual.keys() - {"final_obs", "device", "t"}):
                torch.testing.assert_close(
                    actual[key], expected[key], atol=tolerance, rtol=tolerance, msg=f"{name}.{key}"
                )
            torch.testing.assert_close(
                learner.rollout.next_obs(), other.rollout.next_obs(), atol=tolerance, rtol=tolerance
            )
            if learner.recurrent_state is not None:
                actual, expected = learner.recurrent_state.actor_next, other.recurrent_state.actor_next
                torch.testing.assert_close(actual, expected, atol=tolerance, rtol=tolerance)
        together.learners.update(iteration, str)
        alone.learners.update(iteration, str)
        actual, expected = together.state_dict(), alone.state_dict()
        assert actual.keys() == expected.keys()
        for key in (key for key in actual if key.startswith("learner.")):
            torch.testing.assert_close(actual[key], expected[key], atol=1e-4, rtol=1e-3, msg=key)


def test_learners_with_equal_networks_act_in_one_batch(monkeypatch):
    """A step is one call for any number of policies."""
    collector = training("ppo")
    assert len(collector.groups) == 1
    monkeypatch.setattr(PPO, "act", None)
    collector.collect()
    assert all(seat.learner.rollout.log_prob.all() for seat in collector.learners.assignments.values())


def test_batched_learners_own_their_weights():
    """Weights on disk and in policies are no views of shared memory, and rollouts are contiguous."""
    collector = training("recurrent")
    collector.collect()
    collector.learners.update(1, str)
    for seat in collector.learners.assignments.values():
        for tensor in (*seat.learner.net.state_dict().values(), *seat.learner.policy().net.state_dict().values()):
            assert tensor.untyped_storage().nbytes() == tensor.nbytes
        assert all(value.is_contiguous() for value in vars(seat.learner.rollout).values() if hasattr(value, "t"))


def test_batched_policies_use_the_latest_weights():
    """This holds after an update and after a resume, with the same stacked tensors."""
    collector, other = training("ppo"), training("ppo")
    (part,) = collector.groups
    weights = part.actor.policies.actor.body[0].weight
    generator = torch.Generator().manual_seed(1)
    other.collect()
    other.learners.update(1, str)

    def check() -> None:
        collector.collect()
        assert part.actor.policies.actor.body[0].weight is weights  # address used by a captured rollout
        obs = torch.randn((3, 6, 1, collector.core.obs_width), generator=generator)
        actions = part.actor.policies.act(obs, greedy=True)
        outputs = part.actor.policies._outputs(obs, None)
        for i, seat in enumerate(collector.learners.assignments.values()):
            policy = seat.learner.policy()
            torch.testing.assert_close(outputs[i], policy.actor(policy.inputs(obs[i])), atol=1e-6, rtol=1e-6)
            assert torch.equal(actions[i], policy.act(obs[i, ..., : policy.obs_width], greedy=True))

    check()
    collector.learners.update(1, str)
    check()
    collector.learners.update(2, str)
    collector.load_state_dict(other.state_dict())
    check()


@pytest.mark.variations
@pytest.mark.parametrize("body", ["mlp", "gru"])
def test_batched_training_resumes_bit_for_bit(body, tmp_path):
    learner = PPOConfig(rollout_length=8, hidden_sizes=(8,), network=body)
    config = TrainConfig(
        "SimpleTag-v0", num_envs=4, total_steps=128, sharing="agent", learner=learner, checkpoint_interval=2,
        keep_last_checkpoints=9,
        eval_episodes=0, num_threads=1,
    )  # fmt: skip
    last = Trainer(config, tmp_path / "whole").run()
    middle = checkpoint.load(last.parent / "000000002")
    resumed = checkpoint.load(Trainer(config, tmp_path / "resumed", middle).run())
    for key, value in checkpoint.load(last).state.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value.view(-1).view(torch.uint8), resumed.state[key].view(-1).view(torch.uint8)), key


def test_only_actor_critics_of_equal_shape_act_together():
    """They need equal shapes and the same number of agents; learners with a CNN or another algorithm act alone."""
    core = Identity(8)

    def sizes(algorithm: str = "ppo", sharing: str = "agent", **settings) -> list[int]:
        learner = algorithm_specs.find(algorithm).settings(**settings)
        config = TrainConfig("Identity", algorithm=algorithm, learner=learner, sharing=sharing)
        collector = Collector(config, core, LearnerGroup(config, core))
        return [
            part.actor.policies.size if isinstance(part.actor, BatchedActorCritics) else 1 for part in collector.groups
        ]

    assert sizes() == [3]
    assert sizes("a2c", network="gru") == [3]
    assert sizes(sharing="group") == [1, 1]  # two agents in one, one in the other
    assert sizes(network="cnn", image=(1, 1, 3)) == [1, 1, 1]
    assert sizes("dqn") == [1, 1, 1]


def test_whole_batch_is_not_copied():
    batch = {"obs": torch.zeros(4, 2), "raw_obs": torch.zeros(4, 2)}
    part = minibatch(batch, None, None)
    assert part["obs"] is batch["obs"]
    assert part.keys() == {"obs", "seen"}

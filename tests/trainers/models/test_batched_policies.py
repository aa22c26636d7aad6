"""Crews: several policies that answer, and several learners that act, in one batched call as they do one by one."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from toy_core import Corridor, Identity, Recall

from trainers import algorithms, checkpoint, collector
from trainers.acting import Acting, ActingTogether
from trainers.advantages import minibatch
from trainers.collector import Collector
from trainers.config import TrainConfig, make_core
from trainers.crew import Crew, alike
from trainers.evaluate import Cast, play
from trainers.loop import Trainer
from trainers.ppo import PPO, PPOConfig
from trainers.problem import Problem
from trainers.seats import Part, make_seats

SPACES = {
    "discrete": spaces.Discrete(5),
    "multi": spaces.MultiDiscrete([3, 2]),
    "box": spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([3.0, 1.0], np.float32)),
}


def policies(count: int, space: str = "discrete", **settings) -> list:
    """Policies of random weights, normalisers and deviations."""
    made = []
    for seed in range(count):
        learner = PPO(PPOConfig(hidden=(8, 6), **settings), Problem(4, SPACES[space], 5, 3, 100, seed=seed))
        generator = torch.Generator().manual_seed(seed)
        learner.net.normalizer.update(torch.randn((50, 4), generator=generator) * (1 + seed) + seed)
        for parameter in learner.net.parameters():
            parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
        made.append(learner.policy())
    return made


@pytest.mark.parametrize("body", ["mlp", "gru"])
@pytest.mark.parametrize("space", SPACES)
def test_a_crew_answers_as_each_alone(space, body):
    alone = policies(3, space, body=body)
    crew = Crew(alone)
    memory = alone[0].memory(3, 5, 3)
    memories = [policy.memory(5, 3) for policy in alone]
    generator = torch.Generator().manual_seed(9)
    for _ in range(4):
        obs = torch.randn((3, 5, 3, 6), generator=generator)  # wider than what they see
        mask = torch.rand((3, 5, 3, 5), generator=generator) < 0.7 if space == "discrete" else None
        together = crew.act(obs, mask, greedy=True, memory=memory)
        for i, policy in enumerate(alone):
            single = policy.act(obs[i], None if mask is None else mask[i], greedy=True, memory=memories[i])
            torch.testing.assert_close(together[i], single)
            if memory is not None:
                torch.testing.assert_close(memory[i], memories[i])


def test_the_samples_of_a_crew_follow_each_policys_probabilities():
    alone = policies(2)
    crew = Crew(alone)
    crew.generator.manual_seed(3)
    obs = torch.tensor([[0.5, -1.0, 2.0, 0.0]]).expand(2, 20_000, 1, 4)
    drawn = crew.act(obs)
    for i, policy in enumerate(alone):
        wanted = policy.actor(policy.normalizer(obs[i, 0, 0])).softmax(-1)
        got = torch.bincount(drawn[i].flatten(), minlength=5) / 20_000
        torch.testing.assert_close(got, wanted, atol=0.015, rtol=0.0)
    box = Crew(policies(2, "box"))
    spread = box.head.log_std.exp().flatten(0, 2)
    drawn = box.head.sample(torch.zeros(2, 20_000, 1, 2), box.generator, None)[0]
    torch.testing.assert_close(drawn.std((1, 2)), spread, atol=0.0, rtol=0.03)


def test_who_is_alike():
    one, other = policies(2)
    assert alike(one, other)
    assert not alike(one, policies(1, "multi")[0])
    assert not alike(one, policies(1, activation="relu")[0])
    picture = policies(1, body="cnn", image=(1, 2, 2))[0]
    assert not alike(picture, picture)
    assert not alike(one, object())


@pytest.mark.parametrize(("core", "body"), [(Corridor, "mlp"), (Recall, "gru")])
def test_a_cast_asks_policies_of_one_shape_as_one(core, body):
    """With a policy for every agent, greedy play is that of the policies one by one."""
    made = core(6)
    config = TrainConfig("Toy", num_envs=6, sharing="agent", learner=PPOConfig(hidden=(8,), body=body))
    seats = make_seats(config, made)
    players = {name: seat.learner.policy() for name, seat in seats.items()}
    cast = Cast(made, players)
    assert len(cast.parts) == 1
    obs, info = made.reset(seed=1)
    memories = {name: policy.memory(6, 1) for name, policy in players.items()}
    for _ in range(6):
        wanted = []
        for row, (name, policy) in enumerate(players.items()):
            if memories[name] is not None:
                memories[name].masked_fill_((made.steps == 0)[:, None, None], 0.0)
            wanted.append(policy.act(obs[:, row : row + 1], greedy=True, memory=memories[name]))
        action = cast.act(obs, info, greedy=True)
        for row, memory in enumerate(memories.values()):
            if memory is not None:
                torch.testing.assert_close(cast.parts[0].memory[row], memory)
        assert torch.equal(action, torch.cat(wanted, 1))
        obs, _, _, _, info = made.step(action)


def test_a_cast_keeps_masks_and_numbers_of_agents_apart():
    core = Identity(8, masked=True)
    seats = make_seats(TrainConfig("Identity", num_envs=8), core)
    players = {name: seat.learner.policy() for name, seat in seats.items()}
    assert len(Cast(core, players).parts) == 2  # two agents in one group, one in the other
    seats = make_seats(TrainConfig("Identity", num_envs=8, sharing="agent"), core)
    players = {name: seat.learner.policy() for name, seat in seats.items()}
    assert len(Cast(core, players).parts) == 1
    one, two = (play(core, players, seed=2) for _ in range(2))  # the toy asserts that every action is legal
    assert one == two


# -------------------------------------------------------------------------------------------------------- in training

TOYS = {"Identity": Identity, "Corridor": Corridor}
TRAININGS = {
    "ppo": ("SimpleSpread-v0", "ppo", {}),
    "a2c, with dead agents": ("Corridor", "a2c", {}),
    "masks, rows apart": ("Identity", "ppo", {}),
    "memory": ("SimpleSpread-v0", "ppo", {"body": "gru"}),
    "state": ("SimpleSpread-v0", "mappo", {}),
    "turns": ("TicTacToe-v0", "ppo", {}),
    "continuous actions": ("TagContinuous-v0", "ppo", {}),
    "squashed": ("TagContinuous-v0", "ppo", {"squash": True}),
}


def training(case: str) -> Collector:
    """One policy for each agent; rollouts go beyond the ends of episodes."""
    env_id, algorithm, learner = TRAININGS[case]
    env = {"num_taggers": 1, "num_runners": 2} if env_id == "TagContinuous-v0" else {}
    length = 30 if env_id == "SimpleSpread-v0" else 7
    learner = algorithms.find(algorithm).settings(**{"hidden": (8, 6), "rollout_length": length, **learner})
    config = TrainConfig(
        env_id, env, algorithm=algorithm, learner=learner, num_envs=6, total_steps=10_000, sharing="agent", seed=5
    )
    core = TOYS[env_id](6, **{"masked": True} if "masks" in case else {}) if env_id in TOYS else make_core(config, 6, 5)
    return Collector(config, core)


def one_by_one(seats, core) -> list[Part]:
    return [Part(seat.agents, seat.learner, seat.whole) for seat in seats.values()]


@pytest.mark.parametrize("case", TRAININGS)
def test_learners_of_one_shape_act_and_store_as_one_by_one(case, monkeypatch):
    """The same samples of the same streams, and the same log-probabilities, observations, states, memories, ends."""
    together = training(case)
    with monkeypatch.context() as patch:
        patch.setattr(collector, "make_parts", one_by_one)
        alone = training(case)
    assert any(isinstance(part.answers, ActingTogether) for part in together.parts)
    assert not any(isinstance(part.answers, ActingTogether) for part in alone.parts)
    for iteration, apart in enumerate((2e-6, 1e-5, 1e-5)):
        alone.collect()
        together.collect()
        for name, seat in together.seats.items():
            learner, other = seat.learner, alone.seats[name].learner
            got, wanted = vars(learner.rollout), vars(other.rollout)
            assert got.keys() == wanted.keys()
            for key in sorted(got.keys() - {"final_obs", "device", "t"}):
                torch.testing.assert_close(got[key], wanted[key], atol=apart, rtol=apart, msg=f"{name}.{key}")
            torch.testing.assert_close(learner.rollout.next_obs(), other.rollout.next_obs(), atol=apart, rtol=apart)
            if learner.acting.memory is not None:
                got, wanted = learner.acting.memory.actor_next, other.acting.memory.actor_next
                torch.testing.assert_close(got, wanted, atol=apart, rtol=apart)
        together.update(iteration, str)
        alone.update(iteration, str)
        got, wanted = together.state_dict(), alone.state_dict()
        assert got.keys() == wanted.keys()
        for key in (key for key in got if key.startswith("learner.")):
            torch.testing.assert_close(got[key], wanted[key], atol=1e-4, rtol=1e-3, msg=key)


def test_nobody_is_asked_alone(monkeypatch):
    """However many policies there are, a step is one call."""
    made = training("ppo")
    assert len(made.parts) == 1
    monkeypatch.setattr(Acting, "act", None)
    made.collect()
    assert all(seat.learner.rollout.log_prob.all() for seat in made.seats.values())


def test_learners_of_a_crew_own_what_they_learn():
    """Weights on disk and in policies are no views of anything shared, and rollouts lie in one piece."""
    made = training("memory")
    made.collect()
    made.update(1, str)
    for seat in made.seats.values():
        for tensor in (*seat.learner.net.state_dict().values(), *seat.learner.policy().net.state_dict().values()):
            assert tensor.untyped_storage().nbytes() == tensor.nbytes
        assert all(value.is_contiguous() for value in vars(seat.learner.rollout).values() if hasattr(value, "t"))


def test_a_crew_plays_with_what_was_learned_last():
    """After an update and after a resume, without a new crew."""
    made, other = training("ppo"), training("ppo")
    (part,) = made.parts
    before = part.answers.crew.actor.body[0].weight
    generator = torch.Generator().manual_seed(1)
    other.collect()
    other.update(1, str)

    def check() -> None:
        made.collect()
        assert part.answers.crew.actor.body[0].weight is before  # where a recorded rollout looks for it
        obs = torch.randn((3, 6, 1, made.core.obs_width), generator=generator)
        got = part.answers.crew.act(obs, greedy=True)
        outputs = part.answers.crew._outputs(obs, None)
        for i, seat in enumerate(made.seats.values()):
            policy = seat.learner.policy()
            torch.testing.assert_close(outputs[i], policy.actor(policy.inputs(obs[i])), atol=1e-6, rtol=1e-6)
            assert torch.equal(got[i], policy.act(obs[i], greedy=True))

    check()
    made.update(1, str)
    check()
    made.update(2, str)
    made.load_state_dict(other.state_dict())
    check()


@pytest.mark.parametrize("body", ["mlp", "gru"])
def test_a_crew_resumes_bit_for_bit(body, tmp_path):
    learner = PPOConfig(rollout_length=8, hidden=(8,), body=body)
    config = TrainConfig(
        "SimpleTag-v0", num_envs=4, total_steps=128, sharing="agent", learner=learner, checkpoint_every=2, keep_last=9,
        eval_episodes=0, threads=1,
    )  # fmt: skip
    last = Trainer(config, tmp_path / "whole").run()
    middle = checkpoint.load(last.parent / "000000002")
    resumed = checkpoint.load(Trainer(config, tmp_path / "resumed", middle).run())
    for key, value in checkpoint.load(last).state.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value.view(-1).view(torch.uint8), resumed.state[key].view(-1).view(torch.uint8)), key


def test_who_acts_together():
    """Actor-critics of one shape with equally many agents each; not what has a CNN or acts in a way of its own."""
    core = Identity(8)

    def sizes(algorithm: str = "ppo", sharing: str = "agent", **settings) -> list[int]:
        learner = algorithms.find(algorithm).settings(**settings)
        made = Collector(TrainConfig("Identity", algorithm=algorithm, learner=learner, sharing=sharing), core)
        return [part.answers.crew.size if isinstance(part.answers, ActingTogether) else 1 for part in made.parts]

    assert sizes() == [3]
    assert sizes("a2c", body="gru") == [3]
    assert sizes(sharing="group") == [1, 1]  # two agents in one, one in the other
    assert sizes(body="cnn", image=(1, 1, 3)) == [1, 1, 1]
    assert sizes("dqn") == [1, 1, 1]


def test_a_batch_as_a_whole_is_not_copied():
    batch = {"obs": torch.zeros(4, 2), "raw_obs": torch.zeros(4, 2)}
    part = minibatch(batch, None, None)
    assert part["obs"] is batch["obs"]
    assert part.keys() == {"obs", "seen"}

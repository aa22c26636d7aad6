"""Presets reach what they are held to: Tag on both sides, CartPole, Pendulum, a speaker and its listener."""

import dataclasses

import pytest
import torch

from trainers.config import make_eval_core
from trainers.evaluate import play
from trainers.loop import Trainer
from trainers.presets import preset

EPISODES = 256


@pytest.mark.learning
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_both_sides_of_tag_beat_random(seed, tmp_path):
    """Cross-play against random opponents, 95 % intervals apart from random play's."""
    config = dataclasses.replace(preset("TagContinuous-v0", "cpu"), seed=seed, eval_episodes=0)
    trainer = Trainer(config, tmp_path)
    trainer.run()
    assert trainer.seconds <= 180, "two CPU cores learn it within three minutes"
    config.use_threads()
    core = make_eval_core(config, EPISODES, seed=1234)
    policy = {name: seat.learner.policy() for name, seat in trainer.seats.items()}
    chance = play(core, {"tagger": None, "runner": None}, seed=1)
    hunted = play(core, {"tagger": policy["tagger"], "runner": None}, seed=1)
    fled = play(core, {"tagger": None, "runner": policy["runner"]}, seed=1)

    by_chance, left, saved = (outcome.survivors["runner"] for outcome in (chance, hunted, fled))
    assert left.mean + left.half < by_chance.mean - by_chance.half, f"{left} survivors of trained taggers, {by_chance}"
    assert saved.mean - saved.half > by_chance.mean + by_chance.half, f"{saved} trained survivors, {by_chance}"
    earned, usual = hunted.returns["tagger"], chance.returns["tagger"]
    assert earned.mean - earned.half > usual.mean + usual.half, f"trained taggers earn {earned}, random ones {usual}"


@pytest.mark.learning
@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_cartpole_is_solved(algorithm, tmp_path):
    """The preset holds the pole up: Gymnasium calls a mean return of 475 solved."""
    config = dataclasses.replace(preset("CartPole-v1", "cpu", algorithm), seed=0, eval_episodes=0)
    trainer = Trainer(config, tmp_path)
    trainer.run()
    policy = trainer.seats["agent"].learner.policy()
    outcome = play(make_eval_core(config, EPISODES, seed=1234), {"agent": policy}, seed=1)
    assert outcome.returns["agent"].mean >= 475, outcome


@pytest.mark.learning
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_dqn_holds_the_pole_up(seed, tmp_path):
    """The last greedy policy, not the best on the way."""
    config = dataclasses.replace(preset("CartPole-v1", "cpu", "dqn"), seed=seed, eval_episodes=0)
    trainer = Trainer(config, tmp_path)
    trainer.run()
    policy = trainer.seats["agent"].learner.policy()
    outcome = play(make_eval_core(config, EPISODES, seed=1234), {"agent": policy}, seed=1)
    assert outcome.returns["agent"].mean >= 400, outcome


@pytest.mark.learning
@pytest.mark.parametrize("algorithm", ["sac", "td3", "ddpg"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_pendulum_swings_up(algorithm, seed, tmp_path):
    """A mean return of -200 is what the learners of a continuous action are held to; random play gets -1200."""
    config = dataclasses.replace(preset("Pendulum-v1", "cpu", algorithm), seed=seed, eval_episodes=0)
    trainer = Trainer(config, tmp_path)
    trainer.run()
    policy = trainer.seats["agent"].learner.policy()
    outcome = play(make_eval_core(config, EPISODES, seed=1234), {"agent": policy}, seed=1, greedy=True)
    earned = outcome.returns["agent"]
    assert earned.mean - earned.half >= -200, outcome


class Centre:
    """A listener that goes where it loses least without knowing which landmark is meant: to the middle of them."""

    def seed(self, seed):
        pass

    def memory(self, *shape):
        return None

    def act(self, obs, mask=None, greedy=False, memory=None):
        velocity, way = obs[..., :2], obs[..., 2:8].unflatten(-1, (3, 2)).mean(-2)
        pushes = torch.tensor([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]]) * 0.5
        speed = 0.75 * velocity.unsqueeze(-2) + pushes
        stops = speed * 0.1 * (1 - 0.75**5) / 0.25  # where it rolls to in the next steps
        return (way.unsqueeze(-2) - stops).square().sum(-1).argmin(-1)


@pytest.mark.learning
def test_a_speaker_is_understood(tmp_path):
    """MADDPG earns more than any listener could who does not understand, whose loss is least in the middle."""
    config = dataclasses.replace(preset("SimpleSpeakerListener-v0", "cpu", "maddpg"), seed=0, eval_episodes=0)
    trainer = Trainer(config, tmp_path)
    trainer.run()
    core = make_eval_core(config, 4 * EPISODES, seed=1234)
    talk = play(core, {name: seat.learner.policy() for name, seat in trainer.seats.items()}, seed=1, greedy=True)
    deaf = play(core, {"listener": Centre()}, seed=1).returns["listener"]
    chance = play(core, {}, seed=1).returns["listener"]
    earned = talk.returns["listener"]
    assert deaf.mean > chance.mean + 20
    assert earned.mean - earned.half > deaf.mean + deaf.half, f"{earned}, without understanding {deaf}"

"""Presets reach what they are held to: Tag on both sides, CartPole, Pendulum, a speaker and its listener."""

import dataclasses

import pytest

from trainers.config import make_eval_core
from trainers.evaluate import play
from trainers.loop import Trainer
from trainers.presets import preset
from trainers.scripted import DeafListener

EPISODES = 256


@pytest.mark.learning
@pytest.mark.parametrize("seed", [0, 1])
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
def test_dqn_holds_the_pole_up(tmp_path):
    """The last greedy policy, not the best on the way. Bars with more seeds: benchmarks/bars.py."""
    config = dataclasses.replace(preset("CartPole-v1", "cpu", "dqn"), seed=0, eval_episodes=0)
    trainer = Trainer(config, tmp_path)
    trainer.run()
    policy = trainer.seats["agent"].learner.policy()
    outcome = play(make_eval_core(config, EPISODES, seed=1234), {"agent": policy}, seed=1)
    earned = outcome.returns["agent"]
    assert earned.mean - earned.half >= 400, outcome


@pytest.mark.learning
def test_a_spread_team_covers_its_landmarks(tmp_path):
    """MAPPO in a quarter of the steps after which IPPO with JaxMARL's settings gets -59.5, see docs/learning.md."""
    config = preset("SimpleSpread-v0", "cpu", "mappo")
    trainer = Trainer(dataclasses.replace(config, total_steps=250_000, seed=0, eval_episodes=0), tmp_path)
    trainer.run()
    policy = trainer.seats["agent"].learner.policy()
    earned = play(make_eval_core(config, EPISODES, seed=1234), {"agent": policy}, seed=1).returns["agent"]
    assert earned.mean - earned.half >= -59.5, earned


@pytest.mark.learning
@pytest.mark.parametrize(("algorithm", "seed"), [("sac", 0), ("td3", 1), ("ddpg", 2)])
def test_the_pendulum_swings_up(algorithm, seed, tmp_path):
    """A mean return of -200 is what the learners of a continuous action are held to; random play gets -1200."""
    config = dataclasses.replace(preset("Pendulum-v1", "cpu", algorithm), seed=seed, eval_episodes=0)
    trainer = Trainer(config, tmp_path)
    trainer.run()
    policy = trainer.seats["agent"].learner.policy()
    outcome = play(make_eval_core(config, EPISODES, seed=1234), {"agent": policy}, seed=1, greedy=True)
    earned = outcome.returns["agent"]
    assert earned.mean - earned.half >= -200, outcome


@pytest.mark.learning
def test_a_speaker_is_understood(tmp_path):
    """MADDPG earns more than any listener could who does not understand, whose loss is least in the middle."""
    config = dataclasses.replace(preset("SimpleSpeakerListener-v0", "cpu", "maddpg"), seed=0, eval_episodes=0)
    trainer = Trainer(config, tmp_path)
    trainer.run()
    core = make_eval_core(config, 4 * EPISODES, seed=1234)
    talk = play(core, {name: seat.learner.policy() for name, seat in trainer.seats.items()}, seed=1, greedy=True)
    deaf = play(core, {"listener": DeafListener()}, seed=1).returns["listener"]
    chance = play(core, {}, seed=1).returns["listener"]
    earned = talk.returns["listener"]
    assert deaf.mean > chance.mean + 20
    assert earned.mean - earned.half > deaf.mean + deaf.half, f"{earned}, without understanding {deaf}"


@pytest.mark.learning
def test_both_sides_of_simple_tag_beat_random(tmp_path):
    """Cross-play against random opponents, 95 % intervals apart. Three seeds: benchmarks/bars.py."""
    config = preset("SimpleTag-v0", "cpu")
    config = dataclasses.replace(config, eval_episodes=0, threads=1)
    trainer = Trainer(config, tmp_path)
    trainer.run()
    core = make_eval_core(config, 4 * EPISODES, seed=1234)
    policy = {name: seat.learner.policy() for name, seat in trainer.seats.items()}
    chance = play(core, {"adversary": None, "agent": None}, seed=1)
    hunting = play(core, {"adversary": policy["adversary"], "agent": None}, seed=1).returns["adversary"]
    fleeing = play(core, {"adversary": None, "agent": policy["agent"]}, seed=1).returns["agent"]
    for earned, usual in ((hunting, chance.returns["adversary"]), (fleeing, chance.returns["agent"])):
        assert earned.mean - earned.half > usual.mean + usual.half, f"trained {earned}, random {usual}"

"""Leagues whose players begin with the policies of a training, as in AlphaStar with policies of supervised learning."""

import torch

from gpu_envs.__main__ import main
from league.storage.run_store import RunStore
from trainers.algorithms import algorithm_specs
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer

ENV = {"max_cycles": 5}


def test_players_of_a_league_begin_with_the_policies(tmp_path, capsys):
    """Their first weights, to which exploiters return, come from the training."""
    small = {"rollout_length": 4, "hidden_sizes": (8,), "num_epochs": 1, "num_minibatches": 1}
    learner = algorithm_specs.find("ppo").settings(**small)
    trainer = Trainer(
        TrainConfig("SimpleTag-v0", ENV, 4, total_steps=64, learner=learner, num_threads=1, eval_episodes=0),
        tmp_path / "trained",
    )
    trainer.run()
    trained = {name: assignment.learner.net.state_dict() for name, assignment in trainer.assignments.items()}
    words = "--env-arg max_cycles=5 --algorithm alphastar --iterations 1 --steps 16 --device cpu"
    argv = ["league", "train", "SimpleTag-v0", *words.split(), "--init-from", str(tmp_path / "trained")]
    argv += ["--episodes-per-matchup", "2", "--run-dir", str(tmp_path / "league")]
    for setting in ("num_envs=4", "num_threads=1", *(f"learner.{name}={value}" for name, value in small.items())):
        argv += ["--train-overrides", setting.replace("(8,)", "[8]")]
    assert main(argv) == 0, capsys.readouterr().err
    with RunStore.open(tmp_path / "league", write=False) as store:
        players = [player for player in store.state_names() if player.startswith("first.")]
        assert len(players) >= 4
        for name in players:
            role = "adversary" if "adversary" in name else "agent"
            first = store.state(name, "cpu")
            weights = trained[role]["actor.body.0.weight"]
            assert any(torch.equal(value, weights) for value in first.values() if value.shape == weights.shape)

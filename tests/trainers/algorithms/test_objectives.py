"""Objectives: the page "Change the loss", and its kernel head against PyTorch's gradients."""

import sys
import types
from pathlib import Path

import pytest
from network_cases import Minibatch, Network, assert_close

from docs.scripts import notebook
from trainers.cli.train import train_command

PAGE = Path(__file__).parents[3] / "docs" / "tutorials" / "change_the_loss.md"


@pytest.fixture
def kl_ppo(monkeypatch):
    """Return the module of the page."""
    module = types.ModuleType("kl_ppo")
    monkeypatch.setitem(sys.modules, "kl_ppo", module)
    notebook.run(PAGE, notebook.PYTHON, space=vars(module))
    return module


def test_head_of_the_page_has_the_gradients_and_metrics_of_its_loss(kl_ppo):
    network = Network(3, (4,), "tanh", "categorical", (3,), objective=kl_ppo.Learner.objective)
    assert network.metrics[-1] == "kl_penalty"
    minibatch = Minibatch(network, 3, 200, valid=0.8)
    assert_close(minibatch.rows(), minibatch.torch())
    penalized, _ = minibatch.rows()
    minibatch.settings["kl_coef"] = 0.0
    plain, _ = minibatch.rows()
    assert float((penalized - plain).abs().max()) > 1e-3


@pytest.mark.parametrize("head", [False, True])
def test_learner_of_the_page_trains_by_the_engine_that_the_page_names(head, kl_ppo, tmp_path, capsys, monkeypatch):
    from trainers.algorithms.on_policy import kernel_engine

    monkeypatch.setattr(kernel_engine, "MIN_TRAINING_OPERATIONS", 0)
    if not head:
        kl_ppo.Learner = type("Learner", (kl_ppo.PPO,), {"objective": kl_ppo.KLObjective()})
    options = ["CartPole-v1", "--algorithm", "kl_ppo:Learner", "--num-envs", "4", "--total-steps", "256"]
    options += ["--eval-episodes", "0", "--run-dir", str(tmp_path / "run"), "--allow-import", "kl_ppo"]
    options += ["--learner.kl-coef", "1.0", "--learner.rollout-length", "8", "--learner.hidden-sizes", "5"]
    assert train_command(options) == 0
    first = capsys.readouterr().out.splitlines()[0]
    expected = "engine kernel" if head else "engine torch (kernels compute ClippedObjective.loss, not KLObjective.loss)"
    assert expected in first
    assert expected.removeprefix("engine ") in PAGE.read_text().replace("\n", " ")
    assert "kl_penalty" in (tmp_path / "run" / "metrics.csv").read_text().splitlines()[0]

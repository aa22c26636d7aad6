"""The scripts in examples/ that need nothing more than this library; the others are tested in tests/libraries."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def script(name):
    """Return a script as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_plain_torch_runs():
    returns = script("torch_ppo").train(iterations=2, num_envs=8, device="cpu")
    assert len(returns) == 2


@pytest.mark.learning
def test_plain_torch_learns():
    returns = script("torch_ppo").train(iterations=34, device="cpu")
    assert sum(returns[-3:]) > 2 * sum(returns[:3])


@pytest.mark.parametrize("name", ["torch_ppo", "lightning_ppo"])
def test_single_files_are_read_at_a_glance(name):
    assert len((EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 60

"""Checkpoints compared, for tests of several rooms."""

import csv
from pathlib import Path

import torch

from trainers.storage import checkpoint


def iterations_of(out: Path) -> list[int]:
    with (out / "metrics.csv").open() as file:
        return [int(row["iteration"]) for row in csv.DictReader(file)]


def assert_equal_checkpoints(left: Path, right: Path) -> None:
    """Assert that every tensor and counter is equal bit for bit, except for the seconds."""
    first, second = checkpoint.load(left), checkpoint.load(right)
    assert (first.iteration, first.steps, first.score) == (second.iteration, second.steps, second.score)
    assert first.state.keys() == second.state.keys()
    for name, value in first.state.items():
        other = second.state[name]
        if isinstance(value, torch.Tensor) and isinstance(other, torch.Tensor):
            assert torch.equal(value.view(-1).view(torch.uint8), other.view(-1).view(torch.uint8)), name
        elif name != "trainer.seconds":
            assert value == other, name

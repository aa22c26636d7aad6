"""A module of a user in the working folder, for tests of options that take "module:NAME"."""

import sys

import pytest

from gpu_envs.definition import id_modules

TEXT = """
import math
import torch
from league.psro.oracles import LearnedOracle, ExactOracle
from league.psro.variants.standard import StandardVariant

rows = []

def record(row):
    rows.append(row)

def late(progress):
    return float(progress >= 1)

def without_number(progress):
    return math.nan

def agent_steps(episodes):
    return episodes.length * len(episodes.agents)

def mean_length(episodes):
    return episodes.length.float().mean()

def episode_length_mean(episodes):
    return episodes.length

def two_arguments(first, second):
    pass

def last(payoffs):
    return [torch.eye(size)[-1] for size in payoffs.shape[1:]]

def one_seat(payoffs):
    return [[1.0]]

def negative(payoffs):
    return [[2.0] + [-1.0] * (size > 1) for size in payoffs.shape[1:]]

def newest(win_rates):
    return [float(index + 1 == len(win_rates)) for index in range(len(win_rates))]

def too_many(win_rates):
    return [1.0] * (len(win_rates) + 1)

class Net(torch.nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.layers = torch.nn.Linear(spec.width, spec.outputs)

    def forward(self, obs, mask, hidden):
        return self.layers(obs), hidden

class Announcing(StandardVariant):
    def tasks(self, context):
        rows.append(context.iteration)
        return super().tasks(context)

class Again(ExactOracle):
    def best_response(self, context, task):
        rows.append(task.role)
        return super().best_response(context, task)

number = 3
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Return the name of a module in the working folder that is not imported, and search only named modules there."""
    (tmp_path / "mine.py").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*filter(None, sys.path)])
    monkeypatch.setattr(id_modules, "_named", {})
    yield "mine"
    sys.modules.pop("mine", None)

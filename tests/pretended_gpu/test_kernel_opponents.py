"""Trainings against opponents inside kernels on the pretended GPU."""

import pytest
import torch

from gpu_envs.errors import ConfigError
from league.game import Game
from league.matchups.best_response import BestResponseTraining
from league.matchups.matchup_distribution import MatchupDistribution
from league.policies.random import RandomPolicy
from pretended_gpu.runs import assert_equal_states, configuration, on_host
from trainers.algorithms.on_policy import kernel_engine
from trainers.models.kernel_networks import kernel_policies
from trainers.runner.collector import Collector

GAME = Game.of("KuhnPoker-v0")
ROLE = "player_0"


@pytest.fixture
def captures(monkeypatch):
    """Collectors that captured a rollout, in order."""
    collectors, capture = [], Collector._capture

    def counted(self):
        collectors.append(self)
        return capture(self)

    monkeypatch.setattr(Collector, "_capture", counted)
    return collectors


def draw_of(pools):
    """Return equal chances of all policies."""
    chances = [torch.ones(len(pools[role]), dtype=torch.float64) / len(pools[role]) for role in GAME.roles]
    return MatchupDistribution.against(GAME, ROLE, chances)


def make_training(extra=(), width=8, engine="kernel"):
    """Return a training against a random policy and `extra` ones."""
    config = configuration(GAME.env_id, "ppo", "cuda:0", {"hidden_sizes": (width,)}, engine=engine, num_envs=32)
    pools = {role: [RandomPolicy.of(GAME, role, device="cuda:0")] for role in GAME.roles}
    pools["player_1"] += extra
    return BestResponseTraining(GAME, draw_of(pools), pools, config)


def network(width=8):
    """Return a network of random weights."""
    return make_training(width=width).learner(ROLE).policy()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["kernel", "auto"])
def test_league_rollout_is_captured_once_and_equals_one_without_graphs(engine, gpu, captures, monkeypatch):
    monkeypatch.setattr(kernel_engine, "MIN_TRAINING_OPERATIONS", 0)
    runs = [make_training([network()], engine=engine) for _ in range(2)]
    assert runs[0].learners.engines == {ROLE: "kernel" if engine == "kernel" else "rollouts kernel, gradients torch"}
    runs[1].collector.uses_cuda_graph = False  # its updates are captured
    for number in range(3):
        for run in runs:
            run.iterate()
        assert captures == [runs[0].collector], f"rollout {number}"
        matchups = [run.collector.kernels.trace.matchup.cpu() for run in runs]
        assert torch.equal(*matchups), f"rollout {number}"
    assert runs[0].collector.kernels.plan is not None
    assert len(matchups[0].unique()) > 1
    assert_equal_states(*(on_host(run.state_dict()) for run in runs))


@pytest.mark.slow
def test_league_rollout_is_captured_again_for_a_policy_of_another_kind(gpu, captures):
    run = make_training()
    run.iterate()
    pools = {**run.opponents.pools, "player_1": [*run.opponents.pools["player_1"], network(width=16)]}
    run.opponents.replace(draw_of(pools), pools)
    run.iterate()
    run.iterate()
    assert captures == [run.collector] * 2


@pytest.mark.usefixtures("gpu")
def test_policy_on_another_device_is_refused():
    policies = kernel_policies([network()], torch.device("cuda:0"))
    core = GAME.core(4)
    core.reset(seed=0)
    with pytest.raises(ConfigError, match="KernelPolicy: expected weights on cpu, got weights on cuda:0"):
        core.rollout({"player": policies[0]}, 2)

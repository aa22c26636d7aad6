"""Evaluations inside the kernels count what evaluations step by step count."""

import climbers
import numpy as np
import pytest
import torch
from toy import announce

import gpu_envs
from gpu_envs.errors import ConfigError, GpuEnvsError
from trainers.algorithms import algorithm_specs
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.agent_group import make_agent_group
from trainers.base.learner_spec import LearnerSpec
from trainers.evaluation.cross_play import cross_play
from trainers.evaluation.kernel_episodes import KernelPlayers
from trainers.evaluation.policy_evaluation import evaluate_policies
from trainers.models.kernel_networks import kernel_policies

LEAVING = {"num_taggers": 2, "num_runners": 3, "grid_length": 4.0, "max_episode_steps": 20}


def make_core(env_id, num_envs, **settings):
    return gpu_envs.make(env_id, num_envs=num_envs, device="cpu", reuse_buffers=True, **settings).core


def network(core, member, seed=0, spread=1.0):
    agents = make_agent_group(core, [member])
    config = PPOConfig(hidden_sizes=(8,))
    learner = PPO(config, LearnerSpec(agents.obs_width, agents.space, 1, 1, 100, seed=seed))
    generator = torch.Generator().manual_seed(seed)
    for parameter in learner.net.parameters():
        parameter.data += spread * torch.randn(parameter.shape, generator=generator)
    return learner.policy()


def players_of(core):
    return {group: network(core, group, seed) for seed, group in enumerate(core.groups)}


CASES = [
    ("SimpleTag-v0", {}),
    ("CartPole-v1", {}),
    ("SimpleSpread-v0", {"continuous_actions": True}),
    ("TagContinuous-v0", LEAVING),
    ("LeducPoker-v0", {}),
    ("CartPole-v1", {"autoreset": "next_step"}),
    ("SimpleTag-v0", {"schedule": "phased"}),
]


@pytest.mark.variations
@pytest.mark.parametrize(("env_id", "settings"), CASES, ids=str)
def test_greedy_evaluation_equals_the_one_step_by_step(env_id, settings):
    core = make_core(env_id, 30, **settings)
    players = players_of(core)
    result, other = (evaluate_policies(core, players, 7, greedy=True, engine=engine) for engine in ("kernel", "torch"))
    assert result.leaves == other.leaves
    for name in ("returns", "survivors"):
        for group in core.groups:
            first, second = getattr(result, name)[group], getattr(other, name)[group]
            assert (first.mean, first.half) == pytest.approx((second.mean, second.half), rel=1e-3, abs=1e-3)
    assert result.length.mean == pytest.approx(other.length.mean, rel=1e-3)


@pytest.mark.parametrize("schedule", ["fused", "phased"])
def test_declared_results_are_those_at_the_end_of_each_agent(monkeypatch, schedule):
    announce(monkeypatch, "Climbers-v0", climbers)
    core = make_core("Climbers-v0", 40, top=4, schedule=schedule)
    players = players_of(core)
    result = evaluate_policies(core, players, 7, greedy=True, engine="kernel", last_info=core.definition.results)
    other = evaluate_policies(core, players, 7, greedy=True, engine="torch", last_info=core.definition.results)
    assert result.last_info == other.last_info
    assert result.last_info["height"]["climber"].mean == result.returns["climber"].mean / 2 > 0  # return = height
    policy = network(core, "climber")
    trace = core.rollout({"climber": kernel_policies([policy], core.device, 0)[0]}, 12)
    done = trace.terminated | trace.truncated
    assert done.any()
    assert torch.equal(trace.episode_results[..., 0][done], trace.episode_return[done].float())


@pytest.mark.parametrize(
    ("env_id", "algorithm", "settings"),
    [
        ("CartPole-v1", "dqn", {"dueling": True}),
        ("Pendulum-v1", "td3", {}),
        pytest.param("LeducPoker-v0", "dqn", {}, marks=pytest.mark.slow),
    ],
)
def test_evaluation_of_policies_without_chance_equals_the_one_step_by_step(env_id, algorithm, settings):
    core = make_core(env_id, 30)
    players, find = {}, algorithm_specs.find(algorithm)
    for seed, group in enumerate(core.groups):
        agents = make_agent_group(core, [group])
        config = find.settings(hidden_sizes=(8,), replay_size=100, **settings)
        players[group] = find.learner_type(
            config, LearnerSpec(agents.obs_width, agents.space, 1, 1, 10, seed=seed)
        ).policy()
    result, other = (evaluate_policies(core, players, 7, engine=engine) for engine in ("kernel", "torch"))
    for group in core.groups:
        first, second = result.returns[group], other.returns[group]
        assert (first.mean, first.half) == pytest.approx((second.mean, second.half), rel=1e-3, abs=1e-3)


@pytest.mark.slow
def test_sampled_evaluations_agree_within_their_intervals():
    core = make_core("SimpleTag-v0", 500)
    players = players_of(core)
    result, other = (evaluate_policies(core, players, 7, engine=engine) for engine in ("kernel", "torch"))
    for group in core.groups:
        off = abs(result.returns[group].mean - other.returns[group].mean)
        assert off < 2 * (result.returns[group].half + other.returns[group].half)
    repeated = evaluate_policies(core, players, 7, engine="kernel")
    assert repeated == result
    assert evaluate_policies(core, players, 8, engine="kernel") != result


@pytest.mark.variations
@pytest.mark.parametrize("env_id", ["SimpleTag-v0", "LeducPoker-v0"])
def test_world_plays_the_same_in_batches_of_any_size_and_with_both_schedules(env_id):
    results = []
    for num_envs, schedule, count in ((37, "fused", 37), (64, "fused", 64), (64, "fused", 41), (37, "phased", 37)):
        core = make_core(env_id, num_envs, schedule=schedule, autoreset="disabled", threads=2)
        policies = kernel_policies(
            [network(core, agent, seed) for seed, agent in enumerate(core.possible_agents)], core.device
        )
        index = np.tile(np.arange(core.num_agents), (2, 1))
        index[0, 0] = -1
        matchup = np.arange(num_envs) % 3 % 2
        results.append(KernelPlayers(core).play_matchups(policies, index, matchup, 3, count=count))
    first = results[0]
    assert first.finished.all()
    for other in results[1:]:
        for name in ("episode_return", "episode_length", "terminated"):
            assert torch.equal(getattr(first, name), getattr(other, name)[:37])


def test_one_kernel_serves_all_matchups_of_cross_play():
    core = make_core("SimpleTag-v0", 20)
    trained, other = players_of(core), {group: network(core, group, 5) for group in core.groups}
    kernels = KernelPlayers(core, [trained, other])
    assert kernels.play(trained, 1, False, 100).finished.all()
    plan = kernels._plan
    launches = plan._fused
    for players in (other, {**trained, "adversary": None}, {**other, "agent": trained["agent"]}):
        kernels.play(players, 1, False, 100)
        assert plan._fused is launches
    sides = {group: [group] for group in core.groups}
    assert len(cross_play(core, sides, trained, other, seed=1)) == 7


def test_progress_counts_worlds_whose_episode_is_over():
    core = make_core("CartPole-v1", 40)
    reports = []
    evaluate_policies(core, players_of(core), 1, finished_so_far=reports.append, engine="kernel")
    assert reports == sorted(reports)
    assert reports[-1] == 40


def test_recorded_evaluation_plays_step_by_step():
    core = make_core("CartPole-v1", 3)
    players = players_of(core)
    with core.record_episodes(range(3)) as recorder:
        outcome = evaluate_policies(core, players, 1, engine="kernel")
        episodes = [episode for episode in recorder.take() if episode.number == 0]
    assert len(episodes) == 3
    assert sum(len(episode) for episode in episodes) / 3 == pytest.approx(outcome.length.mean)


def test_endless_episodes_and_unknown_engines_are_errors():
    core = make_core("SimpleTag-v0", 3)
    players = players_of(core)
    with pytest.raises(GpuEnvsError, match="3 of 3 episodes lasted over 10 steps"):
        evaluate_policies(core, players, seed=0, max_steps=10, engine="kernel")
    with pytest.raises(ConfigError, match="engine: expected one of auto, torch, kernel"):
        evaluate_policies(core, players, seed=0, engine="cuda")

"""Outputs of networks that are read from a memo equal those that are computed at every decision."""

import itertools

import pytest
import torch

import gpu_envs
from gpu_envs.errors import ConfigError, ResetNeededError
from gpu_envs.runtime.rollout import fused_rollout
from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from gpu_envs.runtime.rollout.policy_rollout import PolicyRollout
from gpu_envs.runtime.rollout.trace import EpisodeResults

WORLDS = 263  # no multiple of the number of shards
GAMES = pytest.mark.parametrize(
    "env_id",
    ["TicTacToe-v0", *(pytest.param(game, marks=pytest.mark.slow) for game in ("KuhnPoker-v0", "LeducPoker-v0"))],
)


def policies_of(core, count=3):
    generator = torch.Generator().manual_seed(1)
    space, policies = core.action_spaces[core.possible_agents[0]], []
    for seed in range(count):
        widths = [core.obs_width, 16, int(space.n)]
        layers = [
            (2.0 * torch.randn((out, into), generator=generator), torch.randn(out, generator=generator))
            for into, out in itertools.pairwise(widths)
        ]
        policies.append(KernelPolicy.from_tensors(layers, space, seed=seed))
    return policies


def play(env_id, schedule="fused", threads=1, policies=None, **settings):
    """Return the results of one episode per world with 3 policies in changing seats, and the launches."""
    core = gpu_envs.make(
        env_id, num_envs=WORLDS, device="cpu", autoreset="disabled", schedule=schedule, threads=threads
    ).core
    index = torch.tensor([[0, 1], [2, 0], [-1, 2]])
    matchup = torch.arange(WORLDS) // 100
    results = EpisodeResults.allocate(core)
    plan = PolicyRollout(core, policies or policies_of(core), index, results, threads, matchup=matchup, **settings)
    return repeat(plan), plan


def repeat(plan):
    core, results = plan.core, plan.trace
    results.finished.zero_()
    core.reset(seed=5)
    core.rollout(plan, 60)
    assert results.finished.all()
    return {name: getattr(results, name).clone() for name in ("episode_return", "episode_length", "terminated")}


@pytest.mark.parametrize("entries", [None, 3])
@GAMES
def test_results_with_a_memo_equal_the_phased_ones_without(env_id, entries, monkeypatch):
    """With 3 entries, observations replace one another, also among the rows that act together."""
    if entries:
        monkeypatch.setattr(fused_rollout, "memo_entries", lambda num_envs: entries)
    result, plan = play(env_id)
    expected, phased = play(env_id, schedule="phased")
    assert plan._acting.memo
    assert not phased._acting.memo
    assert result["episode_return"].unique().numel() > 1
    for name, value in expected.items():
        assert torch.equal(result[name], value), name


def test_threads_with_memos_of_their_own_play_as_one_thread(monkeypatch):
    single, _ = play("TicTacToe-v0")
    monkeypatch.setattr(fused_rollout.ThreadedRun, "__init__", forced(fused_rollout.ThreadedRun.__init__))
    threaded, plan = play("TicTacToe-v0", threads=2)
    assert len(plan._fused._commands) == 2
    for name, value in single.items():
        assert torch.equal(threaded[name], value), name


def forced(init):
    """Return an initialization of runs that use several threads."""

    def parallel(self, perform, num_parts, threads, heuristic):
        init(self, perform, num_parts, threads, heuristic, True)

    return parallel


@pytest.mark.parametrize("threads", [1, 2])
def test_memo_forgets_outputs_when_weights_change_between_launches(threads, monkeypatch):
    monkeypatch.setattr(fused_rollout.ThreadedRun, "__init__", forced(fused_rollout.ThreadedRun.__init__))
    core = gpu_envs.make("TicTacToe-v0", num_envs=1, device="cpu").core
    policies = policies_of(core)
    previous, plan = play("TicTacToe-v0", threads=threads, policies=policies)
    for policy in policies:
        policy.weights.neg_()
    after, fresh = repeat(plan), play("TicTacToe-v0", policies=policies)[0]
    assert not torch.equal(previous["episode_return"], after["episode_return"])
    assert torch.equal(fresh["episode_return"], after["episode_return"])


@pytest.mark.parametrize("autoreset", ["disabled", "same_step"])
@pytest.mark.parametrize("threads", [1, 2])
@GAMES
def test_reset_at_the_start_of_a_rollout_equals_a_reset_before_it(env_id, threads, autoreset, monkeypatch):
    if threads > 1:
        monkeypatch.setattr(fused_rollout.ThreadedRun, "__init__", forced(fused_rollout.ThreadedRun.__init__))
    cores = [
        gpu_envs.make(env_id, num_envs=WORLDS, device="cpu", seed=0, threads=threads, autoreset=autoreset).core
        for _ in range(2)
    ]
    plans = [
        PolicyRollout(core, policies_of(core), torch.tensor([0, 1]), EpisodeResults.allocate(core)) for core in cores
    ]
    # later rollouts of others, within episodes, and without a reset
    for seed, count, steps in ((5, WORLDS, 60), (6, 100, 2), (6, 200, 60), (None, WORLDS, 1)):
        for core, plan in zip(cores, plans, strict=True):
            plan.trace.start(count)
            if seed is not None and core is cores[0]:
                core.reset(seed=seed)
            elif seed is not None:
                assert plan.reset_at_start(seed)
            core.rollout(plan, steps)
        states = [core.get_state() for core in cores]
        for name, value in states[0].items():
            assert torch.equal(states[1][name], value), name
        assert torch.equal(plans[0].trace.episode_return, plans[1].trace.episode_return)


def test_rollouts_that_cannot_reset_leave_it_to_the_environments():
    for env_id, record in (("RockPaperScissors-v0", False), ("TicTacToe-v0", True)):
        core = gpu_envs.make(env_id, num_envs=2, device="cpu", autoreset="disabled").core
        plan = PolicyRollout(core, policies_of(core), torch.tensor([0, 1]), EpisodeResults.allocate(core))
        recorder = core.record_episodes([0]) if record else None
        assert not plan.reset_at_start(5)
        assert recorder is None or not recorder.closed
    core = gpu_envs.make("TicTacToe-v0", num_envs=2, device="cpu", autoreset="disabled").core
    plan = PolicyRollout(core, policies_of(core), torch.tensor([0, 1]), EpisodeResults.allocate(core))
    core.reset(seed=0)
    with pytest.raises(ConfigError, match="seed: expected an int"):
        plan.reset_at_start("five")
    core.step(core.sample_actions())  # nothing was interrupted
    core.close()
    with pytest.raises(ResetNeededError, match="this environment is closed"):
        plan.reset_at_start(5)


def test_only_episodes_of_turn_based_games_have_a_memo():
    core = gpu_envs.make("RockPaperScissors-v0", num_envs=2, device="cpu", autoreset="disabled").core
    plan = PolicyRollout(core, policies_of(core), torch.tensor([0, 1]), EpisodeResults.allocate(core))
    assert not plan._acting.memo

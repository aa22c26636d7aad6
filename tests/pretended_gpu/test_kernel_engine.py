"""Gradient steps in kernels on the pretended GPU, where blocks compute tiles of rows."""

import pytest
import torch

from gpu_envs.runtime.rollout.packed_weights import MAX_THREAD_WIDTH
from league.game import Game
from league.matchups.kernel_matchups import plays_in_kernels
from league.matchups.matchups import simulate_matchups
from pretended_gpu.runs import FEW_STEPS, assert_equal_runs, configuration, on_host, train
from trainers.algorithms.on_policy.kernel_engine import KernelEngine
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.agent_group import make_agent_group
from trainers.base.gradients import LOCAL_REDUCER, GradientReducer
from trainers.base.learner_spec import LearnerSpec
from trainers.runner.trainer import Trainer

CASES = [("CartPole-v1", "ppo", {}), ("Pendulum-v1", "a2c", {}), ("TicTacToe-v0", "ppo", {"target_kl": 0.5})]
ALL = [pytest.param(case, marks=() if case == CASES[0] else pytest.mark.slow, id=case[0]) for case in CASES]


@pytest.mark.slow
@pytest.mark.parametrize("cuda_graph", [True, False])
@pytest.mark.parametrize("case", ALL)
def test_update_in_tiles_equals_that_of_torch(case, cuda_graph, gpu, tmp_path):
    """The first update, from a rollout that PyTorch has played."""
    env_id, algorithm, learner = case
    states = {}
    for engine in ("torch", "kernel"):
        config = configuration(env_id, algorithm, "cuda:0", learner, engine=engine, cuda_graph=cuda_graph)
        trainer = Trainer(config, tmp_path / engine)
        trainer.collector.kernels = None
        trainer.iterate()
        states[engine] = on_host(trainer.learners.state_dict())
    assert all(isinstance(assignment.learner.engine, KernelEngine) for assignment in trainer.assignments.values())
    for name, value in states["torch"].items():
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            torch.testing.assert_close(states["kernel"][name], value, rtol=2e-3, atol=1e-4, msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "algorithm"),
    [("CartPole-v1", "ppo"), ("CartPole-v1", "dqn"), ("Pendulum-v1", "sac")],
)
def test_rollout_in_kernels_is_captured_and_does_not_wait(env_id, algorithm, gpu, tmp_path):
    trainer = Trainer(configuration(env_id, algorithm, "cuda:0", {}, engine="kernel"), tmp_path)
    assert trainer.collector.kernels is not None
    for _ in range(2):
        trainer.collector.collect()
        trainer.learners.update(1, str)
    with gpu.observe() as events:
        trainer.collector.collect()
    assert not events.synchronizations
    assert len(events.graph_launches) == 1


@pytest.mark.slow
@pytest.mark.parametrize("cuda_graph", [True, False])
def test_exploration_on_the_pretended_gpu_equals_that_on_the_cpu(cuda_graph, gpu, tmp_path):
    """A captured rollout reads the present probability of random actions, and the present weights."""
    runs = {
        device: train(configuration("CartPole-v1", "dqn", device, {}, engine="kernel", cuda_graph=cuda_graph), path)
        for device, path in (("cpu", tmp_path / "cpu"), ("cuda:0", tmp_path / "cuda"))
    }
    assert_equal_runs(runs["cpu"], runs["cuda:0"])


WIDE = {"hidden_sizes": (MAX_THREAD_WIDTH + 8,)}
WIDE_CASES = [
    ("CartPole-v1", "ppo"),
    *(
        pytest.param(*case, marks=pytest.mark.slow)
        for case in (("TagContinuous-v0", "ppo"), ("TicTacToe-v0", "ppo"), ("CartPole-v1", "dqn"))
    ),
]


@pytest.mark.parametrize(("env_id", "algorithm"), WIDE_CASES)
def test_wide_policies_act_in_tiles_as_threads_of_the_cpu_do(env_id, algorithm, gpu, tmp_path):
    """The second rollout is a replay of the captured one."""
    trainers = [
        Trainer(configuration(env_id, algorithm, device, WIDE, engine="kernel"), tmp_path / device)
        for device in ("cpu", "cuda:0")
    ]
    for _ in range(2):
        for trainer in trainers:
            with gpu.observe() as events:
                trainer.collector.collect()
            trainer.core.raise_pending_errors()
        cpu, trace = (trainer.collector.kernels.trace for trainer in trainers)
        assert not trace.action.is_floating_point()
        for name in ("action", "obs", "reward", "terminated", "valid", "restarted"):
            assert torch.equal(getattr(trace, name).cpu(), getattr(cpu, name)), name
        torch.testing.assert_close(trace.log_prob.cpu(), cpu.log_prob, rtol=1e-5, atol=1e-5)
    assert len(events.graph_launches) == 1
    assert trainers[1].collector.kernels.plan._tiles
    for trainer in trainers:
        trainer.log.close()


@pytest.mark.slow
def test_payoffs_of_wide_policies_are_those_of_the_cpu(gpu):
    """Worlds of a tile play different matchups; "auto" leaves wide policies to PyTorch."""
    game = Game.of("KuhnPoker-v0")
    agents = make_agent_group(game.core(1), game.seats[0].members)
    payoffs = []
    for device in ("cpu", "cuda:0"):
        policies = []
        for seed in range(3):
            spec = LearnerSpec(agents.obs_width, agents.space, 1, 1, 100, seed=seed)
            policy = PPO(PPOConfig(**WIDE), spec).policy()
            for number, parameter in enumerate(policy.actor.parameters()):
                generator = torch.Generator().manual_seed(10 * seed + number)
                parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
            policies.append(policy)
        pools = dict.fromkeys(game.roles, policies)
        matchups = [(a, b) for a in range(3) for b in range(3)]
        payoffs.append(
            simulate_matchups(pools, game=game, matchups=matchups, episodes=100, seed=1, device=device, engine="kernel")
        )
    wide = policies[0]
    assert plays_in_kernels(wide, torch.device("cuda:0"))
    assert not plays_in_kernels(wide, torch.device("cuda:0"), "auto")
    assert plays_in_kernels(wide, torch.device("cpu"), "auto")
    for name in ("count", "total", "square"):
        assert torch.equal(getattr(payoffs[0], name), getattr(payoffs[1], name)), name


class ManyRanks(GradientReducer):
    """A reducer of one process that takes steps as with several processes: outside of kernels and CUDA graphs."""

    can_capture = False


@pytest.mark.slow
def test_steps_outside_of_kernels_equal_those_in_them(gpu, tmp_path):
    """Kernels compute each gradient from the weights that PyTorch's fused optimizer has just written."""
    states = {}
    for reducer in (LOCAL_REDUCER, ManyRanks()):
        config = configuration("CartPole-v1", "ppo", "cuda:0", FEW_STEPS, engine="kernel", cuda_graph=False)
        trainer = Trainer(config, tmp_path / type(reducer).__name__)
        trainer.learners.set_reducer(reducer)
        trainer.collector.kernels = None  # PyTorch plays the rollouts, without kernels to compile
        for _ in range(2):
            trainer.iterate()
        states[type(reducer)] = on_host(trainer.learners.state_dict())
    for name, value in states[GradientReducer].items():
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            torch.testing.assert_close(states[ManyRanks][name], value, rtol=1e-4, atol=1e-5, msg=name)

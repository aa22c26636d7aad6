"""On a CUDA device: many agents in cells, several environments at once, many worlds, many steps."""

import os
from pathlib import Path

import pytest
import torch
import warp as wp
from many_agents import SMALL as CELLS
from many_agents import many_agents
from small_environments import SMALL
from test_gpu import SCHEDULES, assert_close, assert_devices_agree, assert_play_is_steps, assert_schedules_agree, make

from gpu_envs.runtime.factory import make_core

pytestmark = pytest.mark.gpu

TAG = "TagContinuous-v0"
MEASURES_MEMORY = pytest.mark.needs_real_gpu(reason="uses or measures the memory of the device")
NAMES = ("obs", "reward", "terminated", "truncated", "alive", "valid")


# ---------------------------------------------------------------- many agents in cells


@SCHEDULES
def test_cells_cpu_equals_gpu(schedule):
    """The order of agents in a cell is temporary, may differ between devices, and is not part of the state."""
    cpu, gpu = make(TAG, "cpu", **CELLS), make(TAG, schedule=schedule, **CELLS)
    assert_devices_agree(cpu, gpu)
    assert not {"state.slot", "state.who", "state.spot", "state.cells"} & gpu.get_state().keys()
    gpu.set_state({name: tensor.cuda() for name, tensor in cpu.get_state().items()})
    assert_close([cpu.state()], [gpu.state()])


def test_schedules_agree_with_cells():
    assert_schedules_agree(*(make(TAG, schedule=schedule, **CELLS) for schedule in SCHEDULES.args[1]))


@SCHEDULES
def test_cells_in_random_play(schedule):
    assert_play_is_steps(*(make(TAG, schedule=schedule, reuse_buffers=True, **CELLS) for _ in range(2)))


def test_blocks_of_several_warps_agree_with_a_launch_per_phase():
    """The first test of barriers between warps: 105 agents are four of them."""
    block, phased = (
        make_core(TAG, 40, "cuda", seed=0, fuse_fp=False, schedule=schedule) for schedule in ("block", "phased")
    )
    assert block.block_dims["step"] == (128,)
    assert_schedules_agree(block, phased)


def test_cell_search_equals_brute_force():
    """With 2,000 agents, thousands of threads enter the cells at the same time."""
    settings = {
        "seed": 1,
        "schedule": "phased",
        "fuse_fp": False,
        **many_agents(2000, 10, reach=0.8, episode_length=30),
    }
    brute, grid = (make_core(TAG, 4, "cuda", neighbor_search=search, **settings) for search in ("brute", "grid"))
    assert torch.equal(brute.reset()[0], grid.reset()[0])
    tags = 0
    for _ in range(45):
        action = brute.sample_actions()
        left, right = brute.step(action), grid.step(action)
        for a, b in zip((*left[:4], left[4]["alive"]), (*right[:4], right[4]["alive"]), strict=True):
            assert torch.equal(a, b)
        tags += int((brute.world_state["caught_by"] >= 0).sum())
    assert tags > 20


# ---------------------------------------------------------------- several at once


def test_several_environments_on_one_device():
    """Interleaved, some captured, some on their own streams: each plays as it does alone."""
    ids = ("CartPole-v1", "SimpleTag-v0", "ConnectFour-v0", TAG, "SimpleTag-v0", "Pendulum-v1")

    def cores():
        cores = [make(env_id, seed=seed, reuse_buffers=True) for seed, env_id in enumerate(ids)]
        for core in cores:
            core.reset()
        return cores

    alone, together = cores(), cores()
    for core in alone:
        for _ in range(25):
            core.step(core.sample_actions())
    streams = [torch.cuda.Stream() for _ in together]
    plays = [lambda core=core: core.step(core.sample_actions()) for core in together]
    plays = [
        core.capture(play) if row % 2 else play for row, (core, play) in enumerate(zip(together, plays, strict=True))
    ]
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream())
    for _ in range(25):
        for stream, play in zip(streams, plays, strict=True):
            with torch.cuda.stream(stream):
                play()
    torch.cuda.synchronize()
    for left, right in zip(alone, together, strict=True):
        for name in NAMES:
            assert torch.equal(getattr(left, name), getattr(right, name)), f"{left.id} {name}"


def test_reset_by_mask_is_captured():
    """With autoreset disabled, a captured rollout resets finished worlds inside the graph."""
    settings = {"autoreset": "disabled", "reuse_buffers": True}
    eager, captured = (make("SimpleTag-v0", **settings) for _ in range(2))

    def play(core):
        core.step(core.sample_actions())
        core.reset(reset_mask=~core.alive.any(1))

    for core in (eager, captured):
        core.reset()
        play(core)
    replay = captured.capture(lambda: play(captured))
    for _ in range(20):
        play(eager)
        replay()
    assert int(eager.episode_index.min()) >= 2
    for name in NAMES:
        assert torch.equal(getattr(eager, name), getattr(captured, name)), name


def test_resampled_parameters_are_equal_on_both_devices():
    ranges = {"good_max_speed": (1.0, 1.6), "adversary_accel": (2.0, 4.0)}
    cpu, gpu = (make("SimpleTag-v0", device, domain_randomization=ranges) for device in ("cpu", "cuda"))
    for core in (cpu, gpu):
        core.reset()
        core.random_rollout(20)
    for name, values in cpu.get_params().items():
        assert torch.equal(values, gpu.get_params()[name].cpu()), name


@pytest.mark.parametrize("env_id", ["SimpleTag-v0", TAG, "ConnectFour-v0"])
def test_images_are_equal_on_both_devices(env_id):
    cpu, gpu = (make(env_id, device) for device in ("cpu", "cuda"))
    cpu.reset()
    gpu.reset()
    left, right = (torch.from_numpy(core.render_frames((0, 5), 96)).float() for core in (cpu, gpu))
    assert (left - right).abs().mean() < 1.0
    assert left.std() > 5.0


# ---------------------------------------------------------------- many worlds, many steps


@MEASURES_MEMORY
@SCHEDULES
@pytest.mark.parametrize(("worlds", "needed"), [(1 << 20, 8), (1 << 24, 48)])
def test_last_worlds_of_a_large_batch_equal_a_small_batch(worlds, needed, schedule):
    """In the larger case the last worlds lie beyond 2^31 bytes."""
    if torch.cuda.mem_get_info()[0] < needed << 30:
        pytest.skip(f"needs {needed} GiB of free memory")
    settings = {"schedule": schedule, "reuse_buffers": True}
    many = make("SimpleTag-v0", num_envs=worlds, **settings)
    last = make("SimpleTag-v0", num_envs=64, env_offset=worlds - 64, **settings)
    many.reset()
    last.reset()
    for _ in range(10):
        many.step(many.sample_actions())
        last.step(last.sample_actions())
    for name in (*NAMES, "final_obs"):
        assert torch.equal(getattr(many, name)[-64:], getattr(last, name)), name
    assert len(torch.unique(many.obs[:, 0, 2])) > worlds // 100  # the worlds have not overwritten each other
    del many
    torch.cuda.empty_cache()


def resident():
    """Host memory of this process [bytes]."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@MEASURES_MEMORY
@pytest.mark.parametrize(
    ("env_id", "schedule", "replays"), [("CartPole-v1", "fused", 1000), ("SimpleTag-v0", "phased", 50)]
)
def test_no_leak_in_replays(env_id, schedule, replays):
    """A graph of 1,000 steps, replayed: 10^6 steps where a step is one kernel, 50,000 where it is many."""
    core = make_core(env_id, 64, "cuda", seed=0, schedule=schedule, fuse_fp=False, reuse_buffers=True, **SMALL[env_id])
    core.reset()

    def play():
        for _ in range(1000):
            core.step(core.sample_actions())

    replay = core.capture(play)
    for _ in range(5):
        replay()
    torch.cuda.synchronize()
    start_bytes, device, start_episode = resident(), torch.cuda.memory_reserved(), int(core.episode_index.min())
    for _ in range(replays):
        replay()
    core.raise_pending_errors()
    assert torch.cuda.memory_reserved() == device
    assert resident() - start_bytes < 32 << 20
    limit = next(iter(SMALL[env_id].values()))  # steps of an episode, at most
    assert int(core.episode_index.min()) - start_episode >= replays * 1000 // limit


@MEASURES_MEMORY
@pytest.mark.parametrize("reuse", [False, True])
def test_no_leak_in_steps(reuse):
    """Python calls; with clones the allocator must find every one of them again."""
    core = make("SimpleTag-v0", reuse_buffers=reuse)
    core.reset()

    def play(steps):
        for _ in range(steps):
            core.step(core.sample_actions())
        core.raise_pending_errors()

    play(500)
    start_bytes, device = resident(), torch.cuda.memory_reserved()
    play(10_000)
    assert torch.cuda.memory_reserved() == device
    assert resident() - start_bytes < 16 << 20


def test_training_runs_and_resumes_on_the_device(tmp_path):
    """Losses stay finite, and the run can be resumed from its checkpoint."""
    pytest.importorskip("tensorboard")
    from trainers.algorithms.on_policy.ppo import PPOConfig
    from trainers.config.train_config import TrainConfig
    from trainers.runner.trainer import Trainer
    from trainers.storage.checkpoint import load

    ppo = PPOConfig(rollout_length=8)
    settings = {"num_envs": 64, "device": "cuda", "total_steps": 2048, "learner": ppo}
    config = TrainConfig("SimpleTag-v0", env={"max_cycles": 7}, **settings)
    saved = load(Trainer(config, tmp_path / "run").run())
    assert saved.steps == 2048
    assert all(
        policy.actor.module.body[0].weight.isfinite().all() for policy in map(saved.policy, ("adversary", "agent"))
    )


@pytest.mark.needs_real_gpu(reason="kernels are compiled for the CPU")
def test_kernels_compiled_beforehand_are_found():
    """They are looked for as what benchmarks/gpu/kernels.py makes: machine code for the architecture of this device."""
    make("CartPole-v1")
    major, minor = torch.cuda.get_device_capability()
    device = wp.get_device("cuda:0")
    assert (device.get_cuda_output_format(), device.get_cuda_compile_arch()) == ("cubin", 10 * major + minor)


@pytest.mark.parametrize(
    ("env_id", "algorithm", "settings"),
    [
        ("SimpleSpread-v0", "ppo", {}),  # rollouts in kernels
        ("SimpleSpread-v0", "mappo", {"network": "gru"}),
        ("SimpleTag-v0", "a2c", {}),
        ("TagGridworld-v0", "dqn", {"learning_starts": 64}),
        ("SimpleSpread-v0", "qmix", {"learning_starts": 64, "network": "gru", "rollout_length": 25}),
        ("Pendulum-v1", "sac", {"learning_starts": 64}),
        ("Pendulum-v1", "td3", {"learning_starts": 64}),
        ("LeducPoker-v0", "iql", {"learning_starts": 64, "network": "gru", "window": 4}),
        ("Pendulum-v1", "sac", {"learning_starts": 64, "network": "gru", "window": 4}),
        ("SimpleSpeakerListener-v0", "maddpg", {"learning_starts": 64}),
    ],
)
def test_captured_training_is_the_plain_one(env_id, algorithm, settings, tmp_path):
    """Rollouts and updates are captured; phases are timed inside the graph of a rollout."""
    from trainers.algorithms import algorithm_specs
    from trainers.config.train_config import TrainConfig
    from trainers.runner.trainer import Trainer

    learner = algorithm_specs.find(algorithm).settings(**settings)
    config = TrainConfig(
        env_id, num_envs=32, device="cuda", total_steps=10**6, algorithm=algorithm, learner=learner, cuda_graph=True
    )
    runs = []
    for capture in (True, False):
        trainer = Trainer(config, tmp_path / str(capture))
        seats = trainer.assignments.values()
        if not capture:  # the same work, launched one by one
            trainer.collector.uses_cuda_graph = False
            for seat in seats:
                seat.learner.updates.enabled = False
        tensors = []
        for _ in range(3):
            trainer.collector.collect()
            tensors += [seat.learner.rollout.action.clone() for seat in seats]
            trainer.learners.update(1, str)
            tensors += [parameter.detach().clone() for seat in seats for parameter in seat.learner.net.parameters()]
            trainer.collector.raise_pending_errors()
            trainer.collector.timer.mark("update")
            rollout = {"inference", "env_step", "storage"} if trainer.collector.kernels is None else {"rollout"}
            assert trainer.collector.timer.read().keys() == {*rollout, "update"}
        trainer.log.close()
        runs.append(tensors)
    for captured, plain in zip(*runs, strict=True):
        torch.testing.assert_close(captured, plain)

"""Threads per block of GPU launches: the rule, the recorded launches, and the setting, with stand-ins for a GPU."""

import re
from types import SimpleNamespace

import pytest
import torch
import warp as wp
from pretended_gpu import activate
from small_environments import SMALL

from gpu_envs import errors
from gpu_envs.definition.registry import find
from gpu_envs.runtime import launcher
from gpu_envs.runtime.factory import make_core
from gpu_envs.runtime.kernels import BLOCK_DIMS, BLOCKS_PER_MULTIPROCESSOR, choose_block_dim, kernel_program
from gpu_envs.runtime.rollout.policy_rollout import PolicyRollout
from gpu_envs.runtime.rollout.trace import RolloutTrace
from gpu_envs.utils.settings import build_config

TAG = "TagContinuous-v0"
H100 = 132  # multiprocessors


@pytest.mark.parametrize(
    ("threads", "size"),
    [(1, 32), (4096, 32), (64 * 528 - 1, 32), (64 * 528, 64), (256 * 528, 64), (2**31 - 1, 64)],
)
def test_launches_that_fill_a_gpu_have_larger_blocks(threads, size):
    assert choose_block_dim(threads, H100) == size


@pytest.mark.parametrize("multiprocessors", [1, 16, 108, 192])
def test_larger_blocks_leave_no_multiprocessor_without_blocks(multiprocessors):
    for threads in (2**n + more for n in range(22) for more in (-1, 0, 1)):
        size = choose_block_dim(threads, multiprocessors)
        assert size in BLOCK_DIMS
        assert size == BLOCK_DIMS[0] or threads // size >= BLOCKS_PER_MULTIPROCESSOR * multiprocessors


@pytest.fixture
def recorded(monkeypatch):
    """Function that makes a core, records a kind of launch on a pretended H100, and returns core and commands."""

    def record(kernel, dim, **settings):
        assert settings.get("block_dim", BLOCK_DIMS[-1]) == BLOCK_DIMS[-1]  # Warp would compile for another size again
        return SimpleNamespace(kernel=kernel, threads=dim[0] * dim[1], block_dim=256)

    def build(kind, *arguments, **settings):
        core = make_core(*arguments, device="cpu", threads=1, **settings)
        core._launcher.device = SimpleNamespace(is_cuda=True, is_cpu=False)
        core._launcher._torch_device = torch.device("cuda", 0)
        with monkeypatch.context() as patch:
            patch.setattr(wp, "launch", record)
            patch.setattr(launcher, "current_device_kept", lambda device: torch.no_grad())
            (commands,) = core._launcher._record(kind)
        return core, commands

    properties = SimpleNamespace(multi_processor_count=H100)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    return build


@pytest.mark.parametrize("kind", ["step", "reset", "sample", "play"])
def test_fused_launches_have_a_thread_per_world(recorded, kind):
    core, (command,) = recorded(kind, "SimpleTag-v0", 40_000)
    assert (command.threads, command.block_dim) == (40_000, 64)
    assert core.block_dims[kind] == (64,)


@pytest.mark.parametrize("kind", ["step", "reset", "sample", "global_state"])
def test_every_phased_launch_has_blocks_of_its_own_size(recorded, kind):
    core, commands = recorded(kind, TAG, 2000, schedule="phased", **SMALL[TAG])
    sizes = tuple(command.block_dim for command in commands)
    assert sizes == core.block_dims[kind]
    assert sizes == tuple(choose_block_dim(command.threads, H100) for command in commands)
    assert "play" not in core.block_dims
    core, commands = recorded(kind, TAG, 20_000, schedule="phased", **SMALL[TAG])
    over_worlds = [command.threads == 20_000 for command in commands]
    assert not all(over_worlds)  # the others run over agents, or over agents and slots
    assert [command.block_dim for command in commands] == [32 if worlds else 64 for worlds in over_worlds]


@pytest.mark.parametrize("kind", ["step", "reset"])
def test_launches_of_the_block_schedule_have_a_block_per_world(recorded, kind):
    core, (command,) = recorded(kind, TAG, 2000, schedule="block", **SMALL[TAG])
    assert (command.threads, command.block_dim) == (2000 * 32, 32)
    assert core.block_dims[kind] == (32,)
    core, (command,) = recorded(kind, TAG, 2000, schedule="block", block_dim=128, **SMALL[TAG])
    assert (command.threads, command.block_dim) == (2000 * 128, 128)


@pytest.mark.parametrize("schedule", ["fused", "block", "phased"])
def test_setting_holds_for_every_launch(recorded, schedule):
    core, commands = recorded("step", "SimpleTag-v0", 8, schedule=schedule, block_dim=128)
    assert {command.block_dim for command in commands} == {128}
    assert {size for sizes in core.block_dims.values() for size in sizes} == {128}


def test_setting_changes_nothing_on_a_cpu():
    plain, explicit = (make_core("SimpleTag-v0", 8, "cpu", seed=0, block_dim=size) for size in (None, 64))
    for core in (plain, explicit):
        core.reset()
        core.random_rollout(30)
        assert core.block_dims == {}
    assert (plain.block_dim, explicit.block_dim) == (None, 64)
    state = plain.get_state()
    assert all(torch.equal(state[name], tensor) for name, tensor in explicit.get_state().items())


@pytest.mark.parametrize("value", [16, 48, 512, 0, -32, 64.0, "64", True])
def test_other_sizes_are_refused(value):
    with pytest.raises(errors.ConfigError, match=r"block_dim: expected one of 32, 64, 128, 256, or None, got "):
        make_core("SimpleTag-v0", 2, "cpu", block_dim=value)


@pytest.mark.optimized
@pytest.mark.slow
def test_kernels_of_the_largest_block_run_in_smaller_ones(tmp_path):
    """Kernels are compiled once, for Warp's default size; only tables of tile operations depend on the size."""
    kind, build = find(TAG).load()
    module = kernel_program(build(build_config(kind, SMALL[TAG], TAG)).rules, "phased", True).module
    default = module.options["block_dim"]
    assert default == BLOCK_DIMS[-1]
    code = {}
    for size in (BLOCK_DIMS[0], default):
        try:
            wp.set_module_options({"block_dim": size}, module)
            wp.compile_aot_module(module, device=None, arch=[90], module_dir=tmp_path / str(size), use_ptx=True)
        finally:
            wp.set_module_options({"block_dim": default}, module)
        (file,) = (tmp_path / str(size)).rglob("*.ptx")
        text = re.sub(r"_[0-9a-f]{7,}\b", "", file.read_text())  # hashes in names
        code[size] = text[text.index(".visible .entry") :]  # after the tables
    assert code[32] == code[256]
    assert code[32].count(".visible .entry") > 5


@pytest.mark.parametrize("schedule", ["fused", "phased"])
def test_rollouts_with_policies_have_blocks_of_the_size_of_their_launch(schedule):
    with activate():
        core = make_core("SimpleTag-v0", 8, "cuda", schedule=schedule, block_dim=64, seed=0)
        plan = PolicyRollout.of_groups(core, {}, RolloutTrace.allocate(core, 2, 2))
        commands = plan._fused._commands[0] if schedule == "fused" else plan._stages
        assert commands
        assert {command.block_dim for command in commands} == {64}

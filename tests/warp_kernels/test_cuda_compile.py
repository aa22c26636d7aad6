"""Kernels of environments of every kind and of networks compile for CUDA, with or without a GPU on this machine."""

import json
import re

import pytest
import torch
import toy
import turns
import warp as wp
from network_cases import NETWORKS
from small_environments import SMALL, SPECIAL

import warp_kernels
from gpu_envs.definition.registry import find
from gpu_envs.errors import ConfigError
from gpu_envs.runtime import kernels
from gpu_envs.runtime.kernels import choose_schedule, kernel_program, rollout_kernel
from gpu_envs.testing import compile_for_cuda
from gpu_envs.utils.settings import build_config
from warp_kernels.framework.policies import Acting, PolicyKind
from warp_kernels.framework.rollout import build_phased_rollout, build_rollout
from warp_kernels.framework.step import step_phases
from warp_kernels.framework.tile_acting import build_tile_outputs
from warp_kernels.networks.advantages import build_advantages
from warp_kernels.networks.mlp import Mlp
from warp_kernels.networks.optimizer import build_optimizer
from warp_kernels.networks.tile_memory import shared_bytes
from warp_kernels.networks.tiles import build_tile_forward, build_tile_gradient

pytestmark = pytest.mark.optimized  # without optimization NVIDIA's compiler takes four times as long
SCHEDULES = pytest.mark.parametrize("schedule", kernels.SCHEDULES)
H100 = 90


@pytest.fixture(scope="session")
def newest():
    """Return the newest architecture that Warp's compiler knows, at least that of consumer Blackwell GPUs."""
    architecture = wp.get_cuda_supported_archs()[-1]
    assert architecture >= 120
    return architecture


@pytest.fixture
def architectures(newest):
    """Return A100 and the newest architecture, the ends of the range; the quick tests compile for H100."""
    return [80, newest]


def assert_compiles(module, folder, architectures):
    """Compile a module into machine code, and check that there is one binary per architecture."""
    warp_kernels.start()
    paths = wp.compile_aot_module(module, device=None, arch=architectures, module_dir=folder)
    binaries = [path for path in paths if path.suffix in (".ptx", ".cubin")]
    assert [path.suffixes[-2:] for path in binaries] == [[f".sm{number}", ".cubin"] for number in architectures]
    assert all(path.read_bytes().startswith(b"\x7fELF") for path in binaries)


def assert_rules_compile(rules, schedule, folder, architectures):
    """Compile all kernels of a schedule."""
    assert_compiles(kernel_program(rules, schedule, True).module, folder, architectures)


def rules_of(env_id, settings):
    kind, build = find(env_id).load()
    return build(build_config(kind, SMALL[env_id] | settings, env_id)).rules


FEW = ("SimpleSpeakerListener-v0", "ConnectFour-v0")
"""An environment of agents that move together, and one of agents that take turns."""


@pytest.mark.variations
@pytest.mark.parametrize("env_id", FEW)
def test_compiles_for_cuda(env_id):
    """The schedule that a GPU would take, for one architecture; the slow tests below have more."""
    assert compile_for_cuda(env_id, H100, **SMALL[env_id]) > 10_000


def test_unknown_architecture_is_refused():
    with pytest.raises(ConfigError, match=r"architecture: expected one of \d+, .*, got 12$"):
        compile_for_cuda(FEW[0], 12)


@pytest.mark.slow
@SCHEDULES
@pytest.mark.parametrize("env_id", ["SimpleTag-v0", "TagContinuous-v0", *FEW])
def test_all_of_it_compiles_for_the_newest_architecture(env_id, schedule, newest, tmp_path):
    assert_rules_compile(rules_of(env_id, {}), schedule, tmp_path, [newest])


@pytest.mark.slow
def test_block_kernels_have_a_barrier_per_phase_and_read_no_stale_data(tmp_path):
    """The compiler neither merges nor copies barriers, and no load goes through the read-only cache."""
    rules = rules_of("TagContinuous-v0", {})
    module = kernel_program(rules, "block", True).module
    (path,) = wp.compile_aot_module(module, device=None, arch=[H100], module_dir=tmp_path, use_ptx=True)
    entries = path.read_text(errors="ignore").split(".visible .entry ")
    (block,) = (entry for entry in entries if entry.startswith("block_"))
    parts = step_phases(rules, in_slots=True)
    assert len(re.findall(r"\bbar\.sync|\bbarrier\.sync", block)) == len((*parts.play, *parts.renew, *parts.start))
    assert "ld.global.nc" not in block


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "kind"),
    [
        pytest.param(
            "KuhnPoker-v0",
            PolicyKind(Mlp(7, (32,), 3, extra=1), "values", (2,), explores=True),
            id="KuhnPoker-v0",
        ),
        ("Pendulum-v1", PolicyKind(Mlp(3, (32,), 1, extra=2), "tanh", (1,), True, explores=True)),
    ],
)
def test_rollouts_with_exploration_compile_for_cuda(env_id, kind, tmp_path):
    rules = rules_of(env_id, {})
    kernel = build_rollout(rules, Acting((kind,), ((0,),) * rules.num_agents, True), 1, True)
    assert_compiles(kernel.module, tmp_path, [H100])


def learning_kernels(network, tile_rows):
    """Return the kernels of a network that run on a GPU."""
    gradient = build_tile_gradient(network.mlp, network.head, network.key, tile_rows)
    return [gradient, build_tile_forward(network.mlp, tile_rows, True)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tile_rows"), [("categorical", 64), ("tanh_gaussian", 32)])
def test_gradients_compile_for_cuda_with_the_expected_shared_memory(name, tile_rows, tmp_path):
    """Warp adds up the tiles while it generates code."""
    network = NETWORKS[name]
    gradient, _ = learning_kernels(network, tile_rows)
    assert_compiles(gradient.module, tmp_path, [H100])
    (meta,) = tmp_path.rglob("*.meta")
    assert list(json.loads(meta.read_text()).values()) == [shared_bytes(network.mlp, tile_rows)]


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_compile_for_cuda(name, architectures, tmp_path):
    for number, kernel in enumerate(learning_kernels(NETWORKS[name], 32)):
        assert_compiles(kernel.module, tmp_path / str(number), architectures)


@pytest.mark.parametrize(
    ("env_id", "hidden", "tile_rows", "shared"),
    [
        pytest.param("SimpleTag-v0", (64, 64), 64, True, id="shared"),
        pytest.param("TicTacToe-v0", (128, 128), 32, False, id="matchups"),
    ],
)
@pytest.mark.slow
def test_acting_in_tiles_compiles_for_cuda(env_id, hidden, tile_rows, shared, architectures, tmp_path):
    """Tiles and the phases around them; the block fits the memory that the choice of tiles assumes."""
    rules = rules_of(env_id, {})
    mlp = Mlp(18, hidden, rules.num_choices if rules.masked else 5)
    kinds = (PolicyKind(mlp, "categorical", (mlp.outputs,)),)
    acting = Acting(kinds, ((0,),) * rules.num_agents, shared, tile_rows=(tile_rows,))
    kernel = build_tile_outputs(mlp, tile_rows, shared, rules.turn_based)
    assert_compiles(kernel.module, tmp_path / "tiles", architectures)
    (meta,) = (tmp_path / "tiles").rglob("*.meta")
    assert 0 < max(json.loads(meta.read_text()).values()) <= shared_bytes(mlp, tile_rows)
    stages = build_phased_rollout(rules, acting, True)
    assert_compiles(stages[0].kernel.module, tmp_path / "stages", [H100])


@pytest.mark.variations
@pytest.mark.parametrize("by_turns", [True, False])
def test_advantages_compile_for_cuda(by_turns, tmp_path):
    assert_compiles(build_advantages(by_turns).module, tmp_path, [H100])


def test_optimizer_compiles_for_the_newest_architecture(newest, tmp_path):
    assert_compiles(build_optimizer()[0].module, tmp_path, [newest])


# tests/libraries/test_ptxas.py compiles all kernels of all environments with their default settings.


@pytest.mark.slow
@pytest.mark.parametrize("env_id", FEW)
def test_random_play_compiles_for_cuda(env_id, newest, tmp_path):
    assert_compiles(rollout_kernel(rules_of(env_id, {}), True)[1], tmp_path, [newest])


@pytest.mark.slow
@pytest.mark.parametrize(("env_id", "settings"), SPECIAL)
def test_special_settings_compile_for_cuda(env_id, settings, newest, tmp_path):
    rules = rules_of(env_id, settings)
    assert_rules_compile(rules, choose_schedule(rules.num_agents, torch.device("cuda")), tmp_path, [newest])


@pytest.mark.slow
@SCHEDULES
@pytest.mark.parametrize("host", [toy, turns])
def test_masks_turns_and_items_compile_for_cuda(host, schedule, newest, tmp_path):
    assert_rules_compile(host.build(host.Config()).rules, schedule, tmp_path, [newest])

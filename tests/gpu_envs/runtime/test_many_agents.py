"""TagContinuous with many agents: the cell search equals brute force bit for bit."""

import math

import numpy as np
import pytest
import torch
import warp as wp
from many_agents import SMALL, many_agents

import gpu_envs
import warp_kernels
from gpu_envs.definition.registry import find
from gpu_envs.envs.tag.tag_continuous import choose_search
from gpu_envs.errors import ConfigError
from gpu_envs.runtime import kernels
from gpu_envs.runtime.factory import make_core
from gpu_envs.utils.settings import build_config

ID = "TagContinuous-v0"


def make_cores(num_envs, settings):
    """Return cores with brute-force and cell search."""
    return [make_core(ID, num_envs, "cpu", seed=1, **settings, neighbor_search=s) for s in ("brute", "grid")]


def assert_same(left, right):
    """Equal results of a step or reset, bit for bit."""
    *left, info_left = left
    *right, info_right = right
    names = [name for name in info_left if name in ("valid", "alive")]
    left, right = ([*step, *(info[name] for name in names)] for step, info in ((left, info_left), (right, info_right)))
    for a, b in zip(left, right, strict=True):
        assert torch.equal(a, b)


# ---------------------------------------------------------------- the same answer


SIZES = {  # settings, worlds, steps
    "small": ({name: value for name, value in SMALL.items() if name != "neighbor_search"}, 40, 30),
    "11 agents": (many_agents(11, 1, taggers=5, episode_length=20), 60, 60),
    "17 agents": (many_agents(17, 16, episode_length=20), 40, 60),
    "120 agents": (many_agents(120, 16, reach=1.5, spacing=0.3, episode_length=25), 6, 60),
    "200 agents": (many_agents(200, 10, taggers=150, reach=0.2, max_acceleration=0.3), 6, 60),
    "300 agents": (many_agents(300, 5, reach=50.0, runner_exits_game_after_tagged=False), 3, 30),
    "500 agents": (many_agents(500, 20, spacing=30.0, reach=20.0, taggers=60), 3, 40),
}
QUICK_SIZES = ("small", "300 agents")


@pytest.mark.variations
@pytest.mark.parametrize(
    ("settings", "num_envs", "steps"),
    [
        pytest.param(*case, id=name, marks=[pytest.mark.slow] * (name not in QUICK_SIZES))
        for name, case in SIZES.items()
    ],
)
def test_cell_search_equals_brute_force(settings, num_envs, steps):
    """Random play over several episodes: numbers, K, densities, tags and walls of all kinds."""
    brute, grid = make_cores(num_envs, settings)
    assert_same(brute.reset(), grid.reset())
    tags = 0
    for _ in range(steps):
        action = brute.sample_actions()
        left = brute.step(action)
        assert_same(left, grid.step(action))
        tags += int((brute.world_state["caught_by"] >= 0).sum())
    assert tags > 20


def lattice(count, side, length):
    """Return positions on a lattice of side x side; many agents share points."""
    ticks = torch.arange(count)
    return torch.stack([ticks % side, ticks // side % side], -1).float() * (length / (side - 1))


PLACES = {
    "one corner": lambda n, length: torch.rand(n, 2) * length * 0.01,
    "one point": lambda n, length: torch.full((n, 2), 0.3 * length),
    "a corner's point": lambda n, length: torch.full((n, 2), length),
    "one wall": lambda n, length: torch.stack([torch.zeros(n), torch.rand(n) * length], -1),
    "four corners and one in the middle": lambda n, length: (
        torch.cat([torch.tensor([[0.5, 0.5]]), torch.randint(0, 2, (n - 1, 2))]) * length
    ),
    "lattice": lambda n, length: lattice(n, 11, length),
    "lattice of cells": lambda n, length: lattice(n, 1 + math.isqrt(5 * n // 20), length),
    "two points": lambda n, length: torch.tensor([[0.2, 0.2], [0.8, 0.9]])[torch.arange(n) % 2] * length,
    "pressed against the walls": lambda n, length: (torch.rand(n, 2) * 3 - 1) * length,
}
QUICK_PLACES = ("one corner", "lattice of cells", "pressed against the walls")


@pytest.mark.parametrize(
    "alive",
    [1.0, *(pytest.param(share, marks=pytest.mark.slow) for share in (0.5, 0.02, 0.0))],
    ids=lambda share: f"{share:.0%} alive",
)
@pytest.mark.parametrize(
    "layout",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK_PLACES)) for name in PLACES],
)
def test_cell_search_equals_brute_force_at_all_positions(layout, alive):
    """Agents at rest on a point, along a wall, with exact ties; all runners alive, half of them, few, one."""
    count, taggers, observed, generator = 150, 18, 20, torch.Generator().manual_seed(3)
    torch.manual_seed(4)
    cores = make_cores(2, many_agents(count, observed, taggers=taggers, reach=1.0, max_speed=0.0, autoreset="disabled"))
    spots = torch.stack([PLACES[layout](count, cores[0].config.grid_length) for _ in range(2)])
    living = torch.rand(2, count, generator=generator) < alive
    living[:, :taggers] = True  # taggers never leave before the end
    living[:, 125] = True
    for core in cores:
        core.reset()
        core.world_state["pos"].copy_(spots)
        core.alive.copy_(living)
    action = torch.zeros(2, count, 2, dtype=torch.int64)
    left, right = (core.step(action) for core in cores)
    assert_same(left, right)
    visible = left[0][..., 6 * observed : 7 * observed].sum(-1)  # how many are seen: with the fewest alive, not enough
    assert torch.equal(visible, (living.sum(1, keepdim=True) - 1).clamp(max=observed) * living)


@pytest.mark.slow
def test_starts_outside_of_the_square_work():
    """Given starts are observed before anyone moves, also where the square has shrunk meanwhile."""
    places = np.random.default_rng(0).random((2, 40)) * 4.0
    starts = {"starting_location_x": tuple(places[0]), "starting_location_y": tuple(places[1])}
    settings = dict(num_taggers=5, num_runners=35, grid_length=4.0, num_other_agents_observed=7, **starts)
    brute, grid = make_cores(1, settings | {"starting_directions": (0.0,) * 40})
    for length in (4.0, 1.5, 0.01):
        for core in (brute, grid):
            core.set_params(grid_length=length)
        assert torch.equal(brute.reset()[0], grid.reset()[0])


# ---------------------------------------------------------------- the laws


@pytest.mark.slow
def test_cell_search_conforms():
    """The laws of `check_env`, which has other schedules and orders of siblings among them."""
    gpu_envs.check_env(ID, **SMALL)


# ---------------------------------------------------------------- choice of the search


def test_search_is_chosen_by_size():
    """Among all while they are few, in cells when they are many."""
    assert choose_search(105, 10) == "brute"
    assert choose_search(1000, 10) == "grid"
    assert choose_search(100_000, 0) == "brute"
    cells = {n: make_core(ID, 1, "cpu", **many_agents(n, 10)).world_state["cells"].numel() for n in (105, 1000)}
    assert cells[105] == 0
    assert 400 < cells[1000] < 1000
    with pytest.raises(ConfigError, match="neighbor_search='grid' needs use_full_observation=False"):
        make_core(ID, 1, "cpu", use_full_observation=True, neighbor_search="grid")


def bytes_of(core):
    return sum(tensor.numel() * tensor.element_size() for tensor in core.get_state().values())


def test_memory_is_linear_in_agents():
    small, large = (bytes_of(make_core(ID, 1, "cpu", **many_agents(n, 10))) / n for n in (1000, 16_000))
    assert large < 1.02 * small
    assert large < 1000


@pytest.mark.optimized
@pytest.mark.parametrize(
    ("schedule", "settings"),
    [
        pytest.param("fused", SMALL, marks=pytest.mark.slow),
        pytest.param("phased", SMALL, marks=pytest.mark.slow),
        pytest.param("phased", many_agents(100_000, 10), marks=pytest.mark.slow),
    ],
    ids=["fused", "phased", "many_agents"],
)
def test_cell_search_compiles_for_cuda(schedule, settings, tmp_path):
    warp_kernels.start()
    kind, build = find(ID).load()
    module = kernels.kernel_program(build(build_config(kind, settings, ID)).rules, schedule, True).module
    architecture = 80 if schedule == "fused" else wp.get_cuda_supported_archs()[-1]
    paths = wp.compile_aot_module(module, device=None, arch=[architecture], module_dir=tmp_path)
    assert sum(path.suffix == ".cubin" for path in paths) == 1


# ---------------------------------------------------------------- many agents


@pytest.mark.slow
def test_many_agents_observe_their_nearest():
    """20,000 agents: neighbors and tags of a sample of agents against NumPy, after steps of random play."""
    core = make_core(ID, 1, "cpu", seed=0, **many_agents(20_000, 10, reach=1.5))
    core.reset()
    generator = np.random.default_rng(0)
    tags = 0
    for _ in range(8):
        obs, *_, info = core.step(core.sample_actions())
        state = {name: tensor[0].numpy() for name, tensor in core.world_state.items()}
        pos, visible, taggers = state["pos"], state["shown"], core.config.num_taggers
        for row in generator.choice(20_000, 150, replace=False):
            if not info["valid"][0, row]:
                continue
            delta = pos - pos[row]
            distance = np.sqrt(delta[:, 0] * delta[:, 0] + delta[:, 1] * delta[:, 1])
            order = np.lexsort((np.arange(20_000), np.where(visible, distance, np.inf)))
            nearest = order[order != row][:10]
            diagonal = np.float32(np.sqrt(2.0)) * np.float32(core.config.grid_length)
            expected = np.concatenate([delta[nearest, 0] / diagonal, delta[nearest, 1] / diagonal])
            np.testing.assert_allclose(obs[0, row, :20].numpy(), expected, rtol=0, atol=1e-7)
            if row >= taggers:
                tagger = int(np.argmin(distance[:taggers]))
                caught = tagger if distance[tagger] < core.get_params()["tagging_margin"].item() else -1
                assert state["caught_by"][row] == caught
                tags += caught >= 0
    assert tags > 20

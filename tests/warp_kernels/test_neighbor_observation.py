"""TagContinuous finds and observes neighbors on a GPU by other functions than on a CPU, with equal results."""

import functools
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
import warp as wp
from many_agents import SMALL as CELLS
from many_agents import many_agents
from played import assert_same, play
from small_environments import SMALL

import warp_kernels
from gpu_envs.definition.registry import find
from gpu_envs.runtime.factory import make_core
from gpu_envs.runtime.kernels import kernel_program
from gpu_envs.utils.settings import build_config
from warp_kernels.framework.step import step_phases
from warp_kernels.spatial import brute_force_knn
from warp_kernels.tag import tag_continuous

TAG = "TagContinuous-v0"
CROWDED = SMALL[TAG] | {"num_other_agents_observed": 9}  # more than there are
FULL = SMALL[TAG] | {"use_full_observation": True}
ROWS = many_agents(70, 12, taggers=9, reach=0.6, spacing=0.5, episode_length=12, neighbor_search="brute")


@wp.func
def always() -> bool:
    return True


@pytest.fixture
def as_on_gpu(monkeypatch):
    """Function that makes a core whose kernels take the branches of a GPU.

    Kernels are built at the first launch: cores of the CPU's branches have to play before this is called.
    """
    original = tag_continuous.rules.__wrapped__

    def rules(*sizes):
        built = original(*sizes)
        return replace(built, key=f"{built.key} as on a GPU")

    def build(*arguments, **settings):
        monkeypatch.setattr(brute_force_knn, "on_gpu", always)
        monkeypatch.setattr(tag_continuous, "rules", rules)
        return make_core(TAG, *arguments, **settings)

    return build


@pytest.mark.parametrize("schedule", [pytest.param("fused", marks=pytest.mark.slow), "phased"])
@pytest.mark.parametrize(
    "settings",
    [
        SMALL[TAG],
        pytest.param(CROWDED, marks=pytest.mark.slow),
        pytest.param(ROWS, marks=pytest.mark.slow),
        pytest.param(ROWS | {"num_other_agents_observed": 69}, marks=pytest.mark.slow),
        pytest.param(ROWS | {"runner_exits_game_after_tagged": False}, marks=pytest.mark.slow),
        pytest.param(many_agents(33, 20, episode_length=12, neighbor_search="brute"), marks=pytest.mark.slow),
    ],
    ids=["nearest", "all", "70 agents", "70 agents, all", "70 agents that stay", "33 agents"],
)
def test_search_in_registers_equals_search_by_counting(settings, schedule, as_on_gpu):
    counting = make_core(TAG, 9, "cpu", seed=3, **settings)
    expected = play(counting, 30)
    registers = as_on_gpu(9, "cpu", seed=3, schedule=schedule, **settings)
    assert registers._launcher.program is not counting._launcher.program
    assert_same(expected, play(registers, 30))
    near = counting.world_state["near"]
    assert torch.equal(near, registers.world_state["near"])
    assert len(near.unique()) > 5


def lattice(side, left_out):
    """Return sites of a square lattice (N, 2) float32, of which many have equal distances."""
    sites = np.meshgrid(np.arange(side) + 1, np.arange(side) + 1)
    return 0.5 * np.stack([np.delete(axis.ravel(), left_out) for axis in sites], 1, dtype=np.float32)


@pytest.mark.variations
@pytest.mark.parametrize(
    ("side", "left_out", "observed"),
    [(3, (6, 8), SMALL[TAG]["num_other_agents_observed"]), (3, (), 5), (6, (), 10)],  # the first has SMALL's kernels
    ids=["7 agents", "9 agents", "36 agents"],
)
def test_equal_distances_are_in_the_order_of_rows(side, left_out, observed, as_on_gpu):
    positions = lattice(side, left_out)
    distance = np.linalg.norm(positions[:, None] - positions[None], axis=-1)
    np.fill_diagonal(distance, np.inf)
    expected = distance.argsort(axis=1, kind="stable")[:, :observed]
    assert (np.diff(np.sort(distance, axis=1)[:, : observed + 1]) == 0).any(1).all()
    settings = SMALL[TAG] | {
        "num_runners": len(positions) - 2,
        "num_other_agents_observed": observed,
        "tagging_distance": 0.0,
    }
    settings |= {"grid_length": 0.5 * side + 0.5, "neighbor_search": "brute", "schedule": "phased"}
    for build in (functools.partial(make_core, TAG), as_on_gpu):
        core = build(2, "cpu", **settings)
        core.reset()
        state = core.world_state
        state["pos"].copy_(torch.from_numpy(positions))
        state["speed"].zero_()  # they stand still
        state["near"].fill_(-1)  # the first search has no neighbors of an earlier one
        for _ in range(3):
            core.step(torch.zeros_like(core.action_buffer))
            assert state["near"].tolist() == [expected.tolist()] * 2


@pytest.mark.variations(quick=3)
@pytest.mark.parametrize("settings", [SMALL[TAG], FULL, CELLS, CROWDED], ids=["nearest", "full", "cells", "all"])
def test_slots_of_an_observation_equal_the_observation(settings):
    """Phased, every thread writes the numbers of one slot; fused, of one agent."""
    fused, phased = (make_core(TAG, 9, "cpu", seed=3, schedule=how, **settings) for how in ("fused", "phased"))
    rules = fused.definition.rules
    items = rules.num_agents * rules.observe_slots
    phases = [phase for part in (step_phases(rules, in_slots=True).play, step_phases(rules, in_slots=True).start)
              for phase in part if phase.called in ("observe", "reobserve")]  # fmt: skip
    assert [phase.over for phase in phases] == [items, items]
    histories = play(fused, 30), play(phased, 30)
    assert_same(*histories)
    assert any(not step["valid"].all() for step in histories[0])  # rows of zeros, too
    assert any(step["terminated"].any() for step in histories[0])


@pytest.mark.slow
@pytest.mark.optimized  # the default of users
@pytest.mark.parametrize("settings", [{}, {"use_full_observation": True}, {"neighbor_search": "grid"}])
def test_gpu_kernels_keep_their_arrays_in_registers(settings, tmp_path):
    """At the default sizes only the trigonometry of a move has an array in local memory."""
    warp_kernels.start()
    kind, build = find(TAG).load()
    module = kernel_program(build(build_config(kind, settings, TAG)).rules, "phased", True).module
    wp.compile_aot_module(module, device=None, arch=[90], module_dir=tmp_path, use_ptx=True)
    (file,) = tmp_path.rglob("*.ptx")
    entries = file.read_text().split(".visible .entry ")[1:]
    assert len(entries) > 8
    assert [re.match(r"\w+?_agent", entry)[0] for entry in entries if "local_depot" in entry] == ["step_2_agent"]

"""Pursuit-v0: recorded transitions of PettingZoo's pursuit_v4, starts, catches, rewards, ends and settings.

``make test-parity`` plays the original itself with random settings, see tests/libraries/test_sisl.py.
"""

from pathlib import Path

import pytest
import torch

from docs.scripts import tables
from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core
from parity.grid.pursuit_replay import replay
from parity.traces import recorded

TRACE = Path(__file__).with_name("pursuit.npz.xz")
LEFT, RIGHT, UP, DOWN, STAY = range(5)
MAP = {"x_size": 5, "y_size": 6, "n_pursuers": 6, "n_evaders": 5, "freeze_evaders": True}
"""The building has the columns 2 and 3 and the rows 2 to 4."""


def at(pursuers, evaders, **settings):
    """Return a core with one world in which pursuers and evaders are in these cells; the other evaders are gone."""
    core = make_core("Pursuit-v0", 1, "cpu", seed=0, autoreset="disabled", **MAP | settings)
    core.reset()
    core.world_state["pursuer"][0] = torch.tensor((pursuers * 6)[:6])
    core.world_state["evader"][0] = torch.tensor((evaders * 5)[:5])
    core.world_state["catch_step"][0] = 1000
    core.world_state["catch_step"][0, : len(evaders)] = 0
    return core


@pytest.mark.variations(quick=2)
@pytest.mark.parametrize("index", [1, 2, 0, 3])
def test_recorded_transitions_equal_the_original(index):
    settings, trace = recorded(TRACE, index)
    counts = replay(settings, trace)
    assert counts["steps"] == (100, 400, 250, 250)[index]
    assert index == 0 or min(counts[name] for name in ("caught", "caught twice by one", "truncated")) > 2, counts
    assert (counts["moves of evaders"] > 100) != settings.get("freeze_evaders", False)


@pytest.mark.parametrize(("surround", "helpers"), [(True, [1, 1, 1, 1, 0, 0]), (False, [0, 0, 0, 0, 1, 1])])
def test_evader_is_caught_by_pursuers_on_all_open_cells_beside_it_or_on_its_cell(surround, helpers):
    around = [(1, 0), (1, 2), (0, 1), (2, 1), (1, 1), (1, 1)]
    core = at(around, [(1, 1)], surround=surround, shared_reward=False, tag_reward=0.0, urgency_reward=0.0)
    _, reward, terminated, _, info = core.step(torch.full((1, 6), STAY))
    assert info["catches"].tolist() == [helpers]
    assert reward.tolist() == [[5.0 * helper for helper in helpers]]
    assert terminated.all()
    core = at([*around[:3], (4, 5), (1, 1), (4, 0)], [(1, 1)], surround=surround)
    _, _, terminated, _, info = core.step(torch.full((1, 6), STAY))
    assert info["catches"].sum() == 0
    assert not terminated.any()


def test_walls_and_the_building_surround_too():
    core = at([(0, 1), (1, 0), (1, 4)], [(0, 0)])
    assert core.step(torch.full((1, 6), STAY))[2].all(), "a corner has two open cells beside it"
    core = at([(1, 1), (1, 3), (0, 2)], [(1, 2)])
    assert core.step(torch.full((1, 6), STAY))[2].all(), "the building is on the right"


def test_evaders_beside_a_pursuer_count_by_the_moves_that_see_it_there():
    """Rewards are the mean over the moves: pursuer 2 is beside the evader after 4 of 6, and it was not before."""
    settings = {"shared_reward": False, "urgency_reward": 0.0, "tag_reward": 6.0}
    core = at([(4, 0)] * 2 + [(2, 1)] + [(4, 0)] * 3, [(0, 1)], **settings)
    reward = core.step(torch.tensor([[STAY, STAY, LEFT, STAY, STAY, STAY]]))[1]
    assert reward.tolist() == [[0.0, 0.0, 4.0, 0.0, 0.0, 0.0]]


def test_sides_beyond_the_map_are_the_own_cell():
    core = at([(0, 0), (4, 2), (1, 1), (4, 4)], [(0, 0), (4, 2)], shared_reward=False, urgency_reward=0.0)
    reward = core.step(torch.full((1, 6), STAY))[1][0] / 0.01
    assert reward.round().int().tolist() == [2, 1, 0, 0, 2, 1]  # pursuers 4 and 5 are beside pursuers 0 and 1


def test_last_evader_caught_at_the_limit_truncates():
    for limit, ends in ((2, (True, False)), (1, (False, True))):
        core = at([(0, 1), (1, 0), (1, 4)], [(0, 0)], max_cycles=limit)
        _, _, terminated, truncated, _ = core.step(torch.full((1, 6), STAY))
        assert (bool(terminated.all()), bool(truncated.all())) == ends


def test_evaders_walk_in_all_directions_equally_and_stop_at_walls():
    core = make_core("Pursuit-v0", 4000, "cpu", seed=0, **MAP | {"freeze_evaders": False, "n_evaders": 5})
    core.reset()
    core.world_state["pursuer"].zero_()
    core.world_state["evader"][:] = torch.tensor([[0, 0], [1, 2], [4, 5], [0, 3], [3, 1]])
    core.step(torch.full((4000, 6), STAY))
    for index, cells in enumerate(({(0, 0): 3, (1, 0): 1, (0, 1): 1}, {(1, 2): 2, (0, 2): 1, (1, 1): 1, (1, 3): 1})):
        for cell, count in cells.items():
            share = (core.world_state["evader"][:, index] == torch.tensor(cell)).all(-1).float().mean()
            assert abs(share - count / 5) < 0.03


def test_starts_are_open_cells_apart_from_each_other():
    core = make_core("Pursuit-v0", 2000, "cpu", seed=0)
    core.reset()
    for name in ("pursuer", "evader"):
        cells = core.world_state[name].long()
        x, y = cells.unbind(-1)
        assert not ((x >= 5) & (x <= 11) & (y >= 4) & (y <= 12)).any()
        gaps = (cells[:, :, None] - cells[:, None]).abs().sum(-1) + 99 * torch.eye(cells.shape[1], dtype=torch.long)
        assert gaps.min() == 2


def test_starts_are_in_a_random_window():
    core = make_core("Pursuit-v0", 3000, "cpu", seed=0, constraint_window=0.5, n_evaders=4, n_pursuers=4)
    core.reset()
    cells = torch.cat([core.world_state[name] for name in ("pursuer", "evader")], 1).long()
    low, high = cells.amin(1), cells.amax(1)
    assert (high - low).max() == 7
    assert low.min() == 0
    assert high.max() == 14, "the original never uses the last column or row with a window"


def test_start_without_room_uses_any_open_cell():
    core = make_core("Pursuit-v0", 200, "cpu", seed=0, x_size=5, y_size=6, n_pursuers=6, n_evaders=40)
    core.reset()
    cells = core.world_state["evader"]
    assert cells.min() == 0
    x, y = cells.unbind(-1)
    assert not ((x >= 2) & (x <= 3) & (y >= 2) & (y <= 4)).any()


def test_action_table():
    moves = {"x - 1": (-1, 0), "x + 1": (1, 0), "y + 1": (0, 1), "y - 1": (0, -1)}
    (table,) = tables.action_tables("grid/pursuit")
    for action, meaning in table:
        core = at([(1, 1), (0, 0)], [(4, 5)])
        core.step(torch.full((1, 6), action))
        change = core.world_state["pursuer"][0, 0] - torch.tensor([1, 1])
        assert tuple(change.tolist()) == next((moves[words] for words in moves if words in meaning), (0, 0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"constraint_window": 0.0}, "constraint_window: expected"),
        (
            {"constraint_window": 0.05},
            "constraint_window: expected a window that always has a cell beside the building",
        ),
        ({"constraint_window": 0.2}, "of 16 x 16 cells, got 0.2; use a larger window"),
        ({"num_evaders": 3}, "n_evaders"),
        ({"evader_controller": "random"}, "evaders walk at random; freeze_evaders=True lets them stay"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        make_core("Pursuit-v0", 1, "cpu", **settings)

"""MatrixGame-v0 against tables read by NumPy, and OpenSpiel 2.0.2's matrix games as tables."""

import numpy as np
import pyspiel
import pytest
import torch

from gpu_envs import errors
from gpu_envs.runtime.factory import make_core

SHAPES = {"three": (2, 4, 3), "bandit": (4,), "two": (2, 2), "unequal": (3, 5), "four": (2, 1, 3, 2)}
STEPS = 5


@pytest.mark.variations
@pytest.mark.parametrize("shape", SHAPES)
def test_play_equals_the_reference(shape):
    """Rewards, observations and ends are equal in every step of several episodes."""
    counts = SHAPES[shape]
    players, games = len(counts), 64
    table = np.random.default_rng(0).normal(size=(*counts, players)).astype(np.float32)
    core = make_core("MatrixGame-v0", games, "cpu", seed=0, payoff=table, num_repetitions=STEPS, autoreset="disabled")
    assert [core.action_spaces[agent].n for agent in core.possible_agents] == list(counts)
    obs, _ = core.reset()
    assert not obs.any()
    joint_actions = set()
    for _ in range(6):
        for t in range(1, STEPS + 1):
            action = core.sample_actions()
            obs, reward, terminated, truncated, _ = core.step(action)
            for world, choices in enumerate(action.tolist()):
                joint_actions.add(tuple(choices))
                np.testing.assert_array_equal(reward[world], table[tuple(choices)])
                for row in range(players):
                    order = [(row + further) % players for further in range(players)]
                    one_hot = [np.eye(counts[player])[choices[player]] for player in order]
                    np.testing.assert_allclose(obs[world, row], np.concatenate([*one_hot, [t / STEPS]]), rtol=1e-6)
            assert (terminated == (t == STEPS)).all()
            assert not truncated.any()
        core.reset()
    assert len(joint_actions) == np.prod(counts)


@pytest.mark.parametrize("name", ["matrix_pd", "matrix_bos", "matrix_brps", "matrix_sh", "matrix_shapleys_game"])
def test_openspiels_tables(name):
    game = pyspiel.load_game(name)
    rows, columns = game.num_rows(), game.num_cols()
    payoff = [[[game.player_utility(p, r, c) for p in range(2)] for c in range(columns)] for r in range(rows)]
    core = make_core("MatrixGame-v0", rows * columns, "cpu", payoff=payoff, num_repetitions=1)
    core.reset()
    joint = torch.tensor([[r, c] for r in range(rows) for c in range(columns)])
    *_, info = core.step(joint)
    for (r, c), returns in zip(joint.tolist(), info["episode_return"].tolist(), strict=True):
        state = game.new_initial_state()
        state.apply_actions([r, c])
        assert returns == state.returns()


def test_one_table_serves_all_worlds():
    """Four players of ten choices: 160 kB, not a copy for each of 1,000 worlds; and no part of a saved state."""
    core = make_core("MatrixGame-v0", 1000, "cpu", payoff=np.zeros((10, 10, 10, 10, 4)), num_repetitions=2)
    core.reset()
    assert core.world_state["payoff"].shape == (1000, 10_000, 4)
    assert core.world_state["payoff"].untyped_storage().nbytes() == 160_000
    assert not any("payoff" in name for name in core.get_state())
    core.world_state["payoff"][0, 1234] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    _, reward, *_ = core.step(torch.tensor([[1, 2, 3, 4]] * 1000))
    assert torch.equal(reward, torch.tensor([1.0, 2.0, 3.0, 4.0]).expand(1000, 4))


def test_symmetric_players_form_a_group():
    table = np.random.default_rng(1).normal(size=(3, 3, 3))
    symmetric = sum(table.transpose(order) for order in ((0, 1, 2), (0, 2, 1)))  # own choice first, others alike
    everyone = np.stack([symmetric, symmetric.transpose(1, 0, 2), symmetric.transpose(1, 2, 0)], -1)
    assert make_core("MatrixGame-v0", 1, "cpu", payoff=everyone).groups == {"player": (0, 1, 2)}
    everyone[0, 1, 2, 0] += 1
    assert len(make_core("MatrixGame-v0", 1, "cpu", payoff=everyone).groups) == 3
    assert make_core("MatrixGame-v0", 1, "cpu").groups == {"player": (0, 1)}
    battle = [[[3, 2], [0, 0]], [[0, 0], [2, 3]]]  # of the sexes
    assert make_core("MatrixGame-v0", 1, "cpu", payoff=battle).groups == {"player_0": (0,), "player_1": (1,)}


@pytest.mark.parametrize(
    ("payoff", "words"),
    [
        ([[1, 2], [3, 4]], r"payoff: expected numbers in the shape \(n_1, ..., n_P, P\) .*got shape \(2, 2\)"),
        ([[[1, 2], [3]]], r"got \[\[\[1, 2\], \[3\]\]\]"),
        ("rps", "got 'rps'"),
        (None, "got None"),
        (7.0, r"got shape \(\)"),
        ([[[True, False]]], r"got \[\[\[True, False\]\]\]"),
        (np.zeros((0, 2, 2)), r"got shape \(0,\)"),
        ([[[1.0, 2.0]], [[1.0, float("nan")]]], r"payoff: expected finite numbers .*got nan at \[1\]\[0\]\[1\]"),
        ([[[1.0, 10**40]]], "payoff: expected finite numbers of at most 3.4"),
        ([[[1.0, 1e39]]], "payoff: expected finite numbers of at most 3.4"),
    ],
)
def test_invalid_tables_raise(payoff, words):
    with pytest.raises(errors.ConfigError, match=words) as caught:
        make_core("MatrixGame-v0", 1, "cpu", payoff=payoff)
    assert str(caught.value).startswith("MatrixGame-v0: ")
    assert "\n" not in str(caught.value)

"""RockPaperScissors-v0 against OpenSpiel 2.0.2's matrix_rps, and against MatrixGame-v0 on its table."""

import pyspiel
import torch

from gpu_envs.runtime.factory import make_core

GAME = pyspiel.load_game("matrix_rps")
PAYOFF = [[[GAME.player_utility(p, r, c) for p in range(2)] for c in range(3)] for r in range(3)]


def test_all_action_pairs_equal_the_reference():
    core = make_core("RockPaperScissors-v0", 9, "cpu", num_repetitions=1)
    core.reset()
    joint = torch.tensor([[r, c] for r in range(3) for c in range(3)])
    _, reward, terminated, truncated, _ = core.step(joint)
    assert reward.tolist() == [PAYOFF[r][c] for r, c in joint.tolist()]
    assert terminated.all()
    assert not truncated.any()


def test_plays_as_a_matrix_game():
    """Whole episodes, bit for bit: results, spaces, groups."""
    ours, table = (
        make_core(name, 50, "cpu", seed=3, num_repetitions=6, **settings)
        for name, settings in (("RockPaperScissors-v0", {}), ("MatrixGame-v0", {"payoff": PAYOFF}))
    )
    assert torch.equal(ours.reset()[0], table.reset()[0])
    assert ours.groups == table.groups
    assert ours.observation_spaces == table.observation_spaces
    for _ in range(20):
        action = ours.sample_actions()
        assert torch.equal(action, table.sample_actions())
        left, right = ours.step(action), table.step(action)
        for a, b in zip((*left[:4], *left[4].values()), (*right[:4], *right[4].values()), strict=True):
            assert torch.equal(a, b)
    assert (ours.episode_index == 3).all()

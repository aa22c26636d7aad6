"""Scripted policy of Hanabi-v0: its choices in states set by hand, all legal, and scores above random play.

``make test-parity`` compares it with the SimpleAgent of the Hanabi Learning Environment.
"""

import torch

from gpu_envs.runtime.factory import make_core
from trainers.evaluation.policy_evaluation import evaluate_policies
from trainers.evaluation.scripted_policies import HanabiPolicy

SMALL = dict(players=3, colors=2, ranks=3, hand_size=2, max_information_tokens=3, max_life_tokens=2)
DISCARD, PLAY, COLOR = 0, 2, 4
"""First actions of each kind; COLOR + 2 * n + c tells the color c to player +(n + 1)."""


def choice(hand, **state):
    """Return the action of player 0, who sees the hands of players 1 and 2."""
    core = make_core("Hanabi-v0", 1, "cpu", seed=0, **SMALL)
    core.reset()
    for name, value in {"hand": hand, **state}.items():
        core.world_state[name][0] = torch.tensor(value)
    return int(HanabiPolicy(core, "player_0").act(core.obs)[0, 0])


def test_first_hinted_card_is_played():
    hands = [[0, 5], [0, 3], [0, 3]]
    assert choice(hands, revealed=[[0, 1 << 1], [0, 0], [0, 0]]) == PLAY + 1


def test_color_of_the_first_playable_card_is_hinted():
    assert choice([[0, 0], [2, 4], [5, 3]]) == COLOR + 2 + 1  # only the last card is the first of its color
    assert choice([[0, 0], [2, 4], [5, 3]], fireworks=[0, 1]) == COLOR + 1  # card 4 has rank 1 of color 1
    hints = [[0, 0], [0, 0], [0, 1 << 1]]  # bits of colors that other players named, by player and card
    assert (
        choice([[0, 0], [2, 4], [5, 3]], revealed=hints) == PLAY
    )  # the third player knows the color of its second card


def test_without_a_hint_to_give_the_first_card_is_discarded_or_played():
    assert choice([[0, 0], [2, 2], [5, 5]]) == PLAY
    assert choice([[0, 0], [2, 2], [5, 5]], information=2) == DISCARD
    assert choice([[0, 0], [0, 0], [0, 0]], information=0) == DISCARD


def test_choices_are_legal_and_better_than_random_play():
    core = make_core("Hanabi-v0", 256, "cpu", seed=0, reuse_buffers=True, keep_score=True, **SMALL)
    core.reset()
    policy = HanabiPolicy(core, "player")
    for _ in range(30):
        action = policy.act(core.obs)
        legal = core.action_mask.gather(2, action[..., None]).squeeze(-1)
        assert legal[core.to_move].all()
        core.step(torch.where(core.to_move, action, 0))
    chance = evaluate_policies(core, {"player": None}, seed=1).returns["player"]
    ours = evaluate_policies(core, {"player": policy}, seed=1).returns["player"]
    assert ours.mean - ours.half > chance.mean + chance.half, f"{ours} against {chance}"

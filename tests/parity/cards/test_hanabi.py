"""Hanabi-v0 against OpenSpiel 2.0.2's hanabi, and recorded games of the Hanabi Learning Environment 0.0.4."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from gpu_envs.envs.cards.hanabi import original_settings
from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core
from parity.cards.hanabi_games import play_beside_openspiel, random_settings, replay
from parity.traces import recorded

TRACE = Path(__file__).with_name("hanabi.npz.xz")
SMALL = dict(players=3, colors=2, ranks=3, hand_size=2, max_information_tokens=3, max_life_tokens=2)
RANDOM_SETTINGS, GAMES = 20, 510


def make(worlds=1, **settings):
    core = make_core("Hanabi-v0", worlds, "cpu", seed=0, autoreset="disabled", **settings)
    core.reset()
    return core


def act(core, choice):
    """Let the players to act all choose this action."""
    return core.step(torch.full((core.num_envs, core.num_agents), choice))


# ---------------------------------------------------------------- parity


@pytest.mark.variations
@pytest.mark.parametrize(("seed", "settings"), [(1, SMALL), (0, {})])
def test_random_games_equal_openspiel(seed, settings):
    counts = play_beside_openspiel(150, seed, **settings)
    assert min(counts[name] for name in ("scored", "score lost", "lost", "out of cards")) > 5, counts
    assert counts["moves"] > 1000


@pytest.mark.slow
def test_ten_thousand_random_games_with_random_settings_equal_openspiel():
    total = Counter()
    for seed in range(RANDOM_SETTINGS):
        total += play_beside_openspiel(GAMES, seed, **random_settings(np.random.default_rng(seed)))
    assert total["games"] == RANDOM_SETTINGS * GAMES >= 10_000
    assert total["moves"] >= 100_000
    assert min(total[name] for name in ("scored", "score lost", "lost", "completed", "out of cards")) > 200, total


@pytest.mark.variations
@pytest.mark.parametrize("index", range(4))
def test_recorded_games_equal_the_learning_environment(index):
    settings, trace = recorded(TRACE, index)
    counts = replay(settings, trace)
    assert counts["moves"] == trace["length"].sum() > 50
    assert counts["scored"] > 20
    assert counts["lost"] + counts["out of cards"] + counts["completed"] == len(trace["deck"])


# ---------------------------------------------------------------- starts


def test_decks_have_every_card_and_hands_are_their_top():
    core = make(512)
    deck, hand = core.world_state["deck"], core.world_state["hand"]
    expected = [3, 2, 2, 2, 1] * 5
    assert all(torch.bincount(cards, minlength=25).tolist() == expected for cards in deck)
    assert torch.equal(hand.flatten(1), deck[:, :10])
    assert (core.world_state["dealt"] == 10).all()


def test_cards_at_every_place_of_the_deck_are_uniform():
    """Chi-square of the cards at every place, and of pairs of neighbors."""
    core = make(20_000, **SMALL)
    deck, copies = core.world_state["deck"].numpy(), np.array([3, 2, 1, 3, 2, 1])
    for position in range(12):
        counts = np.bincount(deck[:, position], minlength=6)
        expected = copies / 12 * len(deck)
        assert ((counts - expected) ** 2 / expected).sum() < 5 + 5 * 10**0.5
    pairs = np.bincount(deck[:, 0] * 6 + deck[:, 1], minlength=36)
    expected = (copies[:, None] * (copies - np.eye(6, dtype=int)) / 132).ravel() * len(deck)
    assert not pairs[expected == 0].any()
    possible = expected > 0
    freedom = possible.sum() - 1
    assert ((pairs - expected)[possible] ** 2 / expected[possible]).sum() < freedom + 5 * (2 * freedom) ** 0.5


def test_random_player_starts_if_asked():
    first = make(3000, random_start_player=True, **SMALL).world_state["mover"].bincount(minlength=3) / 3000
    assert (first - 1 / 3).abs().max() < 0.04
    assert (make(100, **SMALL).world_state["mover"] == 0).all()


# ---------------------------------------------------------------- rules


def at(hands, settings=None, **state):
    """Return a core with one world in which the players hold these cards, and other fields have these values."""
    core = make(**(settings or {}))
    arrays = core.get_state()
    for name, value in {"hand": hands, **state}.items():
        arrays[f"state.{name}"] = torch.tensor([value], dtype=arrays[f"state.{name}"].dtype)
    arrays["io.action_mask"][:] = True
    core.set_state(arrays)
    return core


FIRST, SECOND = [4, 0, 1, 2, 3], [7, 13, 7, 20, 24]
"""Hands; cards 5 to 9 have color 1."""


def test_play_that_completes_a_color_returns_a_token_below_the_most():
    for tokens, after in ((5, 6), (8, 8)):
        core = at([FIRST, SECOND], fireworks=[4, 0, 0, 0, 0], information=tokens)
        reward = act(core, 5)[1]
        assert reward.tolist() == [[1.0, 1.0]]
        assert core.world_state["information"].item() == after
        assert core.world_state["fireworks"][0].tolist() == [5, 0, 0, 0, 0]
        assert core.world_state["hand"][0, 0].tolist() == [0, 1, 2, 3, core.world_state["deck"][0, 10].item()]


def test_wrong_play_costs_a_life_and_is_discarded():
    core = at([FIRST, SECOND])
    assert act(core, 5 + 4)[1].tolist() == [[0.0, 0.0]]
    assert core.world_state["lives"].item() == 2
    assert core.world_state["discards"][0].tolist() == [1 << 7, 0, 0, 0, 0]


@pytest.mark.parametrize(("keep", "reward"), [(False, -7.0), (True, 0.0)])
def test_last_life_loses_the_score_unless_it_is_kept(keep, reward):
    core = at([FIRST, SECOND], fireworks=[3, 2, 1, 1, 0], lives=1)
    core.set_params(keep_score=int(keep))
    result = act(core, 5)
    assert result[1].tolist() == [[reward, reward]]
    assert result[2].all()


def test_every_player_has_one_turn_after_the_last_card():
    core = at([[0, 0]] * 3, SMALL, dealt=12, information=0)
    for turn in range(3):
        terminated = act(core, 0)[2]  # discard
        assert terminated.all() == (turn == 2)
    assert core.world_state["hand"][0].tolist() == [[0, -1]] * 3


def test_hint_reveals_matches_and_excludes_the_rest():
    core = at([FIRST, SECOND])
    act(core, 2 * 5 + 1)  # color 1 to the next player
    assert core.world_state["revealed"][0].tolist() == [[0] * 5, [2, 0, 2, 0, 0]]
    color = sum(1 << card for card in range(5, 10))
    complement = (2**25 - 1) & ~color
    assert core.world_state["plausible"][0, 1].tolist() == [color, complement, color, complement, complement]
    assert core.world_state["last_hinted"].item() == 0b101
    assert core.world_state["information"].item() == 7


@pytest.mark.parametrize(("keep", "loss"), [(False, 2.0), (True, 0.0)])
@pytest.mark.parametrize("schedule", ["fused", pytest.param("phased", marks=pytest.mark.slow)])
def test_illegal_action_ends_the_game_as_the_last_life_does(schedule, keep, loss):
    core = make(schedule=schedule, illegal_actions="loss", keep_score=keep)
    core.world_state["fireworks"][0, 0] = 2
    _, reward, terminated, *_ = act(core, 0)  # a discard with all information tokens
    assert reward.tolist() == [[-loss, -loss]]
    assert terminated.all()


def test_no_game_is_longer_than_the_time_limit():
    """Discards and hints alternate, which is the longest game."""
    core = make(64, **original_settings("Hanabi-Very-Small"))
    limit, longest = core.config.sizes.most_turns, 0
    while core.alive.any():
        mask = core.action_mask
        hints, discards = mask[..., 4:].any(-1), mask[..., :2].any(-1)
        hint, drop = 4 + mask[..., 4:].int().argmax(-1), mask[..., :2].int().argmax(-1)
        action = torch.where(hints, hint, torch.where(discards, drop, 2))
        core.step(torch.where(core.to_move, action, 0))
        longest += 1
    assert limit - 2 <= longest <= limit


def test_global_state_shows_all_hands_from_seat_zero():
    core = make(1, **SMALL)
    state, sizes = core.state()[0], core.config.sizes
    hands = state[: 3 * 2 * 6].view(3, 2, 6).argmax(-1)
    assert torch.equal(hands.int(), core.world_state["hand"][0])
    offset = sizes.other_hands
    public = slice(offset, offset + 3 + sizes.board + sizes.deck + sizes.last_action + sizes.knowledge)
    assert torch.equal(state[2 * 6 + offset : -3], core.obs[0, 0, public])
    assert state[-3:].tolist() == [1.0, 0.0, 0.0]


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hand_size": 6, "players": 5, "colors": 2}, "hand_size: expected at most 4 with 5 players and a deck of 20"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        make(**settings)


def test_names_of_the_original_become_settings():
    sizes = make(**original_settings("Hanabi-Very-Small")).config.sizes
    assert (sizes.cards, sizes.deck, sizes.hand_size, sizes.actions) == (5, 10, 2, 10)
    assert original_settings("Hanabi-Full") == {}
    with pytest.raises(ConfigError, match="expected one of Hanabi-Full"):
        original_settings("Hanabi")
    full = make(**original_settings("Hanabi-Full"))
    assert full.observation_spaces["player_0"].shape == (658,)
    assert full.action_spaces["player_0"].n == 20

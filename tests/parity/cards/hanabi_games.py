"""Games of Hanabi-v0 beside OpenSpiel's hanabi, and replays of recorded games."""

from collections import Counter

import numpy as np
import pyspiel
import torch

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core

KINDS = ("minimal", "card_knowledge", "seer")


def random_settings(rng):
    """Return settings drawn at random, with enough cards for the hands. Some games have many tokens."""
    from gpu_envs.envs.cards.hanabi import Config

    while True:
        settings = dict(
            players=int(rng.integers(2, 6)), colors=int(rng.integers(1, 6)), ranks=int(rng.integers(1, 6)),
            hand_size=None if rng.random() < 0.3 else int(rng.integers(1, 9)),
            max_information_tokens=int(rng.integers(0, 101 if rng.random() < 0.15 else 9)),
            max_life_tokens=int(rng.integers(1, 101 if rng.random() < 0.15 else 6)),
            observation_type=KINDS[rng.integers(3)], random_start_player=bool(rng.random() < 0.5),
        )  # fmt: skip
        try:
            Config(**settings)
        except ConfigError:
            continue
        return settings


def choose(core, rng, skill):
    """Return random legal actions of worlds, which at their share of steps ``skill`` (E, 1) play only cards that fit.

    Random play alone loses all lives early.
    """
    action, size = core.sample_actions(), core.config.sizes.hand_size
    hand, fireworks = core.world_state["hand"], core.world_state["fireworks"].long()
    card = hand.clamp(min=0).long()
    height = fireworks.gather(1, (card // core.config.ranks).flatten(1)).view_as(card)
    fits = (hand >= 0) & (card % core.config.ranks == height)
    alternatives = core.action_mask.clone()
    alternatives[..., size : 2 * size] = False  # what is not a play
    instead = torch.where(fits.any(-1), size + fits.int().argmax(-1), alternatives.int().argmax(-1))
    plays = (action >= size) & (action < 2 * size)
    careful = torch.from_numpy(rng.random(core.to_move.shape) < skill)
    better = careful & core.to_move & (fits.any(-1) | (plays & alternatives.any(-1)))
    return torch.where(better, instead, action)


def play_beside_openspiel(games, seed, **settings):
    """Play games with the same deals and actions, and compare every position; return counts of cases that matter."""
    core = make_core("Hanabi-v0", games, "cpu", seed=seed, autoreset="disabled", **settings)
    core.reset()
    rng, counts, players = np.random.default_rng(seed), Counter(games=games), core.num_agents
    skill = rng.random((games, 1)) ** 0.3
    game, decks = _game(core.config), core.world_state["deck"].tolist()
    first = core.world_state["mover"].tolist()
    states = [_start(game, deck, player) for deck, player in zip(decks, first, strict=True)]
    dealt, playing = [players * core.config.sizes.hand_size] * games, list(range(games))
    assert core.action_spaces["player_0"].n == game.num_distinct_actions()
    while playing:
        movers = [states[world].current_player() for world in playing]
        legal = np.array([states[world].legal_actions_mask() for world in playing], bool)
        np.testing.assert_array_equal(core.to_move[playing], np.eye(players, dtype=bool)[movers])
        np.testing.assert_array_equal(core.action_mask[playing, movers], legal)
        _compare(core.obs, states, playing, players)
        action = choose(core, rng, skill)
        returns = [states[world].returns()[0] for world in playing]
        _, reward, terminated, truncated, info = core.step(action)
        for world, mover in zip(playing, movers, strict=True):
            states[world].apply_action(int(action[world, mover]))
            while states[world].is_chance_node():
                states[world].apply_action(decks[world][dealt[world]])
                dealt[world] += 1
        over = np.array([states[world].is_terminal() for world in playing])
        gain = np.array([states[world].returns() for world in playing]) - np.array(returns)[:, None]
        np.testing.assert_array_equal(terminated[playing], over[:, None].repeat(players, 1))
        np.testing.assert_array_equal(reward[playing], gain)
        assert not truncated.any()
        ended = [world for world, done in zip(playing, over, strict=True) if done]
        _compare(info["final_obs"], states, ended, players)
        count(counts, core, ended, gain)
        counts["moves"] += len(playing)
        playing = [world for world, done in zip(playing, over, strict=True) if not done]
    return counts


def count(counts, core, ended, gain):
    """Add cases of a step to counts: scores, lost games, completed and exhausted ones."""
    full, state = core.config.sizes.cards, core.world_state
    lost = state["lives"][ended] == 0
    completed = state["fireworks"][ended].sum(1) == full
    counts["scored"] += int((gain[:, 0] > 0).sum())
    counts["score lost"] += int((gain[:, 0] < 0).sum())
    counts["lost"] += int(lost.sum())
    counts["completed"] += int(completed.sum())
    counts["out of cards"] += int((~lost & ~completed).sum())


def _game(config):
    """Return OpenSpiel's game with these settings."""
    sizes = config.sizes
    return pyspiel.load_game(
        "hanabi",
        dict(
            players=sizes.players, colors=sizes.colors, ranks=sizes.ranks, hand_size=sizes.hand_size,
            max_information_tokens=sizes.information_tokens, max_life_tokens=sizes.life_tokens,
            observation_type=config.observation_type, random_start_player=config.random_start_player,
        ),
    )  # fmt: skip


def _start(game, deck, first):
    """Return a state after this deal in which this player starts."""
    while True:
        state, cards = game.new_initial_state(), iter(deck)
        while state.is_chance_node():
            state.apply_action(next(cards))
        if state.current_player() == first:
            return state


def _compare(obs, states, worlds, players):
    """Compare the observations of all players."""
    if worlds:
        expected = [[states[world].observation_tensor(player) for player in range(players)] for world in worlds]
        np.testing.assert_array_equal(obs[worlds], np.array(expected, np.float32))


# ---------------------------------------------------------------- recorded games of the Hanabi Learning Environment


def core_at(settings, trace):
    """Return a core with a world for each recorded game, before the first action."""
    games = len(trace["deck"])
    core = make_core("Hanabi-v0", games, "cpu", seed=0, autoreset="disabled", **settings)
    core.reset()
    sizes, state = core.config.sizes, core.get_state()
    deck = torch.from_numpy(trace["deck"]).int()
    hand = deck[:, : sizes.players * sizes.hand_size].reshape(games, sizes.players, sizes.hand_size)
    state["state.deck"], state["state.hand"] = deck, hand
    if core.config.observation_type == "seer":
        state["state.plausible"] = 1 << hand
        state["state.revealed"] = (1 << hand // sizes.ranks) | (1 << sizes.colors + hand % sizes.ranks)
    first = torch.from_numpy(trace["first"]).long()
    state["state.mover"] = first.int()
    state["io.to_move"] = torch.arange(sizes.players) == first[:, None]
    legal = torch.from_numpy(trace["legal"][:, 0]).bool()
    state["io.action_mask"] = torch.where(state["io.to_move"][..., None], legal[:, None], state["io.action_mask"])
    core.set_state(state)
    return core


def replay(settings, trace):
    """Take every recorded action and compare all results; return counts of the cases that matter."""
    core = core_at(settings, trace)
    games, players = len(trace["deck"]), core.num_agents
    width = core.observation_spaces["player_0"].shape[0]
    counts, left = Counter(games=games), trace["length"].astype(int)
    world = np.arange(games)
    for step in range(int(left.max())):
        playing = world[left > step]
        action = torch.from_numpy(trace["action"][:, step]).long()[:, None].expand(-1, players).clone()
        obs, reward, terminated, truncated, info = core.step(action)
        ends = left[playing] == step + 1
        expected = np.unpackbits(trace["obs"][playing, step], axis=-1, count=width)
        actual = np.where(ends[:, None, None], info["final_obs"][playing], obs[playing])
        np.testing.assert_array_equal(actual, expected.astype(np.float32))
        gain = np.repeat(trace["reward"][playing, step, None], players, 1).astype(np.float32)
        np.testing.assert_array_equal(reward[playing], gain)
        np.testing.assert_array_equal(terminated[playing], np.repeat(ends[:, None], players, 1))
        assert not truncated.any()
        on = playing[~ends]
        if len(on):
            mover = core.to_move[on].int().argmax(1)
            np.testing.assert_array_equal(core.action_mask[on, mover], trace["legal"][on, step + 1].astype(bool))
        count(counts, core, playing[ends].tolist(), gain)
        counts["moves"] += len(playing)
    return counts

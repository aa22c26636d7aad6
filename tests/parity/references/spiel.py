"""Comparison with OpenSpiel's games: complete trees of card games, random playouts of board games."""

import itertools
from dataclasses import dataclass, field

import numpy as np
import pyspiel
import torch

from gpu_envs.runtime.factory import make_core


@dataclass
class Tree:
    """Results of a walk."""

    histories: set = field(default_factory=set)  # OpenSpiel's, chance nodes left out
    terminals: set = field(default_factory=set)
    deciding: int = 0  # compared observations of players to act
    views: dict = field(default_factory=dict)  # (player, OpenSpiel's information state) -> observation of gpu-envs
    states: dict = field(default_factory=dict)  # the other way round


def fresh_deals(env_id, deals, draws=40_000, **settings):
    """Return a reset core with one world for every deal, and the counts of deals over the resets.

    Worlds are picked from a large batch, so that nothing is written into them by hand.
    """
    many = make_core(env_id, draws, "cpu", seed=1, autoreset="disabled", **settings)
    many.reset()
    index = {deal: number for number, deal in enumerate(deals)}
    number = np.array([index[tuple(cards)] for cards in many.world_state["card"].tolist()])
    counts = np.bincount(number, minlength=len(deals))
    rows = torch.tensor([int(np.flatnonzero(number == deal)[0]) for deal in range(len(deals))])
    core = make_core(env_id, len(deals), "cpu", autoreset="disabled", **settings)
    core.reset()
    core.set_state({name: t[rows] if len(t) == draws else t for name, t in many.get_state().items()})
    return core, counts


def uniform(counts):
    """Return whether counts are uniform, by a χ² test at five standard deviations."""
    expected, freedom = counts.sum() / len(counts), len(counts) - 1
    return ((counts - expected) ** 2 / expected).sum() < freedom + 5 * (2 * freedom) ** 0.5


def dealt(game, deals):
    """Return an OpenSpiel state for every deal, and the cards that are still to be dealt."""
    states = []
    for deal in deals:
        state, cards = game.new_initial_state(), list(deal)
        while state.is_chance_node():
            state.apply_action(cards.pop(0))
        states.append((state, cards))
    return states


def compare(core, states, tree):
    """Compare every world with its OpenSpiel state: end, player to act, legal actions, returns, observations."""
    obs, mask, to_move = core.obs.numpy(), core.action_mask.numpy(), core.to_move.numpy()
    players = core.num_agents
    for world, (state, _) in enumerate(states):
        tree.histories.add(state.history_str())
        tensors = np.array([state.information_state_tensor(player) for player in range(players)], np.float32)
        np.testing.assert_array_equal(obs[world], tensors)
        if state.is_terminal():
            tree.terminals.add(state.history_str())
            assert core.terminated[world].all()
            assert not to_move[world].any()
            assert core.reward[world].tolist() == state.returns()
            continue
        mover = state.current_player()
        assert to_move[world].tolist() == [player == mover for player in range(players)]
        assert mask[world, mover].tolist() == [bool(legal) for legal in state.legal_actions_mask()]
        assert not core.reward[world].any()
        assert not (core.terminated[world] | core.truncated[world]).any() or core.elapsed_steps[world] == 0
        for player in range(players):
            information, view = (player, state.information_state_string(player)), (player, obs[world, player].tobytes())
            assert tree.views.setdefault(information, view) == view, "one information state, two observations"
            assert tree.states.setdefault(view, information) == information, "one observation, two information states"
            tree.deciding += 1


def walk(core, states, tree):
    """Compare here and below, all betting, all worlds in step; the worlds are at the end where they were."""
    compare(core, states, tree)
    snapshot, (first, _) = core.get_state(), states[0]
    if first.is_terminal():
        assert all(state.is_terminal() for state, _ in states)
        return
    mover = first.current_player()
    for action in first.legal_actions():
        children = []
        for state, cards in states:
            child, cards = state.clone(), list(cards)
            child.apply_action(action)
            while child.is_chance_node():
                child.apply_action(cards.pop(0))
            children.append((child, cards))
        actions = torch.zeros(core.num_envs, core.num_agents, dtype=torch.int64)
        actions[:, mover] = action
        core.step(actions)
        walk(core, children, tree)
        core.set_state(snapshot)


def walk_all(env_id, game_string, deals, **settings):
    """Walk the whole tree of a card game; return the results and the count of each deal."""
    core, counts = fresh_deals(env_id, deals, **settings)
    game, tree = pyspiel.load_game(game_string), Tree()
    walk(core, dealt(game, deals), tree)
    return tree, counts


def size_of(game_string):
    """Return the numbers of histories without chance nodes, and of terminal ones, in OpenSpiel's tree."""
    histories = terminals = 0
    stack = [pyspiel.load_game(game_string).new_initial_state()]
    while stack:
        state = stack.pop()
        histories += not state.is_chance_node()
        terminals += state.is_terminal()
        if not state.is_terminal():
            stack += [state.child(action) for action in state.legal_actions()]
    return histories, terminals


def deals_of(cards, dealt_out):
    """Return every ordered selection of this number of cards."""
    return list(itertools.permutations(range(cards), dealt_out))


def play_boards(env_id, game_string, games, board_of, seed=0, **settings):
    """Compare every position of simultaneous random playouts and return the final states.

    ``board_of(state)`` reads the marks of OpenSpiel's board: (2, cells), player 0 first, in the order of the planes of
    gpu-envs.
    """
    core = make_core(env_id, games, "cpu", seed=seed, autoreset="disabled", **settings)
    core.reset()
    game = pyspiel.load_game(game_string)
    states = [game.new_initial_state() for _ in range(games)]
    playing, moves = list(range(games)), 0
    while playing:
        movers = [states[world].current_player() for world in playing]
        legal = np.array([states[world].legal_actions_mask() for world in playing], bool)
        np.testing.assert_array_equal(core.to_move[playing], np.eye(2, dtype=bool)[movers])
        np.testing.assert_array_equal(core.action_mask[playing, movers], legal)
        _compare_boards(core.obs[playing], [board_of(states[world]) for world in playing], movers)
        action = core.sample_actions()
        _, reward, terminated, truncated, info = core.step(action)
        for world, mover in zip(playing, movers, strict=True):
            states[world].apply_action(int(action[world, mover]))
        moves += len(playing)
        over = np.array([states[world].is_terminal() for world in playing])
        np.testing.assert_array_equal(terminated[playing], over[:, None].repeat(2, 1))
        np.testing.assert_array_equal(reward[playing], [states[world].returns() for world in playing])
        assert not truncated.any()
        ended = [world for world, done in zip(playing, over, strict=True) if done]
        if ended:
            final = [board_of(states[world]) for world in ended]
            _compare_boards(info["final_obs"][ended], final, [-1] * len(ended))
        playing = [world for world, done in zip(playing, over, strict=True) if not done]
    return states, moves


def _compare_boards(obs, boards, movers):
    """Return the observations of both players: own marks, the opponent's, whether the player is to act."""
    boards = np.array(boards, np.float32)
    for viewer in range(2):
        moves = np.array(movers)[:, None] == viewer
        expected = np.concatenate([boards[:, viewer], boards[:, 1 - viewer], moves], 1)
        np.testing.assert_array_equal(obs[:, viewer], expected)

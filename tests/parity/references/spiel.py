"""Comparison with OpenSpiel's games: every history of small games, random games of others.

Chance outcomes are those of gpu-envs: ``chance(fields, world, state)`` reads OpenSpiel's next outcome from the state of
the worlds, ``fields`` by name.
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pyspiel
import torch

from gpu_envs.runtime.factory import make_core


@dataclass
class Compared:
    """Results of a comparison."""

    states: list = field(default_factory=list)  # final states
    decisions: int = 0  # compared states that are not final
    starts: np.ndarray = field(default_factory=lambda: np.zeros(0))  # counts of the different starts
    views: dict = field(default_factory=dict)  # (player, information state) -> observations at its decisions
    results: Counter = field(default_factory=Counter)  # returns of the final states


def chances(state):
    """Return the number of chance outcomes so far."""
    return sum(pair.player == pyspiel.PlayerId.CHANCE for pair in state.full_history())


def _tensors(game):
    if game.get_type().provides_information_state_tensor:
        return lambda state, player: state.information_state_tensor(player)
    return lambda state, player: state.observation_tensor(player)


def _settle(core, states, chance):
    """Apply the chance outcomes of gpu-envs."""
    fields = {name: tensor.numpy() for name, tensor in core.world_state.items()}
    for world, state in states:
        while state.is_chance_node():
            state.apply_action(int(chance(fields, world, state)))


def uniform(counts):
    """Return whether counts are uniform, by a χ² test at five standard deviations."""
    expected, freedom = counts.sum() / len(counts), len(counts) - 1
    return ((counts - expected) ** 2 / expected).sum() < freedom + 5 * (2 * freedom) ** 0.5


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


def _compare(core, states, tensor, compared, views):
    """Compare worlds with their states: ends, players to act, legal actions, returns, observations."""
    assert not core.truncated.any()
    obs, mask, players = core.obs.numpy(), core.action_mask, core.num_agents
    to_move = core.alive.numpy() if core.to_move is None else core.to_move.numpy()
    reward, terminated = core.reward.numpy(), core.terminated.numpy()
    worlds = [world for world, _ in states]
    expected = np.array([[tensor(state, player) for player in range(players)] for _, state in states], np.float32)
    np.testing.assert_array_equal(obs[worlds], expected)
    for world, state in states:
        if state.is_terminal():
            assert terminated[world].all()
            assert not to_move[world].any()
            assert reward[world].tolist() == np.float32(state.returns()).tolist()
            compared.states.append(state)
            compared.results[tuple(state.returns())] += 1
            continue
        compared.decisions += 1
        assert not reward[world].any()
        movers = range(players) if state.is_simultaneous_node() else [state.current_player()]
        assert np.flatnonzero(to_move[world]).tolist() == list(movers)
        for player in movers:
            legal = state.legal_actions(player)
            choices = range(core.num_choices[player, 0]) if mask is None else np.flatnonzero(mask[world, player])
            assert list(choices) == legal
            if views:
                information = player, state.information_state_string(player)
                compared.views.setdefault(information, set()).add(obs[world, player].tobytes())


def _advance(state, actions):
    if state.is_simultaneous_node():
        state.apply_actions([int(action) for action in actions])
    else:
        state.apply_action(int(actions[state.current_player()]))


def random_games(env_id, game_string, games, chance=None, seed=0, tensor=None, **settings):
    """Compare every state of simultaneous random games.

    ``tensor(state, player)`` returns the observation that is expected; None: OpenSpiel's own.
    """
    core = make_core(env_id, games, "cpu", seed=seed, autoreset="disabled", **settings)
    core.reset()
    game, compared = pyspiel.load_game(game_string), Compared()
    tensor = tensor or _tensors(game)
    playing = list(enumerate(game.new_initial_state() for _ in range(games)))
    while playing:
        _settle(core, playing, chance)
        _compare(core, playing, tensor, compared, views=False)
        playing = [(world, state) for world, state in playing if not state.is_terminal()]
        action = (
            core.sample_actions().numpy()[..., 0] if core.action_buffer.ndim == 3 else core.sample_actions().numpy()
        )
        for world, state in playing:
            _advance(state, action[world])
        core.step(torch.from_numpy(action))
    return compared


def all_histories(env_id, game_string, start="", chance=None, draws=40_000, **settings):
    """Compare every history; all of one length are the worlds of a batch.

    Args:
        env_id: Environment.
        game_string: OpenSpiel's game.
        start: Field of State with the chance outcomes; "" if there are none.
        chance: Function that reads OpenSpiel's outcomes, see the top of this file.
        draws: Resets among which every start occurs.
        **settings: Settings of the environment.
    """
    game, compared = pyspiel.load_game(game_string), Compared()
    tensor = _tensors(game)
    core = make_core(env_id, draws if start else 1, "cpu", seed=1, autoreset="disabled", **settings)
    core.reset()
    rows = np.zeros(1, np.int64)
    if start:
        field_ = core.world_state[start].numpy()
        _, rows, compared.starts = np.unique(field_, axis=0, return_index=True, return_counts=True)
    core = copied(core, env_id, rows, settings)
    states = [(world, game.new_initial_state()) for world in range(len(rows))]
    while states:
        _settle(core, states, chance)
        _compare(core, states, tensor, compared, views=True)
        rows, actions, children = [], [], []
        for world, state in states:
            if state.is_terminal():
                continue
            joint = [[0]] * core.num_agents
            for player in range(core.num_agents):
                if state.is_simultaneous_node() or state.current_player() == player:
                    joint[player] = state.legal_actions(player)
            for action in product(*joint):
                child = state.clone()
                _advance(child, action)
                children.append((len(rows), child))
                rows.append(world)
                actions.append(action)
        if rows:
            core = copied(core, env_id, np.array(rows), settings)
            core.step(torch.tensor(actions))
        states = children
    return compared


def copied(core, env_id, rows, settings):
    """Return a core with copies of worlds."""
    state, index = core.get_state(), torch.from_numpy(rows)
    copies = make_core(env_id, len(rows), "cpu", autoreset="disabled", **settings)
    copies.reset()
    by_world = {name for name, tensor in state.items() if name != "params" and len(tensor) == core.num_envs}
    copies.set_state({name: tensor[index] if name in by_world else tensor for name, tensor in state.items()})
    return copies

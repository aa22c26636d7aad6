"""Tables as policies: played in the real environments, kept on disk, made of other policies."""

import json

import pytest
import torch
from always import table_policy
from exact_games import random_table, tree_of
from gymnasium import spaces

from gpu_envs.errors import CheckpointError, ConfigError
from league.exact.game_tree import GameTree
from league.exact.tabulation import tabulate
from league.game import Game
from league.policies.tabular import TablePolicy
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.models.action_heads import action_spec, greedy_spec, make_head
from trainers.models.networks import Network
from trainers.models.normalization import ObservationNormalizer
from trainers.models.policy import Policy
from trainers.models.policy_set import PolicyRunner


def earned(game, policies, episodes, seed=0):
    """Return the returns (episodes, A) of one episode in each world."""
    core = game.core(episodes, seed=seed, autoreset="disabled")
    cast = PolicyRunner(core, {seat.members[0]: policy for seat, policy in zip(game.seats, policies, strict=True)})
    obs, info = core.reset()
    total = torch.zeros(episodes, core.num_agents, dtype=torch.float64)
    while bool(core.alive.any()):
        obs, reward, _, _, info = core.step(cast.act(obs, info))
        total += reward
    return total


def network(tree, action, network="mlp"):
    """Return an untrained policy whose actions depend on the observations."""
    width = tree.observations[0].shape[1]
    config = PPOConfig(hidden_sizes=(8,), network=network)
    head, spec = make_head(action), {**config.spec(width), "action": action}
    actor = Network(spec, head.num_params, 3.0, torch.Generator().manual_seed(1))
    return Policy(spec, ObservationNormalizer(width), actor, head)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kuhn", "kuhn of three", "leduc"])
def test_play_earns_the_exact_value(name):
    tree, generator = tree_of(name), torch.Generator().manual_seed(5)
    profile = [random_table(tree, seat, generator) for seat in range(len(tree.game.seats))]
    policies = [table_policy(tree, table, seat, seed=seat) for seat, table in enumerate(profile)]
    total = earned(tree.game, policies, 100_000)
    error = total.std(0) / len(total) ** 0.5
    off = (total.mean(0) - tree.values(profile)) / error
    assert off.abs().max() < 3.0, off  # three standard errors: the seats of all games are some ten intervals
    assert error.max() < 0.03  # so that the interval says something


def test_simultaneous_moves_are_played():
    game = Game.of("RockPaperScissors-v0", {"num_repetitions": 2})
    tree = GameTree(game)
    generator = torch.Generator().manual_seed(6)
    profile = [random_table(tree, seat, generator) for seat in range(2)]
    total = earned(game, [table_policy(tree, table, 0, seed) for seed, table in enumerate(profile)], 100_000)
    off = (total.mean(0) - tree.values(profile)) / (total.std(0) / len(total) ** 0.5)
    assert off.abs().max() < 3.0, off


def test_unseen_observations_are_played_uniformly_over_legal_actions():
    tree = tree_of("leduc")
    table = torch.zeros_like(tree.uniform(0))
    table[:, 1] = 1.0  # always call
    policy = table_policy(tree, table, 0)
    unseen = torch.full((40_000, 2, 30), 0.5)
    mask = torch.tensor([[True, False, True], [True, False, False]]).expand(40_000, 2, 3)
    action = policy.act(unseen, mask)
    assert not action[:, 1].any()
    counts = action[:, 0].bincount(minlength=3)
    assert counts[1] == 0
    assert abs(int(counts[0]) - 20_000) < 400  # four standard deviations
    assert policy.act(tree.observations[0][:1] * -1.0).shape == (1,)
    close = tree.observations[0] + 1e-7 * (tree.observations[0] == 0)
    odds = policy.probabilities(close)
    torch.testing.assert_close(odds, torch.full_like(odds, 1 / 3))  # none is taken for its neighbor
    assert torch.equal(policy.probabilities(tree.observations[0] * 1.0), table)
    padded = torch.nn.functional.pad(-0.0 - tree.observations[0].neg(), (0, 3))  # zeros of both signs, and padding
    assert torch.equal(policy.probabilities(padded), table)


def test_masked_actions_are_never_sampled():
    tree = tree_of("kuhn")
    policy = table_policy(tree, torch.tensor([[0.0, 1.0]]).expand(6, 2), 0)
    mask = torch.tensor([[True, False]]).expand(6, 2)
    assert not policy.act(tree.observations[0], mask).any()
    assert policy.act(tree.observations[0]).all()


def test_greedy_takes_the_most_probable_and_the_lowest_of_equals():
    tree = tree_of("kuhn")
    table = torch.tensor([[0.4, 0.6], [0.5, 0.5], [0.6, 0.4]] * 2)
    policy = table_policy(tree, table, 0)
    assert policy.act(tree.observations[0], greedy=True).tolist() == [1, 0, 0] * 2


def test_saved_and_loaded_plays_the_same(tmp_path):
    tree = tree_of("leduc")
    table = random_table(tree, 1, torch.Generator().manual_seed(7))
    policy = table_policy(tree, table, 1, seed=3)
    policy.save(tmp_path / "7")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["7.json", "7.safetensors"]
    loaded = TablePolicy.load(tmp_path / "7", seed=3)
    assert torch.equal(tabulate(loaded, tree, 1), tabulate(policy, tree, 1))
    obs, mask = tree.observations[1], tree.legal[1]
    first = policy.act(obs, mask)
    assert torch.equal(first, loaded.act(obs, mask))
    assert not torch.equal(first, policy.act(obs, mask))
    policy.seed(3)
    assert torch.equal(first, policy.act(obs, mask))
    assert policy.initial_hidden_state(4, 2) is None


def test_damaged_files(tmp_path):
    tree = tree_of("kuhn")
    path = tmp_path / "p"
    with pytest.raises(CheckpointError, match=r"p\.json: expected a readable file"):
        TablePolicy.load(path)
    table_policy(tree, tree.uniform(0), 0).save(path)
    weights, manifest = path.with_suffix(".safetensors"), path.with_suffix(".json")
    spec = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**spec, "format": "gpu-envs policy 3"}))
    with pytest.raises(CheckpointError, match="expected format 'gpu-envs table 1', got 'gpu-envs policy 3'"):
        TablePolicy.load(path)
    manifest.write_text(json.dumps({**spec, "choices": 3}))
    with pytest.raises(CheckpointError, match=r"expected the table of p\.safetensors"):
        TablePolicy.load(path)
    manifest.write_text(json.dumps(spec))
    weights.write_bytes(weights.read_bytes()[:40])
    with pytest.raises(CheckpointError, match="expected safetensors, got a damaged file"):
        TablePolicy.load(path)


@pytest.mark.parametrize(
    ("observations", "table", "words"),
    [
        (torch.zeros(2, 3), torch.ones(3, 2), r"got \(2, 3\) and \(3, 2\)"),
        (torch.zeros(2, 3), torch.full((2, 2), 0.5), "finite and unique"),
        (torch.full((1, 3), torch.nan), torch.full((1, 2), 0.5), "finite"),
        (torch.zeros(1, 3), torch.tensor([[0.5, -0.5]]), "probabilities that sum to 1"),
        (torch.zeros(1, 3), torch.tensor([[0.5, 0.4]]), "probabilities that sum to 1"),
    ],
)
def test_invalid_tables_are_refused(observations, table, words):
    with pytest.raises(ConfigError, match=words):
        TablePolicy(observations, table)


def test_tables_of_tables():
    tree = tree_of("leduc")
    for seat in range(2):
        table = random_table(tree, seat, torch.Generator().manual_seed(8))
        torch.testing.assert_close(tabulate(table_policy(tree, table, seat), tree, seat), table, rtol=0, atol=1e-15)


def test_tables_of_networks_are_how_they_play():
    tree = tree_of("leduc")
    policy = network(tree, action_spec(spaces.Discrete(3)))
    table = tabulate(policy, tree, 0)
    assert not table[~tree.legal[0]].any()
    assert table.sum(-1).tolist() == pytest.approx([1.0] * len(table))
    assert (table.amax(-1) - table.masked_fill(~tree.legal[0], 1.0).amin(-1)).max() > 0.1
    draws = 4_000
    obs, legal = tree.observations[0].expand(draws, -1, -1), tree.legal[0].expand(draws, -1, -1)
    shares = torch.nn.functional.one_hot(policy.act(obs, legal), 3).double().mean(0)
    spread = (table * (1 - table) / draws).sqrt()
    assert ((shares - table).abs() <= 5 * spread + 1e-6).all()


def test_tables_of_greedy_networks_are_pure():
    tree = tree_of("leduc")
    policy = network(tree, greedy_spec(spaces.Discrete(3)))
    table = tabulate(policy, tree, 1)
    chosen = policy.act(tree.observations[1], tree.legal[1])
    assert torch.equal(table, torch.nn.functional.one_hot(chosen, 3).double())


def test_policies_without_a_table():
    class Silent:
        def act(self, obs, mask=None, greedy=False, hidden_state=None):
            return torch.zeros(obs.shape[:-1], dtype=torch.int64)

    tree = tree_of("kuhn")
    with pytest.raises(ConfigError, match=r"expected a policy with probabilities\(obs, mask\), got Silent"):
        tabulate(Silent(), tree, 0)
    with pytest.raises(ConfigError, match="expected a policy without recurrence"):
        tabulate(network(tree, action_spec(spaces.Discrete(2)), network="gru"), tree, 0)


@pytest.mark.gpu
def test_tabular_policy_needs_no_host_sync():
    tree = tree_of("leduc")
    table = random_table(tree, 0, torch.Generator().manual_seed(9))
    reference = table_policy(tree, table, 0)
    policy = table_policy(tree, table, 0, device="cuda")
    obs, mask = tree.observations[0].cuda(), tree.legal[0].cuda()
    policy.act(obs, mask)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        policy.act(obs, mask)
        odds = policy.probabilities(obs, mask)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(odds.cpu(), reference.probabilities(obs.cpu(), mask.cpu()))
    torch.testing.assert_close(tabulate(policy, tree, 0), table)

"""Populations: random policies, and others that are read from their files when they are to play."""

import json

import pytest
import torch
from gymnasium import spaces
from toy_league import GAME, random_policy, trained

from gpu_envs.errors import CheckpointError, ConfigError
from league.game import Game
from league.policies import kinds
from league.policies.mixture import MixturePolicy
from league.policies.random import RandomPolicy
from league.policies.tabular import TablePolicy
from trainers.models.action_heads import action_spec
from trainers.models.policy import Policy


def random_in(space: spaces.Space, seed: int = 0) -> RandomPolicy:
    return RandomPolicy(action_spec(space), seed=seed)


def test_random_choices_are_uniform_over_the_legal_ones():
    obs, mask = torch.zeros(30_000, 2, 5), torch.tensor([[True, False, True, True], [False, False, True, False]])
    action = random_in(spaces.Discrete(4)).act(obs, mask.expand(30_000, 2, 4))
    assert action.dtype == torch.int64
    assert action.shape == (30_000, 2)
    counts = action[:, 0].bincount(minlength=4)
    assert counts[1] == 0
    assert ((counts[[0, 2, 3]] - 10_000).abs() < 400).all()  # 5 standard deviations
    assert (action[:, 1] == 2).all()
    assert random_in(spaces.Discrete(4)).act(obs).unique().numel() == 4  # without a mask all are legal


def test_random_parts_are_uniform_and_apart():
    action = random_in(spaces.MultiDiscrete([2, 3])).act(torch.zeros(60_000, 4))
    assert action.shape == (60_000, 2)
    counts = (action[:, 0] * 3 + action[:, 1]).bincount()
    assert len(counts) == 6
    assert ((counts - 10_000).abs() < 500).all()


def test_random_places_fill_the_box():
    low, high = torch.tensor([-2.0, 0.0]), torch.tensor([-1.0, 10.0])
    action = random_in(spaces.Box(low.numpy(), high.numpy())).act(torch.zeros(20_000, 1, 3))
    assert action.dtype == torch.float32
    assert action.shape == (20_000, 1, 2)
    quantiles = ((action - low) / (high - low)).flatten(0, 1).quantile(torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0]), 0)
    torch.testing.assert_close(quantiles, torch.linspace(0, 1, 5)[:, None].expand(5, 2), atol=0.02, rtol=0)


@pytest.mark.parametrize("space", [spaces.Discrete(9), spaces.MultiDiscrete([4, 5]), spaces.Box(-1.0, 1.0, (2,))])
def test_random_draws_are_those_of_the_seed(space, tmp_path):
    obs = torch.zeros(50, 2)
    policy = random_in(space, seed=3)
    first = policy.act(obs, greedy=True)  # it has no best action
    assert not torch.equal(policy.act(obs), first)
    policy.save(tmp_path / "it")
    loaded = RandomPolicy.load(tmp_path / "it")
    loaded.seed(3)
    assert torch.equal(loaded.act(obs), first)
    assert loaded.initial_hidden_state(4) is None


def test_random_policies_of_a_game():
    game = Game.of("KuhnPoker-v0")
    assert RandomPolicy.of(game, "player_1").action == {"kind": "discrete", "sizes": [2]}
    with pytest.raises(ConfigError, match="expected a role among player_0, player_1, got 'player'"):
        RandomPolicy.of(game, "player")


@pytest.mark.gpu
@pytest.mark.parametrize("space", [spaces.Discrete(3), spaces.MultiDiscrete([2, 3]), spaces.Box(-1.0, 1.0, (2,))])
def test_random_policies_need_no_host_sync(space):
    policy, obs = RandomPolicy(action_spec(space), "cuda"), torch.zeros(64, 2, 5, device="cuda")
    mask = torch.ones(64, 2, 3, dtype=torch.bool, device="cuda") if isinstance(space, spaces.Discrete) else None
    policy.act(obs, mask)
    torch.cuda.set_sync_debug_mode("error")
    try:
        assert policy.act(obs, mask).device == obs.device
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_policies_play_as_they_did_when_they_were_added(store):
    obs, policy = torch.randn(20, 2), trained(5)
    with store.step("more"):
        entry = store.add_policy("first", policy, name="one", parent=0, iteration=4, meta={"steps": 10})
    for weights in policy.net.parameters():  # it continues to learn, the copy in the population does not
        weights.zero_()
    pool = store.populations["first"]
    assert (entry.index, entry.parent, entry.iteration, entry.meta) == (1, 0, 4, {"steps": 10})
    assert pool.named("one") is entry
    assert torch.equal(pool[1].act(obs, greedy=True), trained(5).act(obs, greedy=True))
    assert [type(member) for member in pool] == [RandomPolicy, Policy]
    assert pool[-1] is pool[:][1] is pool.policy(1, "cpu")
    with pytest.raises(IndexError):
        pool.policy(2)
    with pytest.raises(ConfigError, match="first: expected the name of one of 2 policies, got 'two'"):
        pool.named("two")


def test_lineage_has_the_parents_of_a_policy(store):
    with store.step("more"):
        for parent in (0, None, 1):
            store.add_policy("first", trained(0), parent=parent)
    assert [store.populations["first"].lineage(index) for index in range(4)] == [[0], [1, 0], [2], [3, 1, 0]]


def test_cache_keeps_the_most_recently_used_policies(store, monkeypatch):
    loads = []

    def load(path, device):
        loads.append(path.name)
        return Policy.load(path, device)

    monkeypatch.setitem(kinds.KINDS, "policy", load)
    with store.step("more"):
        for seed in range(3):
            store.add_policy("first", trained(seed))
    pool = store.populations["first"]
    assert loads == []
    pool.keep = 2
    for index in (1, 2, 1, 3, 1, 2):
        pool.policy(index)
    assert [int(name[:5]) - 1 for name in loads] == [1, 2, 3, 2]


def test_lost_or_damaged_file_raises_with_its_name(store):
    with store.step("more"):
        entry = store.add_policy("second", trained(1))
    weights = store.path / "policies" / f"{entry.id}.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + b"x")
    with pytest.raises(CheckpointError, match=rf"{weights}: expected sha256 \w+, got \w+ \(damaged\)"):
        store.populations["second"].policy(1)
    weights.unlink()
    with pytest.raises(CheckpointError, match=f"{weights}: expected a readable file, got No such file"):
        store.populations["second"].policy(1)
    weights.write_bytes(content)
    assert isinstance(store.populations["second"].policy(1), Policy)


def test_custom_policy_kind_is_loaded_once_registered(store, monkeypatch):
    with store.step("more"):
        store.add_policy("first", random_policy(), kind="own")
    pool = store.populations["first"]
    with pytest.raises(CheckpointError, match="a kind among random, policy, table, mixture, team, got 'own'"):
        pool.policy(1)
    monkeypatch.setitem(kinds.KINDS, "own", RandomPolicy.load)
    assert isinstance(pool.policy(1), RandomPolicy)


def test_tabular_policy_is_saved_and_loaded(store):
    table = TablePolicy(torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    with store.step("more"):
        store.add_policy("first", table, "table")
    assert store.populations["first"].policy(1).act(torch.tensor([[1.0], [0.0]])).tolist() == [0, 1]


def test_damaged_random_policy_is_refused(tmp_path):
    (tmp_path / "it.json").write_text('{"format": "another"}')
    with pytest.raises(CheckpointError, match=r"it.json: expected format 'gpu-envs random policy 1', got 'another'"):
        RandomPolicy.load(tmp_path / "it")
    (tmp_path / "it.json").write_text('{"format": "gpu-envs random policy 1", "action": {"kind": "discrete"}}')
    with pytest.raises(CheckpointError, match=r"it.json: action: expected a field 'sizes', got none"):
        RandomPolicy.load(tmp_path / "it")
    (tmp_path / "it.json").write_text('{"format": "gpu-envs random policy 1", "action": {"kind": "other"}}')
    with pytest.raises(CheckpointError, match=r"it.json: action: kind: expected one of discrete, .*, got 'other'"):
        RandomPolicy.load(tmp_path / "it")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("kinds", [["random"]], r"kinds: expected list\[str\], got"),
        ("kinds", ["mixture"], "kinds: expected some of random, policy, table, team, got 'mixture'"),
        ("kinds", [], "mixture: expected at least one policy"),
        ("weights", "x", r"weights: expected list\[float\], got 'x'"),
        ("weights", [-1.0], "mixture: expected 1 finite weights >= 0"),
        ("weights", [2**63 - 1, 1], "mixture: expected 1 finite weights >= 0"),
        ("weights", [float("nan")], "expected JSON, got NaN"),
    ],
)
def test_damaged_mixture_is_one_line(tmp_path, field, value, words):
    MixturePolicy([RandomPolicy({"kind": "discrete", "sizes": [3]})]).save(tmp_path / "it")
    file = tmp_path / "it.json"
    MixturePolicy.load(tmp_path / "it")
    file.write_text(json.dumps({**json.loads(file.read_text()), field: value}))
    with pytest.raises(CheckpointError, match=rf"it.json: {words}"):
        MixturePolicy.load(tmp_path / "it")


def test_policies_need_a_role_a_parent_and_a_name_of_their_own(store):
    with store.step("more"):
        with pytest.raises(ConfigError, match="expected a role among first, second, got 'third'"):
            store.add_policy("third", random_policy(), "random")
        with pytest.raises(ConfigError, match="parent of first-1: expected one of 1 policies, got 1"):
            store.add_policy("first", random_policy(), "random", parent=1)
        with pytest.raises(ConfigError, match="first: there is a policy 'random' already"):
            store.add_policy("first", random_policy(), "random", name="random")
    assert [len(store.populations[role]) for role in GAME.roles] == [1, 1]

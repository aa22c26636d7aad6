"""Policies and values that travel to workers and back: equal bit for bit."""

import pytest
import torch
from always import table_policy
from calls_made import RPS, SPACE, network, plain
from exact_games import random_table, tree_of

from gpu_envs.errors import ConfigError
from league.executors import transport
from league.executors.tasks import LazyValue
from league.executors.transport import pack, packed, unpacked
from league.policies.mixture import MixturePolicy
from league.policies.random import RandomPolicy
from league.policies.tabular import TablePolicy
from trainers.models.action_heads import action_spec


def table() -> TablePolicy:
    tree = tree_of("kuhn")
    return table_policy(tree, random_table(tree, 0, torch.Generator().manual_seed(5)), 0)


KINDS = {
    "mlp": lambda: network(1),
    "gru": lambda: network(2, "gru"),
    "random": lambda: RandomPolicy(action_spec(SPACE)),
    "mixture": lambda: MixturePolicy([network(1), RandomPolicy(action_spec(SPACE)), network(2, "gru")]),
    "table": table,
}


@pytest.mark.parametrize("kind", KINDS)
def test_transported_policy_acts_bit_for_bit_equally(kind):
    policy = KINDS[kind]()
    parcel = pack(policy)
    assert pack(policy) is parcel
    transport._LOADED.clear()
    copy = unpacked(packed({"who": [policy]}), "cpu")["who"][0]
    assert copy is not policy
    assert type(copy) is type(policy)
    width = tree_of("kuhn").observations[0].shape[1] if kind == "table" else RPS.core(1).obs.shape[-1]
    played = []
    for player in (policy, copy):
        player.seed(3)
        hidden_state = player.initial_hidden_state(64, 1)
        obs = torch.rand((64, 1, width), generator=torch.Generator().manual_seed(1)).round()
        if kind == "table":
            obs = tree_of("kuhn").observations[0][:1].expand(64, 1, -1).float()
        played.append([plain(player.act(obs, hidden_state=hidden_state)) for _ in range(5)])
    assert played[0] == played[1]


def test_equal_policies_share_one_payload():
    first, other, third = network(1), network(1), network(2)
    assert pack(first).digest == pack(other).digest != pack(third).digest
    assert unpacked(pack(first), "cpu") is unpacked(pack(other), "cpu")


def test_policy_of_unknown_type_raises_config_error():
    class Unregistered(RandomPolicy):
        pass

    with pytest.raises(ConfigError, match=r"^Unregistered: expected a type with a loader.*KINDS.*$"):
        packed([Unregistered(action_spec(SPACE))])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_tensor_views_are_packed_without_the_rest_of_their_storage(dtype):
    base = torch.arange(600).reshape(20, 30).to(dtype)
    for tensor in (base, base[3], base[:, 4], base.T, base[2, 2], base[:0]):
        parcel = packed((tensor,))[0]
        assert parcel.untyped_storage().nbytes() == tensor.nbytes
        assert plain(unpacked(parcel, "cpu")) == plain(tensor)
    assert packed({"whole": base})["whole"] is base


def test_lazy_value_is_read_at_transport():
    read = []
    later = LazyValue(lambda: read.append(1) or {"weights": torch.ones(2)})
    assert not read
    assert plain(unpacked(packed({"state": later}), "cpu")) == plain({"state": {"weights": torch.ones(2)}})

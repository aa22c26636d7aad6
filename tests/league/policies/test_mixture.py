"""Mixtures draw a member once per episode, for all agents of a seat."""

import gymnasium
import pytest
import torch
from always import Stateless
from psro_runs import RPS, pure

import gpu_envs
from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.views.scripted_agents import PolicyPlayer
from league.evaluation.tabular_game import TabularGame
from league.matchups.matchups import simulate_matchups
from league.policies.mixture import MixturePolicy
from league.policies.random import RandomPolicy
from league.policies.team import TeamPolicy
from league.storage.run_store import RunStore
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.learner_spec import LearnerSpec
from trainers.models.policy_set import PolicyRunner


class FirstLegal(Stateless):
    def act(self, obs, mask=None, greedy=False, hidden_state=None):
        return mask.int().argmax(-1) if mask is not None else torch.zeros(obs.shape[:-1], dtype=torch.int64)


class LastLegal(FirstLegal):
    def act(self, obs, mask=None, greedy=False, hidden_state=None):
        if mask is None:
            return torch.full(obs.shape[:-1], 4)
        return mask.shape[-1] - 1 - mask.int().flip(-1).argmax(-1)


class Watcher(Stateless):
    """Keep the observations of the last step; dead agents must observe zeros."""

    hides_dead = True

    def __init__(self):
        self.generator = torch.Generator()

    def act(self, obs, mask=None, greedy=False, hidden_state=None):
        self.obs = obs
        return torch.zeros(obs.shape[:-1], dtype=torch.int64)


@pytest.mark.parametrize("player", ["view", "set"])
@pytest.mark.parametrize("kind", ["mixture", "team", "mixture of a team"])
def test_dead_agents_observe_zeros_for_a_member_that_needs_it(kind, player):
    env, watcher = gpu_envs.make("SimpleTag-v0", 2, "cpu"), Watcher()
    core, policy = env.core, watcher if kind == "mixture" else TeamPolicy([watcher], [[0, 1, 2]])
    policy = policy if kind == "team" else MixturePolicy([FirstLegal(), policy])
    env.reset(seed=1)
    adversaries = core.possible_agents[:3]
    alive = core.alive.clone()
    alive[0, 1] = False
    expected = core.obs[:, :3] * alive[:, :3].unsqueeze(-1)
    if player == "view":
        core.alive.copy_(alive)
        PolicyPlayer(core, adversaries, policy)(core.obs[:, :3])
    else:
        PolicyRunner(core, dict.fromkeys(adversaries, policy)).act(core.obs, {"alive": alive})
    assert torch.equal(watcher.obs, expected)
    assert not torch.equal(expected, core.obs[:, :3])


def test_mixture_samples_once_per_episode_for_all_agents_of_a_seat():
    mixture = MixturePolicy([pure(0), pure(1), pure(2)], torch.tensor([0.5, 0.25, 0.25]))
    obs, hidden_state = torch.zeros(4000, 2, pure(0).width), mixture.initial_hidden_state(4000, 2)
    first = mixture.act(obs, hidden_state=hidden_state)
    assert torch.equal(first[:, 0], first[:, 1])
    shares = torch.bincount(first[:, 0], minlength=3) / 4000
    assert shares.tolist() == pytest.approx([0.5, 0.25, 0.25], abs=0.03)
    for _ in range(3):
        assert torch.equal(mixture.act(obs, hidden_state=hidden_state), first)
    assert all(member.generator is mixture.generator for member in mixture.members)  # one stream to keep
    hidden_state[:2000] = 0.0  # another episode
    second = mixture.act(obs, hidden_state=hidden_state, greedy=True)
    assert torch.equal(second[2000:], first[2000:])
    assert 0.5 < (second[:2000] != first[:2000]).any(1).float().mean() < 0.75


@pytest.mark.parametrize("env_id", ["SimpleTag-v0", "TicTacToe-v0"])
def test_rows_of_a_view_draw_their_opponent_once_per_episode(env_id):
    """The first or the last legal action: turn-based games have steps in which the opponent only waits."""
    agent = gpu_envs.make(env_id, 1, "cpu").possible_agents[-1]
    mixture = MixturePolicy([FirstLegal(), LastLegal()])
    rows = gymnasium.make_vec(
        f"gpu_envs/{env_id}", num_envs=64, agent=agent, opponents=mixture, autoreset_mode="same_step", device="cpu"
    )
    core, opponents = rows.core, slice(0, -1)
    rows.reset(seed=1)
    episodes = {}  # (world, episode) -> members whose actions were seen
    for _ in range(60):
        mask = core.action_mask
        if mask is None:
            mask = torch.ones(64, core.num_agents, 5, dtype=torch.bool)
        first, last = (policy.act(core.obs[:, opponents], mask[:, opponents]) for policy in mixture.members)
        index = core.episode_index.clone()
        rows.step(rows.sample_actions())
        played = rows._opponents._joint[:, opponents]
        for world in range(64):
            members = episodes.setdefault((world, int(index[world])), set())
            distinct = first[world] != last[world]  # one legal action tells nothing
            members |= {"first" if chosen else "last" for chosen in (played[world] == first[world])[distinct].tolist()}
    assert {len(members) for members in episodes.values() if members} == {1}
    drawn = [min(members) for members in episodes.values() if members]
    assert 0.3 < drawn.count("first") / len(drawn) < 0.7


def test_members_of_a_mixture_have_their_own_hidden_states():
    nets = [
        PPO(
            PPOConfig(network="gru", hidden_sizes=(4,)),
            LearnerSpec(3, RPS.core(1).action_spaces["player_0"], 2, 1, 10, seed=seed),
        )
        for seed in (1, 2)
    ]
    members = [net.policy() for net in nets]
    alone = MixturePolicy(members, torch.tensor([0.0, 1.0]))
    hidden_state, memory = alone.initial_hidden_state(5, 1), members[1].initial_hidden_state(5, 1)
    for step in range(4):
        obs = torch.randn(5, 1, 3, generator=torch.Generator().manual_seed(step))
        expected = members[1].act(obs, greedy=True, hidden_state=memory)
        assert torch.equal(alone.act(obs, greedy=True, hidden_state=hidden_state), expected)
        assert torch.equal(hidden_state[..., 1:], memory)
    assert (hidden_state[..., 0] == 2).all()


def test_mixture_return_is_mean_of_its_members():
    pools = {"player": [MixturePolicy([pure(0), pure(2)]), pure(1)]}  # paper against rock or scissors
    results = simulate_matchups(pools, game=RPS, matchups=[[0, 1]], episodes=4000, seed=3)
    assert results.mean[0].tolist() == pytest.approx([0.0, 0.0], abs=0.06)
    assert float(results.square[0, 0]) == 4000  # never a draw, as a member is drawn whole


def test_mixture_is_saved_with_its_members(tmp_path):
    with RunStore.create(tmp_path, RPS, {}) as store:
        with store.step("add"):
            members = [pure(1), RandomPolicy.of(RPS, "player")]
            store.add_policy("player", MixturePolicy(members, torch.tensor([3.0, 1.0])), "mixture")
            store.add_policy("player", MixturePolicy(members), "mixture")
        assert len(store.populations["player"].entries[0].sha256) == 4
    with RunStore.open(tmp_path) as store:
        loaded = store.populations["player"][0]
        assert isinstance(loaded, MixturePolicy)
        assert loaded.weights.tolist() == [0.75, 0.25]
        obs = torch.zeros(9, 1, pure(0).width)
        hidden_state = loaded.initial_hidden_state(9, 1)
        loaded.seed(5)
        expected = loaded.act(obs, hidden_state=hidden_state.clone())
        loaded.seed(5)
        assert torch.equal(loaded.act(obs, hidden_state=hidden_state), expected)
        small = TabularGame.of(RPS)
        assert small is not None
        assert small.tabulate_all(store.populations)[0][0][0].tolist() == pytest.approx([1 / 12, 10 / 12, 1 / 12])
    file = next((tmp_path / "policies").glob("00001-*.0.safetensors"))
    file.unlink()
    with RunStore.open(tmp_path) as store, pytest.raises(CheckpointError, match=file.name):
        store.populations["player"].policy(1)


def test_invalid_mixtures_raise_config_error():
    for members in ([], [MixturePolicy([pure(0)])]):
        with pytest.raises(ConfigError, match="expected at least one policy, none of them a mixture"):
            MixturePolicy(members)
    for weights in ([1.0], [1.0, -1.0], [0.0, 0.0], [float("nan"), 1.0]):
        with pytest.raises(ConfigError, match="expected 2 finite weights"):
            MixturePolicy([pure(0), pure(1)], torch.tensor(weights))
    with pytest.raises(ConfigError, match="got no hidden state"):
        MixturePolicy([pure(0)]).act(torch.zeros(1, pure(0).width))

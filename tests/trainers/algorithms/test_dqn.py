"""DQN: targets, priorities and pending decisions by hand, isolation of invalid rows, and learning."""

import pytest
import torch
from dqn_learners import NEVER, drive, learner_for
from gymnasium import spaces
from toy_core import Corridor

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.algorithms.off_policy.dqn import DQN, DQNConfig
from trainers.algorithms.off_policy.q_learning import explore
from trainers.base.learner_spec import LearnerSpec
from trainers.base.transition import Transition
from trainers.buffers.replay_buffer import ReplayBuffer
from trainers.models.action_heads import GreedyHead, make_head
from trainers.models.policy import Policy
from trainers.storage.policy_export import export_policy

CPU, TWO = torch.device("cpu"), spaces.Discrete(2)


# ---------------------------------------------------------------- the head


def test_dueling_values_are_a_value_and_advantages_of_mean_zero():
    head = make_head({"kind": "greedy", "sizes": [3], "dueling": True})
    assert isinstance(head, GreedyHead)
    params = torch.tensor([[5.0, 1.0, 2.0, 6.0]])
    assert head.values(params).tolist() == [[3.0, 4.0, 8.0]]
    assert head.values(params).mean() == 5.0
    shifted = params + torch.tensor([0.0, 7.0, 7.0, 7.0])
    torch.testing.assert_close(head.values(shifted), head.values(params))
    plain = GreedyHead(4, dueling=False)
    assert torch.equal(plain.values(params), params)


def test_samples_are_the_best_legal_actions():
    head, generator = GreedyHead(3, dueling=False), torch.Generator().manual_seed(0)
    values = torch.randn((200, 3), generator=generator)
    mask = torch.rand((200, 3), generator=generator) < 0.6
    mask[:, 1] = True
    expected = values.masked_fill(~mask, -torch.inf).argmax(-1)
    action, log_prob = head.sample(values, generator, mask)
    assert torch.equal(action, expected)
    assert torch.equal(head.mode(values, mask), expected)
    assert bool((log_prob == 0).all())


@pytest.mark.parametrize("dueling", [False, True])
def test_policies_are_restored_from_disk(dueling, tmp_path):
    learner = learner_for(Corridor(4), dueling=dueling)
    drive(Corridor(4), learner, 10)
    policy, cells = learner.policy(), torch.eye(7)
    policy.save(tmp_path / "policy")
    assert export_policy(policy, tmp_path / "p.pt2", masked=True).startswith(
        "obs (N, 7), mask (N, 2) -> action (N) int64"
    )
    loaded = Policy.load(tmp_path / "policy")
    expected = learner.head.values(learner.actor(learner.normalizer(cells))).argmax(-1)
    for player in (policy, loaded):
        assert torch.equal(player.act(cells), expected)
        assert torch.equal(player.act(cells, greedy=True), expected)


# ---------------------------------------------------------------- exploration


def test_exploration_is_uniform_over_legal_actions_and_never_illegal():
    generator = torch.Generator().manual_seed(0)
    values = torch.tensor([0.0, 3.0, 2.0, 9.0]).expand(4000, 4)
    mask = torch.tensor([True, True, True, False]).expand(4000, 4)
    drawn = {
        epsilon: explore(values, mask, torch.tensor(epsilon), generator).bincount(minlength=4).tolist()
        for epsilon in (0.0, 0.3, 1.0)
    }
    assert drawn[0.0] == [0, 4000, 0, 0]
    assert drawn[1.0][3] == drawn[0.3][3] == 0
    assert drawn[1.0][:3] == pytest.approx([1333, 1333, 1333], abs=120)
    assert drawn[0.3][:3] == pytest.approx([400, 3200, 400], abs=80)


def test_epsilon_is_linear_in_steps_and_stays_one_tensor():
    core = Corridor(8)
    learner = learner_for(core, total_steps=512, epsilon=1.0, epsilon_final=0.2, epsilon_fraction=0.5)
    epsilon = learner.epsilon  # a captured rollout reads this tensor
    history = drive(core, learner, 6)  # 64 steps each
    assert [round(metrics["epsilon"], 6) for metrics in history] == [1.0, 0.8, 0.6, 0.4, 0.2, 0.2]
    assert learner.epsilon is epsilon


def test_learning_starts_and_updates_follow_settings():
    core = Corridor(8)
    learner = learner_for(core, learning_starts=150, updates=3)  # 64 steps per rollout
    history = drive(core, learner, 4)
    assert ["q_loss" in metrics for metrics in history] == [False, False, True, True]
    assert learner.gradient_steps == 6


# ---------------------------------------------------------------- targets


def by_hand(**settings) -> DQN:
    """Return a learner of one agent in 3 worlds with 2 actions and linear networks: Q = (2x, x), target (x, 3x).

    There are four steps in two rollouts; step t has observation and reward t + 1. World 0 terminates at step 1, and
    world 1 is truncated there with observation 5. Both restart.
    """
    config = DQNConfig(rollout_length=2, gamma=0.5, **NEVER, **settings)
    masked = settings.pop("masked", False)
    learner = DQN(config, LearnerSpec(1, TWO, 3, 1, 100, has_action_mask=masked))
    for name, weights in (("actor", [[2.0], [1.0]]), ("target", [[1.0], [3.0]])):
        net = torch.nn.Linear(1, 2, bias=False)
        net.weight.data.copy_(torch.tensor(weights))
        setattr(learner, name, net)
    return learner


def play_by_hand(learner: DQN, mask: torch.Tensor | None = None) -> None:
    for t in range(4):
        learner.act(torch.full((3, 1, 1), 1.0 + t), mask)
        ends = torch.tensor([[True], [False], [False]]) & (t == 1)
        cut = torch.tensor([[False], [True], [False]]) & (t == 1)
        final = torch.full((3, 1, 1), torch.nan).masked_fill(cut.unsqueeze(-1), 5.0)
        following = torch.full((3, 1, 1), 2.0 + t)
        learner.observe(
            Transition(torch.full((3, 1), t + 1.0), ends, cut, ~torch.zeros(3, 1).bool(), following, final, None, mask)
        )
        if t % 2:
            learner.update()


@pytest.mark.parametrize(("double", "v"), [(True, 1.0), (False, 3.0)])
def test_two_step_targets_match_hand_computation(double, v):
    """The target is the target network's value of the best action by the learning (double) or the target network."""
    learner = by_hand(n_step=2, double=double)
    play_by_hand(learner)
    time, env = torch.arange(3).repeat(3), torch.arange(3).repeat_interleave(3)
    target, is_known = learner._targets(time, env)
    assert target.view(3, 3).tolist() == [
        [2.0, 2.0, 5 + v * 1.25],  # 1 + 2/2 and the end; 2 and the end; 3 + 4/2 + V(5)/4
        [2 + v * 1.25, 2 + v * 2.5, 5 + v * 1.25],  # V of the true last observation, not of the next episode's first
        [2 + v * 0.75, 3.5 + v, 5 + v * 1.25],
    ]
    assert bool(is_known.all())


def test_illegal_next_actions_have_no_value():
    config = DQNConfig(rollout_length=2, gamma=0.5, **NEVER)
    learner = by_hand()
    masked = DQN(config, LearnerSpec(1, TWO, 3, 1, 100, has_action_mask=True))
    masked.actor, masked.target = learner.actor, learner.target
    play_by_hand(masked, torch.tensor([False, True]).expand(3, 1, 2))
    target, is_known = masked._targets(torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1]))
    assert target[:2, 0].tolist() == [1 + 0.5 * 3 * 2, 2.0]
    # the legal actions after the truncation of world 1 are unknown
    assert is_known[:, 0].tolist() == [True, True, False]


def test_target_network_follows_settings():
    core = Corridor(8)
    for tau, interval in ((0.25, 1), (1.0, 3)):
        learner = learner_for(core, learning_starts=0, updates=1, tau=tau, target_every=interval)
        previous = learner.target.module.body[0].weight.clone()
        for step in range(1, 7):
            drive(core, learner, 1)
            now, fast = learner.target.module.body[0].weight, learner.actor.module.body[0].weight
            moved = previous + tau * (fast - previous) if step % interval == 0 else previous
            torch.testing.assert_close(now, moved, rtol=0, atol=1e-7)
            previous = now.clone()


# ---------------------------------------------------------------- priorities


def test_draws_are_proportional_to_priorities():
    replay = ReplayBuffer(8, 2, {"priority": ((), torch.float32)}, CPU)
    for first in (0.0, 4.0):  # the ring has wrapped: its oldest step is row 2
        replay.add({"priority": torch.full((3, 2), first)})
    table = torch.tensor([[1.0, 0.0], [2.0, 3.0], [4.0, 0.0], [0.0, 6.0]])
    replay.buffers["priority"].copy_(table)
    assert replay.oldest == 2
    time, env, weight = replay.draw_prioritized(1600, torch.Generator().manual_seed(0), beta=torch.tensor(0.5))
    counts = torch.zeros(4, 2).index_put_((time, env), torch.ones(1600), accumulate=True)
    torch.testing.assert_close(counts, table * 100, rtol=0, atol=1.01)  # draws are stratified
    torch.testing.assert_close(weight, table[time, env] ** -0.5)  # (1 / (N P)) ^ beta over the largest: priority 1
    time, env, _ = replay.draw_prioritized(1600, torch.Generator().manual_seed(0), beta=torch.tensor(0.5), window=2)
    assert set(time.tolist()) == {0, 2, 3}, "row 1 is the newest: nothing follows it yet"


def test_priorities_are_errors_to_the_power_alpha():
    learner = by_hand(prioritized=True, priority_alpha=0.5)
    play_by_hand(learner)
    priority = learner.replay.buffers["priority"]
    assert bool((priority[:4] == 1).all()), "what was never learned from is as urgent as anything"
    assert bool((priority[4:] == 0).all())
    learner.optimizers = {"adam": torch.optim.SGD(learner.actor.parameters(), lr=0.0)}
    time, env = torch.tensor([0, 1]), torch.tensor([2, 0])
    learner.replay.draw_prioritized = lambda *_: (time, env, torch.tensor([1.0, 0.25]))
    action = learner.replay.buffers["action"][time, env, 0]
    value = torch.tensor([1.0, 2.0]) * torch.tensor([2.0, 1.0])[action]
    error = (value - torch.tensor([1 + 0.5 * 2, 2.0])).abs()  # world 2 at step 0, world 0 at its end
    metrics = learner._learn()
    torch.testing.assert_close(priority[time, env], error.sqrt())
    torch.testing.assert_close(metrics["q_loss"], ((error - 0.5) * torch.tensor([1.0, 0.25])).mean())  # Huber loss
    play_by_hand(learner)
    assert bool((priority[4:8] == priority[:4].max()).all())


# ---------------------------------------------------------------- turns


class ByTurns:
    """Two agents in one world; plays given steps and records what the replay then holds."""

    def __init__(self, **settings) -> None:
        config = DQNConfig(rollout_length=3, gamma=0.5, replay_size=64, **NEVER, **settings)
        self.learner = DQN(config, LearnerSpec(1, TWO, 1, 2, 100, has_action_mask=True, turn_based=True))
        self.t, self.turn = 0, 0

    def step(self, ends: str = "") -> None:
        """Play step t: observation 10 t + agent, rewards t + 1 and 100 (t + 1); then the other agent is to move."""
        t, players = self.t, torch.arange(2.0)
        mask = torch.tensor([[[True, True], [True, t % 2 == 0]]])
        self.learner.act((10.0 * t + players).view(1, 2, 1), mask, torch.arange(2).view(1, 2) == self.turn)
        self.t, self.turn = t + 1, 1 - self.turn
        flags = [torch.full((1, 2), ends == word) for word in ("terminated", "truncated")]
        following = (10.0 * self.t + players).view(1, 2, 1)
        reward = torch.tensor([[1.0, 100.0]]) * (t + 1)
        next_mask = torch.tensor([[[True, True], [True, self.t % 2 == 0]]])
        to_move, alive = torch.arange(2).view(1, 2) == self.turn, torch.ones(1, 2).bool()
        self.learner.observe(Transition(reward, *flags, alive, following, following, to_move, next_mask))
        if self.t % 3 == 0:
            self.learner.update()

    def outcomes(self) -> list[tuple[float, ...]]:
        """Return (step, agent, observation, reward, next observation, terminated) of completed decisions."""
        b = self.learner.replay.buffers
        indices = b["valid"][: self.learner.replay.filled, 0].nonzero().tolist()
        return [
            (t, i, *(float(b[name][t, 0, i]) for name in ("obs", "reward", "next_obs", "terminated")))
            for t, i in indices
        ]


def test_decision_earns_rewards_until_its_agents_next_one():
    game = ByTurns()
    for ends in ("", "", "", "terminated", "", "", "truncated", "", ""):
        game.step(ends)
    assert game.outcomes() == [
        (1, 0, 0.0, 1 + 2, 20.0, 0),  # decided at step 0, next decision at step 2
        (2, 1, 11.0, 200 + 300, 31.0, 0),  # decided at 1, next decision at 3
        (3, 0, 20.0, 3 + 4, 0.0, 1),  # decided at 2; the other agent ended the episode at 3, after the first rollout
        (3, 1, 31.0, 400, 0.0, 1),
        (5, 0, 40.0, 5 + 6, 60.0, 0),
        # the decisions of agent 1 at step 5 and agent 0 at step 6 were cut at 6 and have no known outcome
        (8, 1, 71.0, 800 + 900, 91.0, 0),
    ]
    next_mask = game.learner.replay.buffers["next_mask"]
    assert next_mask[2, 0, 1].tolist() == [True, False]  # legal at step 3


def test_pending_decision_is_restored_on_resume():
    straight, stopped = ByTurns(), ByTurns()
    for _ in range(3):
        straight.step()
        stopped.step()
    other = ByTurns()
    other.learner.load_state_dict(
        {n: v.clone() if hasattr(v, "clone") else v for n, v in stopped.learner.state_dict().items()}
    )
    other.t, other.turn = stopped.t, stopped.turn
    for _ in range(3):
        straight.step()
        other.step()
    assert straight.outcomes() == other.outcomes()
    assert len(other.outcomes()) == 5
    state = stopped.learner.state_dict()
    del state["pending.open"]
    with pytest.raises(CheckpointError, match=r"learner state pending: open: expected shape \(1, 2\), got nothing"):
        other.learner.load_state_dict(state)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("settings", "problem", "message"),
    [
        ({"n_step": 2}, {"turn_based": True}, r"learner.n_step: expected 1 for turn-based games, got 2"),
        ({"replay_size": 10**15}, {}, r"learner.replay_size = 1000000000000000: needs [\d,]+ bytes on cpu, [\d,]+ are"),
        ({}, {"action_space": spaces.Box(-1, 1, (2,))}, r"action values: expected Discrete actions, got Box"),
        (
            {},
            {"action_space": spaces.MultiDiscrete([2, 2])},
            r"action values: expected Discrete actions, got MultiDiscrete",
        ),
    ],
)
def test_unsupported_specs_and_sizes_are_refused(settings, problem, message):
    with pytest.raises(ConfigError, match=message):
        DQN(DQNConfig(**settings), LearnerSpec(**{"obs_width": 3, "action_space": TWO, "num_envs": 2, "num_agents": 2,
                                              "total_steps": 10, **problem}))  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [("tau", 0.0), ("epsilon", 1.5), ("n_step", 0), ("updates", 0), ("priority_alpha", -0.1)],
)
def test_invalid_settings_name_the_field(name, value):
    with pytest.raises(ConfigError, match=f"learner.{name}: expected"):
        DQNConfig(**{name: value})

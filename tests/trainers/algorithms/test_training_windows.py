"""Recurrent DQN, SAC and TD3: updates equal those written with `torch.nn.GRUCell`, one sequence and step at a time."""

import numpy as np
import pytest
import torch
from dqn_learners import drive, learner_for
from gymnasium import spaces
from test_dqn import ByTurns
from torch import nn
from torch.nn.functional import smooth_l1_loss
from toy_core import Corridor, Identity

from gpu_envs.errors import ConfigError
from trainers.algorithms import algorithm_specs
from trainers.algorithms.off_policy.dqn import DQNConfig
from trainers.base.learner_spec import LearnerSpec
from trainers.buffers.returns import one_decision
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.runner.collector import Collector
from trainers.runner.learner_group import LearnerGroup

WINDOW, BURN_IN = 4, 2
GRU = {
    "network": "gru", "window": WINDOW, "burn_in": BURN_IN, "hidden_sizes": (6,), "rollout_length": 7, "gamma": 0.8,
    "learning_starts": 10**9, "max_grad_norm": None, "replay_size": 2000, "batch_size": 16, "activation": "relu",
}  # fmt: skip


class Written(nn.Module):
    """The recurrent network, for one row; names of weights are those of `trainers.models.networks.GRU`."""

    def __init__(self, network) -> None:
        super().__init__()
        weights = network.state_dict()
        width, hidden, outputs = weights["body.0.weight"].shape[1], network.hidden_width, len(weights["out.0.bias"])
        self.body = nn.Sequential(nn.Linear(width, hidden), nn.ReLU())
        self.cell, self.out = nn.GRUCell(hidden, hidden), nn.Sequential(nn.Linear(hidden, outputs))
        self.load_state_dict(weights)

    def forward(self, x, hidden):
        hidden = self.cell(self.body(x), hidden)
        return self.out(hidden), hidden

    def play(self, inputs, begins, hidden):
        """Return outputs, and hidden states before and after every step; nothing is learned from the burn-in."""
        outputs, before, after = [], [], []
        for t, x in enumerate(inputs):
            hidden = hidden.detach() if t == BURN_IN else hidden
            before.append(torch.zeros_like(hidden) if begins[t] else hidden)
            output, hidden = self(x, before[-1])
            outputs.append(output)
            after.append(hidden)
        return outputs, before, after


def sequences(learner, length):
    """Yield the fields of sampled windows, one agent at a time, and the hidden state before the first step."""
    time, env = learner.replay.draw(learner.config.batch_size, learner.generator, length)
    learner.replay.draw = lambda *_: (time, env)
    rows = (time.unsqueeze(1) + torch.arange(length)) % learner.replay.length
    for b in range(len(time)):
        fields = {name: buffer[rows[b], env[b]] for name, buffer in learner.replay.buffers.items()}
        begins = fields.pop("episode_starts").tolist()
        for agent in range(learner.learner_spec.num_agents):
            window = {name: buffer[:, agent] for name, buffer in fields.items()}
            yield window, begins, window["hidden_state"][0]


def check_gradients(written, network, factor=1.0):
    gradients = {name: parameter.grad for name, parameter in network.module.named_parameters()}
    assert max(float(gradient.abs().max()) for gradient in gradients.values()) > 1e-4
    for name, parameter in written.named_parameters():
        torch.testing.assert_close(gradients[name], factor * parameter.grad, rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize(("n_step", "dueling", "double"), [(1, False, True), (3, True, False)])
def test_update_of_dqn_equals_the_one_written_with_cells(n_step, dueling, double):
    core = Corridor(8, limit=5)  # agents die before others, and are cut
    learner = learner_for(core, **GRU, n_step=n_step, dueling=dueling, double=double, normalize_obs=False)
    drive(core, learner, 5)
    learner.target.load_state_dict({name: 1.5 * value for name, value in learner.target.state_dict().items()})
    online, target, values, losses = Written(learner.actor), Written(learner.target), learner.head.values, []
    for w, begins, start in sequences(learner, BURN_IN + WINDOW + n_step - 1):
        outputs, _, after = online.play(w["obs"], begins, start)
        target_after = target.play(w["obs"], begins, start)[2]
        for t in range(BURN_IN, BURN_IN + WINDOW):
            goal = torch.zeros(())
            for k in range(n_step):
                s = t + k
                if not w["valid"][s]:
                    goal = None
                    break
                goal = goal + 0.8**k * w["reward"][s]
                if w["terminated"][s]:
                    break
                if w["truncated"][s] or k == n_step - 1:
                    following = values(target(w["next_obs"][s], target_after[s])[0])
                    prefer = values(online(w["next_obs"][s], after[s])[0]) if double else following
                    goal = goal + 0.8 ** (k + 1) * following[prefer.argmax()]
                    break
            if goal is not None:
                losses.append(smooth_l1_loss(values(outputs[t])[w["action"][t]], goal.detach()))
    loss = torch.stack(losses).mean()
    loss.backward()
    torch.testing.assert_close(learner._learn()["q_loss"], loss.detach())
    check_gradients(online, learner.actor)


def test_returns_end_where_a_resumed_run_begins_new_episodes():
    """The step before is neither terminated nor truncated: rewards of the new episode do not belong to it."""
    core = Corridor(8, limit=5)
    learner = learner_for(core, **GRU, n_step=3, normalize_obs=False)
    drive(core, learner, 5)
    buffers, first, worlds = learner.replay.buffers, torch.zeros(8, dtype=torch.int64), torch.arange(8)
    for name, value in {"terminated": False, "truncated": False, "valid": True, "episode_starts": False}.items():
        buffers[name].fill_(value)
    buffers["episode_starts"][4] = True
    _, target, is_known = learner._windows(first, worlds)
    buffers["reward"][4:] += 100.0
    later = learner._windows(first, worlds)[1]
    assert is_known[2:].all()
    torch.testing.assert_close(later[:4], target[:4])
    assert (later[4:] > target[4:] + 50.0).all()


def learner_of(algorithm, core, **settings):
    space = core.action_spaces[core.possible_agents[0]]
    entry = algorithm_specs.find(algorithm)
    spec = LearnerSpec(core.obs_width, space, core.num_envs, core.num_agents, 5000)
    return entry.learner_type(entry.settings(**{**GRU, **settings}), spec)


@pytest.mark.parametrize(("algorithm", "kind"), [("sac", "discrete"), ("sac", "continuous"), ("td3", "continuous")])
def test_update_of_actor_and_critics_equals_the_one_written_with_cells(algorithm, kind, monkeypatch):
    """Without noise. Critics start with zeros; the policy is valued in the critic's hidden state before its action."""
    core = Identity(6, kind, limit=5) if kind == "continuous" else Corridor(6, limit=5)
    learner = learner_of(algorithm, core)
    monkeypatch.setattr(
        type(learner.head), "relaxed", lambda self, params, *_: (params[..., :1].tanh(), -params[..., 0])
    )
    monkeypatch.setattr(type(learner), "_noisy", lambda self, code, *_: code, raising=False)
    if kind == "discrete":
        monkeypatch.undo()
    drive(core, learner, 5)
    learner.target_critics.load_state_dict({n: 1.5 * value for n, value in learner.target_critics.state_dict().items()})
    windows = list(sequences(learner, BURN_IN + WINDOW))
    policy, zeros = Written(learner.target_actor if algorithm == "td3" else learner.actor), torch.zeros(6)
    critics, targets = ([Written(critic) for critic in nets] for nets in (learner.critics, learner.target_critics))
    entropy_weight = 0.0 if algorithm == "td3" else 0.2

    def inputs(obs, code):
        return obs if kind == "discrete" else torch.cat([obs, code], -1)

    losses, batch = [], learner._prepare_batch(learner.draw())
    for w, begins, start in windows:
        codes = learner.head.encode(w["action"])
        after = policy.play(w["obs"], begins, start)[2]
        histories = [critic.play(inputs(w["obs"], codes), begins, zeros) for critic in critics]
        memories = [critic.play(inputs(w["obs"], codes), begins, zeros)[2] for critic in targets]
        for t in range(BURN_IN, BURN_IN + WINDOW):
            if not w["valid"][t]:
                continue
            params = policy(w["next_obs"][t], after[t])[0]
            x = inputs(w["next_obs"][t], params[:1].tanh())
            following = torch.stack([critic(x, memory[t])[0] for critic, memory in zip(targets, memories, strict=True)])
            if kind == "discrete":
                table = params.log_softmax(-1)
                following = (table.exp() * (following.amin(0) - entropy_weight * table)).sum()
            else:
                following = following.amin() + entropy_weight * params[0]
            goal = w["reward"][t] + 0.8 * following * ~w["terminated"][t]
            chosen = w["action"][t] if kind == "discrete" else 0
            losses.append(sum((outputs[t][chosen] - goal.detach()).square() for outputs, _, _ in histories))
    loss = torch.stack(losses).mean()
    loss.backward()
    torch.testing.assert_close(learner._critic_step(batch)["critic_loss"], loss.detach())
    for written, critic in zip(critics, learner.critics, strict=True):
        check_gradients(written, critic)

    losses = []
    actor, critics = Written(learner.actor), [Written(critic) for critic in learner.critics]  # after their step
    for w, begins, start in windows:
        codes = learner.head.encode(w["action"])
        outputs, _, _ = actor.play(w["obs"], begins, start)
        histories = [critic.play(inputs(w["obs"], codes), begins, zeros) for critic in critics]
        for t in range(BURN_IN, BURN_IN + WINDOW):
            if not w["valid"][t]:
                continue
            x = inputs(w["obs"][t], outputs[t][:1].tanh())
            values = torch.stack(
                [critic(x, before[t].detach())[0] for critic, (_, before, _) in zip(critics, histories, strict=True)]
            )
            if kind == "discrete":
                table = outputs[t].log_softmax(-1)
                losses.append(-(table.exp() * (values.amin(0).detach() - entropy_weight * table)).sum())
            else:
                value = values[0, 0] if algorithm == "td3" else values.amin()
                losses.append(-(value + entropy_weight * outputs[t][0]))
    loss = torch.stack(losses).mean()
    loss.backward()
    torch.testing.assert_close(learner._actor_step(batch)["actor_loss"], loss.detach())
    check_gradients(actor, learner.actor)


def test_burn_in_has_no_gradient_and_no_loss():
    core = Corridor(4, limit=20)
    learner = learner_for(core, **GRU)
    drive(core, learner, 4)
    states = learner.hidden_states
    batch = states.sample(learner.replay, torch.arange(3), torch.arange(3))
    assert not batch["valid"][:BURN_IN].any()
    assert torch.equal(
        batch["valid"][BURN_IN], learner.replay.buffers["valid"][torch.arange(3) + BURN_IN, torch.arange(3)]
    )
    x = batch["obs"].clone().requires_grad_()
    states.unroll(learner.actor, x, batch, batch["hidden_state"])[0].sum().backward()
    assert not x.grad[:BURN_IN].any()
    assert x.grad[BURN_IN:].flatten(1).any(1).all()


# ---------------------------------------------------------------- turns


def test_decision_in_a_window_earns_rewards_until_its_agents_next_one():
    """The decisions and rewards of `test_dqn.test_decision_earns_rewards_until_its_agents_next_one`."""
    game = ByTurns(network="gru", window=3, burn_in=0)
    for ends in ("", "", "", "terminated", "", "", "truncated", "", ""):
        game.step(ends)
    b = {name: buffer[: game.learner.replay.filled, 0] for name, buffer in game.learner.replay.buffers.items()}
    ends = (b[name] for name in ("terminated", "truncated", "decides_next"))
    target, is_known = one_decision(b["reward"], b["next_obs"][..., 0], *ends, 0.5)
    places = (is_known & b["decides"] & b["valid"]).nonzero().tolist()
    assert [(t, agent, float(b["obs"][t, agent]), float(target[t, agent])) for t, agent in places] == [
        (0, 0, 0.0, 1 + 2 + 0.5 * 20),
        (1, 1, 11.0, 200 + 300 + 0.5 * 31),
        (2, 0, 20.0, 3 + 4),  # the other agent ended the episode at step 3
        (3, 1, 31.0, 400),
        (4, 0, 40.0, 5 + 6 + 0.5 * 60),
        # the decisions of agent 1 at step 5 and agent 0 at step 6 were cut at 6 and have no known outcome
        (7, 1, 71.0, 800 + 900 + 0.5 * 91),
    ]


def test_windows_recompute_the_hidden_states_of_turns():
    """They advance only in the steps in which an agent observes something, across rollouts and episodes."""
    learner = algorithm_specs.find("iql").settings(
        **{**GRU, "normalize_obs": False, "epsilon": 0.2, "epsilon_final": 0.2}
    )
    env = {"obstype": "reveal-nothing"}
    config = TrainConfig(
        "PhantomTicTacToe-v0", env, algorithm="iql", learner=learner, num_envs=6, total_steps=10**10, eval_episodes=0
    )
    core = make_train_core(config, 6, 2)
    learners = LearnerGroup(config, core)
    collector, steps = Collector(config, core, learners), 5 * learner.rollout_length
    for _ in range(5):
        collector.collect()
        learners.update(1, str)
    for assignment in learners.assignments.values():
        replay, states = assignment.learner.replay, assignment.learner.hidden_states
        states.window, rows = steps, replay.buffers["hidden_state"]
        batch = states.sample(replay, torch.zeros(6, dtype=torch.int64), torch.arange(6))
        after = states.unroll(assignment.learner.actor, batch["obs"], batch, batch["hidden_state"])[1]
        begins, advances = batch["episode_starts"], batch["advances"]
        assert begins[1:].any()
        assert advances[begins].all()
        followed = ~begins[1:].unsqueeze(-1)
        followed = followed.expand_as(advances[1:])
        torch.testing.assert_close(after[:-1][followed], rows[1:steps][followed])
        waits = ~advances[1:] & followed
        assert waits.any()
        assert torch.equal(after[1:][waits], after[:-1][waits])


# ---------------------------------------------------------------- refusals


def test_settings_that_have_no_windows_are_refused():
    with pytest.raises(ConfigError, match=r"^learner.prioritized: expected False for a network with a hidden state"):
        learner_for(Corridor(4), network="gru", prioritized=True)
    with pytest.raises(ConfigError, match=r"replay_size: expected at least 184, that is 23 steps of 8 worlds, got 100"):
        learner_for(Corridor(8), network="gru", window=18, burn_in=3, n_step=3, replay_size=100)
    box = spaces.Box(-1.0, 1.0, (1,), np.float32)
    for algorithm in ("sac", "td3"):
        entry = algorithm_specs.find(algorithm)
        with pytest.raises(ConfigError, match="expected at least 46, that is 23 steps of 2 worlds"):
            entry.learner_type(
                entry.settings(network="gru", window=20, burn_in=3, replay_size=40), LearnerSpec(3, box, 2, 1, 100)
            )
    with pytest.raises(ConfigError, match=r"learner.burn_in: expected an int >= 0, got -1"):
        DQNConfig(network="gru", burn_in=-1)

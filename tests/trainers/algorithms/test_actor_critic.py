"""Actor-critic learners with a critic on the global state, with hidden states, and A2C."""

import dataclasses

import pytest
import torch
import turns
from checkpoints import assert_equal_checkpoints
from test_ppo import drive, mean_reward
from toy import announce
from toy_core import Corridor, Identity, Recall
from toy_run import make_corridor

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.algorithms.on_policy.a2c import A2C, A2CConfig
from trainers.algorithms.on_policy.engines import TorchEngine
from trainers.algorithms.on_policy.kernel_engine import KernelEngine
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.learner_spec import LearnerSpec
from trainers.base.transition import Transition
from trainers.config.train_config import TrainConfig
from trainers.evaluation.policy_evaluation import evaluate_policies
from trainers.models.policy import Policy
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint
from warp_kernels.networks import losses

SMALL = {"rollout_length": 8, "hidden_sizes": (16,), "learning_rate": 0.01}
KINDS = {
    "mappo": ("mappo", PPOConfig(**SMALL, critic_input="state", num_minibatches=2)),
    "recurrent": ("ppo", PPOConfig(**SMALL, network="gru", num_minibatches=2)),
    "recurrent mappo": ("mappo", PPOConfig(**SMALL, network="gru", critic_input="state", num_minibatches=2)),
    "a2c": ("a2c", A2CConfig(**SMALL)),
    "a2c, all else": ("a2c", A2CConfig(**SMALL, network="gru", critic_input="state", optimizer="adam")),
}


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trainer_of(core, config, out, algorithm="ppo", **changes) -> Trainer:
    """Return a trainer of a toy environment, or of a real one by its id."""
    name = core if isinstance(core, str) else type(core).__name__
    given = {"num_envs": 8 if isinstance(core, str) else core.num_envs, "eval_episodes": 0, "num_threads": 1, **changes}
    run = TrainConfig(name, algorithm=algorithm, learner=config, **given)
    return Trainer(run, out) if isinstance(core, str) else Trainer(run, out, None, lambda *_, **__: core)


def learner_for(kind: str, core, state_width: int = 0, seed: int = 0, **changes):
    algorithm, config = KINDS[kind]
    config = dataclasses.replace(config, **changes)
    problem = LearnerSpec(
        core.obs_width, core.action_spaces[core.possible_agents[0]], core.num_envs, core.num_agents, 10_000, seed=seed,
        state_width=state_width,
    )  # fmt: skip
    return (A2C if algorithm == "a2c" else PPO)(config, problem)


# ---------------------------------------------------------------------------------------------- critics on the state


def test_mappo_critic_uses_global_state_and_actor_its_own_observation(tmp_path):
    trainer = trainer_of(Identity(8), KINDS["mappo"][1], tmp_path, "mappo")
    trainer.collector.collect()
    trainer.log.close()
    even, odd = trainer.assignments["even"].learner, trainer.assignments["odd"].learner
    assert (even.net.critic_input.width, odd.net.critic_input.width) == (9 + 2, 9)  # one agent needs no number
    before, policy = even.agent.batch(), even.policy()
    obs = even.rollout.obs.clone()
    actions = policy.act(obs, greedy=True)
    even.rollout.state[:, :, 3:6] += 1.0  # observation of odd_1
    after = even.agent.batch()
    assert not torch.isclose(before["value"], after["value"]).any()
    assert torch.equal(before["obs"], after["obs"])
    assert torch.equal(policy.act(obs, greedy=True), actions)
    assert policy.obs_width == 3
    assert not any(name.startswith("critic") for name in policy.net.state_dict())
    pair = after["value"].view(8, 8, 2)
    assert not torch.isclose(pair[..., 0], pair[..., 1]).any()  # the critic distinguishes the two even agents


@pytest.mark.parametrize("kind", ["mappo", "a2c, all else"])
def test_global_state_critic_values_final_state_at_truncation(kind):
    # V(state) = state and rewards 0, gamma = lambda = 1: the target of every step is the value at its trajectory's
    # end
    exact = {"gamma": 1.0, "gae_lambda": 1.0, "normalize_advantage": False, "critic_input": "state", "network": "mlp"}
    core = Corridor(2)
    core.num_agents = 1
    learner = learner_for(kind, core, state_width=1, rollout_length=4, **exact)
    learner.net.critic = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(learner.net.critic.weight)
    zero, three = torch.zeros(2, 1), torch.full((2, 1), 3.0)
    for t in range(4):
        learner.act(torch.zeros(2, 1, 7), state=zero)
        cut = torch.tensor([[t == 1], [t == 2]])
        final = torch.tensor([[5.0], [7.0]]).masked_fill(~cut, torch.nan)  # world 0 is cut at step 1, world 1 at 2
        obs = torch.zeros(2, 1, 7)
        learner.observe(Transition(zero, zero.bool(), cut, zero == 0, obs, obs, next_state=three, final_state=final))
    returns = learner.agent.batch()["returns"].view(4, 2)
    torch.testing.assert_close(returns, torch.tensor([[5.0, 7.0], [5.0, 7.0], [3.0, 7.0], [3.0, 3.0]]))


def test_truncation_without_final_state_raises():
    core = Corridor(2)
    learner = learner_for("mappo", core, state_width=1, rollout_length=1)
    zero, obs = torch.zeros(2, 2), torch.zeros(2, 2, 7)
    learner.act(obs, state=torch.zeros(2, 1))
    learner.observe(Transition(zero, zero.bool(), zero == 0, zero == 0, obs, obs, next_state=torch.zeros(2, 1)))
    with pytest.raises(ConfigError, match="time_limit=termination"):
        learner.update()


@pytest.mark.parametrize(
    ("env_id", "env", "widths"),
    [
        ("SimpleSpread-v0", {}, [3 * 18 + 3]),
        ("SimpleSpeakerListener-v0", {}, [3 + 11, 3 + 11]),  # true widths of one speaker and one listener
        ("TagContinuous-v0", {"num_taggers": 2, "num_runners": 3, "episode_length": 6}, None),
    ],
)
def test_mappo_trains_on_real_environments(env_id, env, widths, tmp_path):
    """TagContinuous has its own global state; its evaluation uses truncated episodes."""
    config = TrainConfig(
        env_id, env, num_envs=4, total_steps=64, eval_episodes=4, num_threads=1, checkpoint_interval=1,
        algorithm="mappo",
        learner=KINDS["mappo"][1],
    )  # fmt: skip
    trainer = Trainer(config, tmp_path)
    trainer.run()
    got = [seat.learner.net.critic_input.width for seat in trainer.assignments.values()]
    if widths is not None:
        assert got == widths
    for seat in trainer.assignments.values():
        assert float(seat.learner.net.critic_input.normalizer.count) == 64
    assert checkpoint.load(tmp_path).policies


def test_mappo_and_ippo_fix_the_critic_input():
    assert TrainConfig("SimpleSpread-v0", algorithm="mappo").learner.critic_input == "state"
    with pytest.raises(ConfigError, match=r"learner\.critic_input: expected 'state', which mappo fixes, got 'obs'"):
        TrainConfig("SimpleSpread-v0", algorithm="mappo", learner=PPOConfig())
    with pytest.raises(ConfigError, match=r"learner\.critic_input: expected 'obs', which ippo fixes, got 'state'"):
        TrainConfig("SimpleSpread-v0", algorithm="ippo", learner=PPOConfig(critic_input="state"))
    assert (
        TrainConfig("SimpleSpread-v0", algorithm="ppo", learner=PPOConfig(critic_input="state")).learner.central_input
        == "state"
    )


# ----------------------------------------------------------------------------------------------------- hidden states


@pytest.mark.parametrize(("body", "least", "most"), [("gru", 0.95, 1.0), ("mlp", 0.4, 0.6)])
def test_only_recurrent_policies_solve_recall(body, least, most, tmp_path):
    config = PPOConfig(
        rollout_length=6, hidden_sizes=(16,), learning_rate=0.03, num_minibatches=2, num_epochs=2, network=body
    )  # episodes last 4
    trainer = trainer_of(Recall(32), config, tmp_path, total_steps=20 * 6 * 32)
    for _ in range(20):
        trainer.iterate()
    trainer.log.close()
    outcome = evaluate_policies(
        Recall(256, seed=5), {"agent": trainer.assignments["agent"].learner.policy()}, seed=3, greedy=True
    )
    assert least <= outcome.returns["agent"].mean / 2 <= most


@pytest.mark.parametrize("kind", ["recurrent", "recurrent mappo"])
def test_first_recurrent_update_has_ratio_one(kind, tmp_path):
    """Episodes span rollouts and end within them: hidden states are stored and reset as in acting."""
    algorithm, config = KINDS[kind]
    config = dataclasses.replace(config, num_epochs=1, num_minibatches=1)
    trainer = trainer_of(Corridor(16, limit=11), config, tmp_path, algorithm)
    learner = trainer.assignments["walker"].learner
    learner.actor.out[0].weight.data *= 100  # far from uniform, so that hidden states matter
    for _ in range(4):
        trainer.collector.collect()
        assert not learner.rollout.episode_starts[0].all() or trainer.iteration == 0
        metrics = learner.update()
        assert abs(float(metrics["approx_kl"])) < 1e-5
        assert float(metrics["clip_fraction"]) == 0.0
        assert float(metrics["grad_norm"]) > 0
        trainer.iteration += 1
    trainer.log.close()


@pytest.mark.parametrize("critic", ["obs", "state"])
def test_recurrent_critic_values_match_hand_computation(critic, tmp_path):
    """Two rollouts step by step: hidden states reset at episode starts, and final values use the state before."""
    exact = {"gae_lambda": 0.0, "normalize_advantage": False, "normalize_obs": False, "gamma": 0.5}
    config = PPOConfig(
        rollout_length=8, hidden_sizes=(6,), network="gru", critic_input=critic, learning_rate=1e-9, **exact
    )
    trainer = trainer_of(Corridor(6, limit=5), config, tmp_path)
    learner = trainer.assignments["walker"].learner
    hidden_state = torch.zeros(12, 6)
    begun = torch.ones(6, dtype=torch.bool)
    for _ in range(2):
        trainer.collector.collect()
        r = learner.rollout
        assert r.episode_starts[1:].any()
        assert r.truncated.any()
        assert torch.equal(r.episode_starts[0], begun)

        def seen(obs, states):
            if critic == "obs":
                return obs.flatten(0, 1)
            return torch.cat([states.repeat_interleave(2, 0), torch.eye(2).repeat(6, 1)], -1)

        values, after = [], []
        for t in range(9):
            hidden_state = hidden_state.masked_fill(r.episode_starts[t].repeat_interleave(2).unsqueeze(-1), 0.0)
            inputs = seen(r.all_obs[t], None if r.state is None else r.state[t])
            out, hidden_state = learner.critic.step(inputs, hidden_state)
            values.append(out.view(6, 2))
            after.append(hidden_state)
        hidden_state = after[7]  # the next rollout starts with the ninth step
        batch = learner.agent.batch()
        valid = batch["valid"].view(6, 2, 8)
        for t in range(8):
            final_obs = r.final_obs[r.final_slot[t]]
            final, _ = learner.critic.step(
                seen(final_obs, None if r.final_state is None else r.final_state[t]), after[t]
            )
            follows = torch.where(r.truncated[t], final.view(6, 2), values[t + 1]).masked_fill(r.terminated[t], 0.0)
            wanted = r.reward[t] + 0.5 * follows
            got = batch["returns"].view(6, 2, 8)[..., t]
            assert torch.equal(valid[..., t], r.valid[t])
            torch.testing.assert_close(got[r.valid[t]], wanted[r.valid[t]])
        begun = r.episode_starts[-1].clone()
        learner.update()
    trainer.log.close()


def test_hidden_state_updates_on_turns_of_other_agents(tmp_path, monkeypatch):
    announce(monkeypatch, "Nim-v0", turns)
    config = PPOConfig(**SMALL, network="gru", num_epochs=1, num_minibatches=1, normalize_advantage=False)
    trainer = trainer_of("Nim-v0", config, tmp_path, env={"max_steps": 7})
    learner = trainer.assignments["player"].learner
    for _ in range(3):
        trainer.collector.collect()
        r = learner.rollout
        batch = learner.agent.batch()
        assert batch["valid"].any()
        assert not (batch["valid"] & ~r.to_move[:-1].flatten(1).T).any()
        assert torch.equal(batch["obs"].shape[:2].numel() * torch.ones(()), torch.tensor(float(r.valid.numel())))
        metrics = learner.update()
        assert abs(float(metrics["approx_kl"])) < 1e-5
    trainer.log.close()


def test_hidden_state_of_wrong_shape_is_refused():
    small, large = learner_for("recurrent", Corridor(4)), learner_for("recurrent", Corridor(6))
    message = r"learner state hidden_state: actor: expected shape \(6, 2, 16\), got \(4, 2,"
    with pytest.raises(CheckpointError, match=message):
        large.load_state_dict(small.state_dict())


# ----------------------------------------------------------------------------------------------- all actor-critics


def fill(learner, poison: float | None) -> None:
    """Fill a rollout with fixed content in which a third of the rows is invalid; those and unused rows get `poison`."""
    r, g = learner.rollout, torch.Generator().manual_seed(5)

    def junk(tensor: torch.Tensor, where: torch.Tensor) -> None:
        if poison is not None:
            tensor.masked_fill_(where.view(*where.shape, *[1] * (tensor.dim() - where.dim())), poison)

    r.obs.copy_(torch.randn(r.obs.shape, generator=g))
    r.action.copy_(torch.randint(2, r.action.shape, generator=g))
    r.log_prob.fill_(-0.6931)
    r.reward.copy_(torch.randn(r.reward.shape, generator=g))
    r.last_obs.copy_(torch.randn(r.last_obs.shape, generator=g))
    r.episode_starts.fill_(False)
    # agents of world 0 die at step 2 and stay dead; world 1's are dead until its next episode starts at step 4
    r.valid.fill_(True)
    r.valid[3:, 0] = False
    r.terminated[2, 0] = True
    r.valid[:4, 1] = False
    r.episode_starts[4, 1] = True
    # world 2 is cut at step 5
    r.truncated[5, 2] = True
    r.episode_starts[6, 2] = True
    r.final_slot[5, 2] = torch.tensor([0, 1])
    r.final_obs[:2] = torch.randn((2, r.final_obs.shape[1]), generator=g)
    r.final_count.fill_(2)
    for tensor in (r.obs, r.reward, r.log_prob):
        junk(tensor, ~r.valid)
    junk(r.last_obs, ~r.valid[-1])
    junk(r.final_obs[2:], torch.ones(len(r.final_obs) - 2, dtype=torch.bool))
    if learner.net.critic_input is not None:
        width = learner.net.critic_input.normalizer.mean.shape[0]
        r.state = torch.randn((r.length + 1, *r.valid.shape[1:2], width), generator=g)
        r.final_state = torch.randn(r.state.shape, generator=g)
        kept = torch.zeros(r.state.shape[:2], dtype=torch.bool)
        kept[5, 2] = True
        junk(r.final_state, ~kept)
    if learner.agent.recurrent_state is not None:
        for start in learner.agent.recurrent_state.starts().values():
            start.copy_(torch.randn(start.shape, generator=g))
            junk(start, ~r.valid[0])
    r.t = r.length


@pytest.mark.parametrize("poison", [1e9, float("nan")])
@pytest.mark.parametrize("kind", KINDS)
def test_invalid_rows_do_not_change_losses_or_statistics(kind, poison):
    core = Corridor(8)
    clean, dirty = learner_for(kind, core, state_width=5), learner_for(kind, core, state_width=5)
    fill(clean, None)
    fill(dirty, poison)
    first, second = clean.update(), dirty.update()
    for name, tensor in clean.net.state_dict().items():
        assert torch.isfinite(tensor).all()
        assert torch.equal(tensor, dirty.net.state_dict()[name]), name
    assert {name: float(v) for name, v in first.items()} == {name: float(v) for name, v in second.items()}
    assert float(clean.net.normalizer.count) == float(clean.rollout.valid.sum())
    if clean.net.critic_input is not None:
        assert float(clean.net.critic_input.normalizer.count) == float(clean.rollout.valid.any(-1).sum())


@pytest.mark.parametrize("body", ["mlp", "gru"])
def test_advantages_are_normalized_over_valid_rows(body):
    learner = learner_for("recurrent", Corridor(8), network=body)
    fill(learner, None)
    batch = learner.agent.batch()
    advantage = batch["advantage"][batch["valid"]] if body == "gru" else batch["advantage"]
    assert len(advantage) == int(learner.rollout.valid.sum()) < learner.rollout.valid.numel()
    torch.testing.assert_close(advantage.mean(), torch.tensor(0.0))
    torch.testing.assert_close(advantage.std(correction=0), torch.tensor(1.0))


@pytest.mark.parametrize("kind", KINDS)
def test_rollout_without_valid_rows_changes_nothing(kind):
    learner = learner_for(kind, Corridor(4), state_width=5)
    before = {name: tensor.clone() for name, tensor in learner.net.state_dict().items()}
    if learner.net.critic_input is not None:
        learner.rollout.state = torch.zeros(9, 4, 5)
    learner.rollout.t = learner.rollout.length
    assert learner.update() == {}
    assert all(torch.equal(tensor, before[name]) for name, tensor in learner.net.state_dict().items())


@pytest.mark.parametrize("kind", KINDS)
def test_resume_equals_an_uninterrupted_run(kind, tmp_path):
    algorithm, learner = KINDS[kind]
    config = TrainConfig(
        "Corridor", num_envs=8, total_steps=6 * 64, checkpoint_interval=3, eval_episodes=0, num_threads=1,
        algorithm=algorithm, learner=learner,
    )  # fmt: skip
    Trainer(config, tmp_path / "whole", None, make_corridor).run()
    part = Trainer(config, tmp_path / "parts", None, make_corridor)
    for _ in range(4):
        part.iterate()
    part.log.close()
    resumed = Trainer(config, tmp_path / "parts", checkpoint.load(tmp_path / "parts"), make_corridor)
    assert resumed.iteration == 3
    resumed.run()
    assert_equal_checkpoints(tmp_path / "whole", tmp_path / "parts")
    state = checkpoint.load(tmp_path / "parts").state
    if learner.network == "gru":
        assert state["learner.walker.hidden_state.actor"].any()
        assert not state["learner.walker.hidden_state.episode_starts"].all()


def test_recurrent_policy_is_restored_from_disk(tmp_path):
    learner = learner_for("recurrent", Corridor(4))
    policy = learner.policy()
    policy.save(tmp_path / "one")
    other = Policy.load(tmp_path / "one")
    obs = torch.randn((4, 2, 7), generator=torch.Generator().manual_seed(0))
    hidden_states = policy.initial_hidden_state(4, 2), other.initial_hidden_state(4, 2)
    for _ in range(3):
        actions = [
            each.act(obs, None, True, hidden_state)
            for each, hidden_state in zip((policy, other), hidden_states, strict=True)
        ]
        assert torch.equal(*actions)
    assert torch.equal(*hidden_states)
    assert hidden_states[0].any()


# ---------------------------------------------------------------------------------------------------------------- A2C


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam"])
def test_a2c_solves_identity(optimizer):
    core = Identity(32, "multi_discrete", limit=4)
    learner = learner_for("a2c", core, learning_rate=0.02, optimizer=optimizer, gamma=0.5)
    before = mean_reward(core, learner.policy())
    drive(core, learner, 150)
    assert mean_reward(core, learner.policy()) >= 0.99 > before + 0.05


def test_a2c_solves_corridor_with_agents_that_die_one_by_one():
    core = Corridor(32)
    learner = learner_for("a2c", core)
    drive(core, learner, 150)
    assert learner.policy().act(torch.eye(7)[:6], greedy=True).tolist() == [1] * 6


def test_a2c_learning_rate_falls_linearly():
    core = Corridor(8)
    learner = learner_for("a2c", core, learning_rate=0.01, learning_rate_final=0.002)
    learner.total_steps = 256  # 64 steps each: progress 0, 1/4, ..., 1, 1
    history = drive(core, learner, 6)
    assert [round(m["learning_rate"], 6) for m in history] == [0.01, 0.008, 0.006, 0.004, 0.002, 0.002]
    assert learner.optimizer.param_groups[0]["lr"] == 0.002


@pytest.mark.parametrize("make_engine", [TorchEngine, lambda *args: KernelEngine(*args, losses.ADVANTAGE, threads=1)])
def test_a2c_gradient_step_matches_hand_computation(make_engine):
    """One plain gradient step: log-probability times advantage, value error and entropy, each once."""
    core = Corridor(4)
    core.reset()
    plain = {"normalize_obs": False, "gae_lambda": 1.0, "entropy_coef": 0.1, "max_grad_norm": 1e9}
    learner = learner_for("a2c", core, **plain)
    learner.optimizer = torch.optim.SGD(learner.net.parameters(), lr=0.01)
    learner.optimizers = {"sgd": learner.optimizer}
    learner.engine = make_engine(learner.agent, learner.optimizer)
    for _ in range(8):
        core.step(learner.act(core.obs))
        learner.observe(Transition(core.reward, core.terminated, core.truncated, core.valid, core.obs, core.final_obs))
    batch = learner.agent.batch()
    logits = learner.actor(batch["obs"]).log_softmax(-1)
    chosen = logits.gather(-1, batch["action"].unsqueeze(-1)).squeeze(-1)
    error = batch["returns"] - learner.critic(batch["obs"]).squeeze(-1)
    loss = -(chosen * batch["advantage"]).mean() + 0.25 * error.square().mean()
    loss = loss + 0.1 * (logits.exp() * logits).sum(-1).mean()
    parameters = list(learner.net.parameters())
    wanted = [p.detach() - 0.01 * g for p, g in zip(parameters, torch.autograd.grad(loss, parameters), strict=True)]
    learner.update()
    for got, each in zip(parameters, wanted, strict=True):
        torch.testing.assert_close(got.detach(), each)


# ---------------------------------------------------------------------------------------------------------------- CNN


def test_cnn_policy_plays_connect_four(tmp_path):
    config = PPOConfig(rollout_length=8, network="cnn", image=(2, 6, 7), conv_filters=(4,), hidden_sizes=(8,))
    trainer = trainer_of("ConnectFour-v0", config, tmp_path, num_envs=4, total_steps=32, eval_episodes=4)
    before = trainer.assignments["player"].learner.actor.convolutions[0].weight.clone()
    trainer.run()
    learner = trainer.assignments["player"].learner
    assert not torch.equal(before, learner.actor.convolutions[0].weight)
    again = checkpoint.load(tmp_path).policy("player")
    obs = trainer.core.obs
    assert torch.equal(again.act(obs, greedy=True), learner.policy().act(obs, greedy=True))

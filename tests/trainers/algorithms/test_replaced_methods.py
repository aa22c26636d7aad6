"""Whatever a program replaces of what kernels or batched calls compute is used: PyTorch computes it then."""

import copy
import types

import pytest
import torch
from gymnasium import spaces
from torch import nn

from gpu_envs.errors import ConfigError
from trainers.algorithms.off_policy.dqn import DQN, DQNConfig
from trainers.algorithms.off_policy.sac import SAC, SACConfig
from trainers.algorithms.off_policy.td3 import TD3, TD3Config
from trainers.algorithms.on_policy.a2c import A2C, A2CConfig
from trainers.algorithms.on_policy.batched_actor_critics import BatchedActorCritics
from trainers.algorithms.on_policy.kernel_engine import KernelEngine
from trainers.algorithms.on_policy.ppo import PPO, ClippedObjective, PPOConfig
from trainers.algorithms.on_policy.torch_engine import TorchEngine
from trainers.base.learner_spec import LearnerSpec
from trainers.buffers.rollout_buffer import RolloutBuffer
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.models.action_heads import CategoricalHead
from trainers.models.batched_policies import can_batch
from trainers.models.kernel_networks import acts_in_kernels
from trainers.models.networks import Network
from trainers.models.normalization import ObservationNormalizer
from trainers.models.policy import Policy
from trainers.runner.agent_assignment import acting_groups, assign_policies

WIDE = {"hidden_sizes": (8, 8), "rollout_length": 4}
CONFIGS = {
    PPO: PPOConfig(**WIDE),
    A2C: A2CConfig(**WIDE, optimizer="adam"),
    DQN: DQNConfig(**WIDE, replay_size=64),
    SAC: SACConfig(**WIDE, replay_size=64),
    TD3: TD3Config(**WIDE, replay_size=64),
}
METHODS = {
    PPO: ("act", "observe", "batch", "_learn", "_loss"),
    A2C: ("act", "observe", "_learn", "_loss"),
    DQN: ("act", "observe"),
    SAC: ("act", "observe"),
    TD3: ("act", "observe", "_noisy"),
}
CASES = [(kind, name) for kind, names in METHODS.items() for name in names]


def learner_of(kind, engine="kernel", config=None, **fields):
    """Return a learner of a class below one of CONFIGS."""
    base = next(parent for parent in kind.__mro__ if parent in CONFIGS)
    space = spaces.Box(-1.0, 1.0, (1,)) if base is TD3 else spaces.Discrete(3)
    spec = LearnerSpec(4, space, num_envs=2, num_agents=1, total_steps=10**9, engine=engine, **fields)
    return kind(config or CONFIGS[base], spec)


def replacement(kind, name):
    """Return a method that calls the method of a class."""

    def method(self, *args, **settings):
        return getattr(kind, name)(self, *args, **settings)

    return method


@pytest.mark.parametrize("kind", CONFIGS)
def test_learner_and_subclass_that_replaces_nothing_use_kernels(kind):
    for learner_type in (kind, type("Mine", (kind,), {"extra": lambda self: 1})):
        learner = learner_of(learner_type)
        assert learner.reason_for_torch == ""
        assert learner.kernel_policy() is not None


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_replaced_method_of_a_subclass_selects_pytorch(kind, name):
    subclass = type("Mine", (kind,), {name: replacement(kind, name)})
    learner = learner_of(subclass, "auto")
    assert learner.reason_for_torch == f"kernels compute {kind.__name__}.{name}, not Mine.{name}"
    assert learner.kernel_policy() is None
    message = rf"^engine = 'kernel': kernels compute {kind.__name__}\.{name}, not Mine\.{name}; use engine = 'auto'"
    with pytest.raises(ConfigError, match=message):
        _ = learner_of(subclass).reason_for_torch


@pytest.mark.parametrize(("kind", "name"), CASES)
@pytest.mark.parametrize("definer", ["Mixin", "the object's"])
def test_replaced_method_of_a_mixin_or_the_object_selects_pytorch(kind, name, definer):
    method = replacement(kind, name)

    class Mine(kind):
        def __init__(self, config, spec):
            super().__init__(config, spec)
            setattr(self, name, types.MethodType(method, self))

    mixed = type("Mine", (type("Mixin", (), {name: method}), kind), {})
    learner = learner_of(mixed if definer == "Mixin" else Mine, "auto")
    source = f"Mixin.{name}" if definer == "Mixin" else f"the object's {name}"
    assert learner.reason_for_torch == f"kernels compute {kind.__name__}.{name}, not {source}"


@pytest.mark.parametrize(("kind", "name"), [(PPO, "_loss"), (A2C, "observe"), (DQN, "act"), (TD3, "_noisy")])
def test_method_that_is_replaced_after_the_choice_is_an_error(kind, name):
    learner = learner_of(kind)
    learner.kernel_policy()
    setattr(learner, name, types.MethodType(replacement(kind, name), learner))
    with pytest.raises(ConfigError, match=f"engine: kernels compute .*the object's {name}, which came after"):
        learner.kernel_policy()


class Half(ClippedObjective):
    """Half of PPO's loss."""

    def loss(self, batch):
        loss, metrics = super().loss(batch)
        return 0.5 * loss, metrics


class Tempered(ClippedObjective):
    settings = (*ClippedObjective.settings, "temperature")


class Renamed(ClippedObjective):
    """It changes nothing, but declares no head."""


class HeadOnly(Half):
    """A head is for the loss of its class or of those above it."""

    kernel_head = ClippedObjective.kernel_head


OBJECTIVES = {
    Half: "ClippedObjective.loss, not Half.loss",
    Tempered: "ClippedObjective.settings, not Tempered.settings",
    Renamed: "ClippedObjective, not Renamed",
}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_objective_without_its_own_head_selects_pytorch(objective):
    class Mine(PPO):
        pass

    Mine.objective = objective()
    assert learner_of(Mine, "auto").reason_for_torch == f"kernels compute {OBJECTIVES[objective]}"
    with pytest.raises(ConfigError, match=rf"^engine = 'kernel': kernels compute {OBJECTIVES[objective]}; use engine"):
        _ = learner_of(Mine).reason_for_torch


def test_changed_object_selects_pytorch_and_after_the_choice_is_an_error():
    changed = ClippedObjective()
    changed.loss = Half().loss
    for objective in (changed, Half()):
        learner = learner_of(PPO, "auto")
        learner.objective = objective
        assert learner.reason_for_torch.startswith("kernels compute ClippedObjective.loss, not")
    learner = learner_of(PPO)
    learner.kernel_policy()
    learner.objective = ClippedObjective()
    with pytest.raises(ConfigError, match="engine: kernels compute another objective, which came after"):
        learner.kernel_policy()


def test_head_of_the_class_itself_selects_kernels():
    assert HeadOnly().reason_for_torch == ""


def test_setting_that_the_configuration_lacks_is_an_error():
    Mine = type("Mine", (PPO,), {"objective": Tempered()})
    learner = learner_of(Mine, "torch")
    with pytest.raises(ConfigError, match=r"Tempered\.settings: expected settings of PPOConfig, got 'temperature'"):
        _ = learner.loss_settings


@pytest.mark.parametrize("engine", ["torch", "kernel"])
def test_both_engines_use_a_setting_of_the_learner(engine):
    """Without a weight of the value, the critic is not learned from."""

    class Mine(PPO):
        def __init__(self, config, spec):
            super().__init__(config, spec)
            self.value_coef = 0.0

    moved = []
    for kind in (PPO, Mine):
        learner = learner_of(kind, engine)
        previous = copy.deepcopy(learner.critic.state_dict())
        rollout = learner.rollout
        rollout.all_obs.normal_(generator=torch.Generator().manual_seed(3))
        rollout.reward.fill_(1.0)
        rollout.valid.fill_(True)
        rollout.log_prob.fill_(-1.0986)
        rollout.t = rollout.length
        learner.update()
        moved.append(any(not torch.equal(value, previous[name]) for name, value in learner.critic.state_dict().items()))
    assert moved == [True, False]


class OwnNetwork(Network):
    def forward(self, x):
        return -super().forward(x)


class OwnNormalizer(ObservationNormalizer):
    def forward(self, obs):
        return obs


class OwnHead(CategoricalHead):
    def log_probs(self, logits, mask):
        return super().log_probs(2.0 * logits, mask)


class OwnRollout(RolloutBuffer):
    def end_step(self, transition):
        super().end_step(transition)


def change_class(kind):
    return lambda module: setattr(module, "__class__", kind)


CHANGES = {
    "actor": (lambda x: change_class(OwnNetwork)(x.actor), "actor: expected the layers of the settings, got"),
    "critic": (lambda x: change_class(OwnNetwork)(x.net.critic), "critic: expected the layers of the settings, got"),
    "layer": (lambda x: x.actor.module.body.append(nn.Tanh()), "actor: expected the layers of the settings, got"),
    "activation": (lambda x: x.actor.module.body.__setitem__(1, nn.GELU()), "actor: expected the layers"),
    "hook": (
        lambda x: x.net.critic.module.body[0].register_forward_hook(lambda *_: None),
        "critic: expected the layers",
    ),
    "gradient hook": (
        lambda x: x.net.actor.module.body[0].weight.register_hook(torch.neg),
        "actor: expected the layers",
    ),
    "forward": (lambda x: setattr(x.net.actor, "forward", torch.neg), "actor: expected the layers of the settings"),
    "normalizer": (lambda x: change_class(OwnNormalizer)(x.normalizer), "normalizer: expected Observation"),
    "clip": (lambda x: setattr(x.normalizer, "clip", 5.0), "normalizer: expected ObservationNormalizer"),
    "head": (lambda x: change_class(OwnHead)(x.head), "head: expected that of the action space, got"),
    "frozen": (lambda x: x.net.critic.requires_grad_(False), "networks: expected that all parameters are trained"),
    "rollout": (lambda x: change_class(OwnRollout)(x.rollout), "kernels compute RolloutBuffer.end_step, not OwnR"),
    "estimate": (lambda x: object.__setattr__(x.config, "estimate", None), "algorithm: expected advantages by GAE"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_replaced_module_of_an_actor_critic_selects_pytorch(name):
    change, reason = CHANGES[name]

    class Mine(PPO):
        def __init__(self, config, spec):
            super().__init__(config, spec)
            change(self)

    learner = learner_of(Mine, "auto", copy.deepcopy(CONFIGS[PPO]))
    assert learner.reason_for_torch.startswith(reason)
    assert isinstance(learner.engine, TorchEngine)


@pytest.mark.parametrize("kind", [DQN, SAC, TD3])
def test_replaced_network_of_a_learner_with_a_replay_selects_pytorch(kind):
    class Mine(kind):
        def __init__(self, config, spec):
            super().__init__(config, spec)
            self.actor.__class__ = OwnNetwork

    assert learner_of(Mine, "auto").reason_for_torch.startswith("actor: expected the layers of the settings")
    assert learner_of(Mine, "auto").kernel_policy() is None


@pytest.mark.parametrize("engine", ["torch", "kernel"])
@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.0),
        lambda p: torch.optim.AdamW(p, lr=0.0, weight_decay=1.0),
        lambda p: torch.optim.Adam(p, lr=0.0),
    ],
)
def test_both_engines_use_a_replaced_optimizer(engine, make):
    """The first optimizer would move the weights, the new one has a rate of 0."""

    class Mine(PPO):
        def _schedule(self, progress):
            return {}

    learner = learner_of(Mine, engine)
    assert isinstance(learner.engine, KernelEngine if engine == "kernel" else TorchEngine)
    learner.optimizer = make(learner.net.parameters())
    learner.optimizers = {"own": learner.optimizer}
    previous = [parameter.detach().clone() for parameter in learner.net.parameters()]
    rollout = learner.rollout
    rollout.reward.fill_(1.0)
    rollout.valid.fill_(True)
    rollout.t = rollout.length
    learner.update()
    for parameter, value in zip(learner.net.parameters(), previous, strict=True):
        torch.testing.assert_close(parameter.detach(), value)


class Counting(PPO):
    """PPO whose loss counts its calls."""

    calls = 0

    def _loss(self, *args):
        Counting.calls += 1
        return super()._loss(*args)


def test_training_calls_a_replaced_loss(tmp_path, capsys, monkeypatch):
    """From the command line, with the reason in its first line; a required kernel is an error."""
    from trainers.algorithms.on_policy import kernel_engine
    from trainers.cli.train import train_command

    monkeypatch.setattr(kernel_engine, "MIN_TRAINING_OPERATIONS", 0)
    monkeypatch.setattr(f"{__name__}.CountingConfig", PPOConfig, raising=False)
    monkeypatch.setattr(Counting, "calls", 0)
    options = ["CartPole-v1", "--algorithm", f"{__name__}:Counting", "--allow-import", __name__]
    options += ["--num-envs", "4", "--total-steps", "32", "--eval-episodes", "0", "--learner.rollout-length", "8"]
    options += ["--run-dir", str(tmp_path / "run")]
    assert train_command(options) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert "engine torch (kernels compute PPO._loss, not Counting._loss)" in first
    assert Counting.calls == 16
    with pytest.raises(ConfigError, match=r"engine = 'kernel': kernels compute PPO\._loss, not Counting\._loss"):
        train_command([*options[:-1], str(tmp_path / "other"), "--engine", "kernel"])


class Shifted(PPO):
    def act(self, *args):
        return super().act(*args) * 0


@pytest.mark.parametrize(("kind", "batched"), [(PPO, True), (Shifted, False)])
def test_learners_that_act_otherwise_do_not_act_in_one_batch(kind, batched, monkeypatch):
    config = TrainConfig("SimpleSpread-v0", num_envs=2, learner=CONFIGS[PPO], sharing="agent", engine="torch")
    monkeypatch.setattr("trainers.algorithms.on_policy.ppo.PPO", kind)
    core = make_train_core(config, 2, 0)
    groups = acting_groups(assign_policies(config, core), core)
    assert [isinstance(group.actor, BatchedActorCritics) for group in groups] == ([True] if batched else [False] * 3)


class OwnPolicy(Policy):
    def act(self, obs, mask=None, greedy=False, hidden_state=None):
        return super().act(obs, mask, greedy, hidden_state) * 0


def test_policy_that_acts_otherwise_acts_neither_in_kernels_nor_in_a_batch():
    plain = learner_of(PPO).policy()
    assert acts_in_kernels(plain, torch.device("cpu"))
    assert can_batch(plain, plain)
    replaced = learner_of(PPO).policy()
    replaced.__class__ = OwnPolicy
    network, head, normalizer = (learner_of(PPO).policy() for _ in range(3))
    network.actor.__class__ = OwnNetwork
    head.head.__class__ = OwnHead
    normalizer.normalizer.__class__ = OwnNormalizer
    for policy in (replaced, network, head, normalizer):
        assert not acts_in_kernels(policy, torch.device("cpu"))
        assert not can_batch(plain, policy)
        assert not can_batch(policy, policy)

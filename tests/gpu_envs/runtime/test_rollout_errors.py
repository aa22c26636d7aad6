"""Wrong arguments of rollouts in kernels are refused before any launch, because kernels read without bounds."""

import dataclasses
import itertools

import pytest
import torch
from gymnasium import spaces

import gpu_envs
from gpu_envs.errors import ConfigError
from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from gpu_envs.runtime.rollout.policy_rollout import PolicyRollout
from gpu_envs.runtime.rollout.trace import RolloutTrace

WORLDS, STEPS = 6, 3
INPUTS = 18


def make_core(env_id="SimpleSpread-v0", num_envs=WORLDS, **settings):
    core = gpu_envs.make(env_id, num_envs=num_envs, device="cpu", reuse_buffers=True, **settings).core
    core.reset(seed=3)
    return core


def make_layers(*widths, **kind):
    return [(torch.zeros(out, into, **kind), torch.zeros(out, **kind)) for into, out in itertools.pairwise(widths)]


def make_policy(inputs=INPUTS, space=None, squashed=False, **settings):
    space = spaces.Discrete(5) if space is None else space
    if isinstance(space, spaces.Discrete):
        return KernelPolicy.from_tensors(make_layers(inputs, 8, int(space.n)), space, **settings)
    log_std = None if squashed else torch.zeros(space.shape)
    outputs = space.shape[0] * (2 if squashed else 1)
    return KernelPolicy.from_tensors(make_layers(inputs, 8, outputs), space, log_std=log_std, **settings)


@pytest.fixture(scope="module")
def core():
    return make_core()


@pytest.fixture
def launches(core, monkeypatch):
    """Rollouts that were launched."""
    calls = []
    monkeypatch.setattr(PolicyRollout, "run", lambda self, *arguments: calls.append(arguments))
    monkeypatch.setattr(PolicyRollout, "_record", lambda self: None)  # which compiles the kernels of a policy
    return calls


def changed(core, **tensors):
    return dataclasses.replace(RolloutTrace.allocate(core, STEPS, 1), **tensors)


TRACES = {
    "worlds": lambda core: RolloutTrace.allocate(make_core(num_envs=2), STEPS, 1),
    "steps of a field": lambda core: changed(core, obs=torch.zeros(STEPS, WORLDS, 3, INPUTS)),
    "dtype": lambda core: changed(core, log_prob=torch.zeros(STEPS, WORLDS, 3, dtype=torch.float64)),
    "device": lambda core: changed(core, reward=torch.zeros(STEPS, WORLDS, 3, device="meta")),
    "final rows": lambda core: changed(core, final_obs=torch.zeros(WORLDS * 3 + 2, INPUTS)),
    "strides": lambda core: changed(core, reward=torch.zeros(STEPS, 3, WORLDS).transpose(1, 2)),
    "mask": lambda core: changed(core, mask=torch.zeros(STEPS + 1, WORLDS, 3, 5, dtype=torch.bool)),
    "another type": lambda core: {"obs": torch.zeros(1)},
}
MESSAGES = {
    "worlds": r"trace.obs: expected torch.float32 \(4, 6, 3, 18\) on cpu, got torch.float32 \(4, 2, 3, 18\) on cpu;",
    "steps of a field": r"trace.obs: expected torch.float32 \(4, 6, 3, 18\)",
    "dtype": r"trace.log_prob: expected torch.float32 \(3, 6, 3\) on cpu, got torch.float64",
    "device": r"trace.reward: expected torch.float32 \(3, 6, 3\) on cpu, got torch.float32 \(3, 6, 3\) on meta",
    "final rows": r"trace.final_obs: expected torch.float32 \(19, 18\)",
    "strides": r"trace.reward: expected a contiguous tensor",
    "mask": r"trace.mask: expected None",
    "another type": "trace: expected a RolloutTrace",
}


@pytest.mark.parametrize("case", TRACES)
def test_buffers_that_do_not_fit_are_refused(case, core, launches):
    with pytest.raises(ConfigError, match=MESSAGES[case]):
        core.rollout({"agent": make_policy()}, STEPS, TRACES[case](core))
    assert not launches


def test_fitting_buffers_of_all_kinds_are_accepted(launches):
    """Buffers with masks, turns, several components and matchups."""
    for env_id in ("KuhnPoker-v0", "SimpleSpeakerListener-v0", "Pendulum-v1"):
        core = make_core(env_id)
        for matchups in (False, True):
            core.rollout({}, STEPS, RolloutTrace.allocate(core, STEPS, 2, matchups))
    assert len(launches) == 6


def test_launches_and_buffers_of_others_are_refused(core, launches):
    other = make_core()
    plan = PolicyRollout.of_groups(other, {"agent": make_policy()}, RolloutTrace.allocate(other, STEPS, 1))
    with pytest.raises(ConfigError, match="policies: expected launches of these environments, got those of others"):
        core.rollout(plan, STEPS)
    with pytest.raises(ConfigError, match="trace: expected None, because prepared launches have their own buffers"):
        other.rollout(plan, STEPS, RolloutTrace.allocate(other, STEPS, 1))
    with pytest.raises(ConfigError, match="num_steps: expected at most 3 as in trace, got 4"):
        other.rollout(plan, STEPS + 1)
    assert not launches
    other.rollout(plan, STEPS, plan.trace)
    assert len(launches) == 1


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        ({"agent": "x"}, "agent: expected a KernelPolicy, see KernelPolicy.from_tensors, or None, got 'x'"),
        ("agent", "policies: expected them by group or agent, got 'agent'"),
        ({"agent": make_policy(inputs=7)}, "agent_0: expected 18 observation entries, got 7"),
        ({"agent": make_policy(inputs=19)}, "agent_0: expected 18 observation entries, got 19"),
    ],
)
def test_policies_that_do_not_fit_are_refused(policies, message, core, launches):
    with pytest.raises(ConfigError, match=message):
        core.rollout(policies, STEPS)
    assert not launches


def test_policy_of_several_groups_may_be_as_wide_as_the_widest(launches):
    core = make_core("SimpleSpeakerListener-v0")
    widths = [core.observation_spaces[name].shape[0] for name in core.possible_agents]
    assert widths == [3, 11]
    space = core.action_spaces[core.possible_agents[0]]
    core.rollout({core.possible_agents[0]: make_policy(inputs=11, space=space)}, STEPS)
    assert len(launches) == 1
    with pytest.raises(ConfigError, match="expected 3 to 11 observation entries, got 2"):
        core.rollout({core.possible_agents[0]: make_policy(inputs=2, space=space)}, STEPS)


@pytest.mark.parametrize("squashed", [True, False])
def test_policy_of_another_box_is_refused(squashed, launches):
    core = make_core("Pendulum-v1")
    space = core.action_spaces["agent_0"]
    assert space.shape == (1,)
    for wrong in (
        spaces.Box(-2.0, 2.0, (2,)),
        spaces.Box(-float("inf"), float("inf"), (1,)),
    ):
        with pytest.raises(ConfigError, match=r"agent_0: expected actions Box\(-2.0, 2.0, \(1,\), float32\), got"):
            core.rollout({"agent": make_policy(inputs=3, space=wrong, squashed=squashed)}, STEPS)
    core.rollout({"agent": make_policy(inputs=3, space=space, squashed=squashed)}, STEPS)
    assert len(launches) == 1


def test_index_out_of_range_is_refused(core):
    trace, policies = RolloutTrace.allocate(core, STEPS, 1), [make_policy()]
    for index in ([0, 0, 1], [0, 0, -2]):
        with pytest.raises(ConfigError, match=r"index: expected ints from -1 to 0, got torch.int64 from"):
            PolicyRollout(core, policies, torch.tensor(index), trace)
    for shape in ((2,), (5, 3)):  # world 5 would play matchup 5
        with pytest.raises(ConfigError, match="index: expected the policies of all agents"):
            PolicyRollout(core, policies, torch.zeros(shape, dtype=torch.int64), trace)


WEIGHTS = make_policy().weights


@pytest.mark.parametrize(
    "weights", [WEIGHTS[:-1], WEIGHTS.double(), torch.cat([WEIGHTS, WEIGHTS])[::2], WEIGHTS.view(1, -1), None]
)
def test_weights_of_another_layout_are_refused(weights):
    with pytest.raises(ConfigError, match=rf"weights: expected contiguous torch.float32 \({len(WEIGHTS)},\), got"):
        KernelPolicy(make_policy().kind, weights, 0)


BOX = spaces.Box(-1.0, 1.0, (2,))
LAYERS = make_layers(4, 8, 2)


@pytest.mark.parametrize(
    ("layers", "space", "settings", "message"),
    [
        ([], BOX, {}, "layers: expected the weights and biases of two to four, got none"),
        (LAYERS, BOX, {"log_std": torch.zeros(3)}, r"log_std: expected torch.float32 \(2,\) on cpu, got"),
        (LAYERS, BOX, {"log_std": torch.zeros(2, dtype=torch.float64)}, "log_std: expected torch.float32"),
        (LAYERS, spaces.Discrete(2), {"log_std": torch.zeros(2)}, r"log_std: expected None for Discrete\(2\)"),
        (
            make_layers(4, 8, 2, dtype=torch.float64),
            spaces.Discrete(2),
            {},
            "weight of layer 0: expected torch.float32",
        ),
        ([*make_layers(4, 8), *make_layers(7, 2)], spaces.Discrete(2), {}, r"weight of layer 1: expected .* \(2, 8\)"),
        ([(torch.zeros(8, 4), torch.zeros(7)), *LAYERS[1:]], spaces.Discrete(2), {}, r"bias of layer 0: .* \(8,\)"),
        (
            [(torch.zeros(8), torch.zeros(8))],
            spaces.Discrete(2),
            {},
            r"weight of layer 0: expected a tensor \(out, in\)",
        ),
        (make_layers(18, 8, 4), spaces.Discrete(5), {}, "expected 5 outputs"),
        (make_layers(18, 8, 8, 8, 8, 5), spaces.Discrete(5), {}, "hidden layers: expected 1 to 3, got 4"),
        (make_layers(18, 129, 5), spaces.Discrete(5), {}, "hidden widths: expected 1 to 128"),
        (LAYERS, spaces.Discrete(2), {"activation": "gelu"}, "activation: expected one of tanh, relu, got 'gelu'"),
        (LAYERS, spaces.Discrete(2), {"mean": torch.zeros(3)}, r"mean: expected torch.float32 \(4,\)"),
        (LAYERS, spaces.Discrete(2), {"var": torch.ones(4, device="meta")}, "var: expected .* on cpu, got"),
    ],
)
def test_tensors_of_a_wrong_shape_or_dtype_are_refused(layers, space, settings, message):
    with pytest.raises(ConfigError, match=f"KernelPolicy: {message}"):
        KernelPolicy.from_tensors(layers, space, **settings)


def test_equal_policies_and_buffers_keep_the_recorded_launches(core, monkeypatch):
    recorded, record = [], PolicyRollout._record

    def counted(self):
        recorded.append(self)
        record(self)

    monkeypatch.setattr(PolicyRollout, "_record", counted)
    policies, trace = {"agent": make_policy()}, RolloutTrace.allocate(core, STEPS, 1)
    for steps in (STEPS, STEPS - 1, STEPS):
        assert core.rollout(dict(policies), steps, trace) is trace
    assert len(recorded) == 1
    policies["agent"].weights.normal_(generator=torch.Generator().manual_seed(0))
    core.rollout(policies, STEPS, trace)
    assert (trace.log_prob.unique().numel()) > STEPS  # other weights are read in place
    assert len(recorded) == 1
    core.rollout({}, STEPS, trace)
    assert (trace.log_prob == 0.0).all()
    assert len(recorded) == 2
    core.rollout({"agent": make_policy(seed=1)}, STEPS, trace)
    assert len(recorded) == 3
    core.rollout({"agent": make_policy(seed=1)}, STEPS, RolloutTrace.allocate(core, STEPS, 1))
    assert len(recorded) == 4


def test_runs_of_different_lengths_choose_their_threads_separately(monkeypatch):
    """A single step may be too short for several threads; a long rollout is not."""
    core = make_core(num_envs=32, threads=2)
    trace = RolloutTrace.allocate(core, 70, 1)
    for steps in (1, 70):
        core.rollout({"agent": make_policy()}, steps, trace)
    assert {name for name in core._launcher.heuristics if name.startswith("rollout")} == {"rollout 1", "rollout 7"}


def test_environments_on_one_thread_roll_out_on_one():
    core = make_core(num_envs=64, threads=1)
    plan = PolicyRollout.of_groups(core, {"agent": make_policy()}, RolloutTrace.allocate(core, STEPS, 1))
    assert plan.threads == 1
    assert not core._launcher.rollout_shards

"""Acting in tiles, as on a GPU with wide networks, compared on the CPU with acting in rows and with PyTorch."""

import pytest
import torch
import warp as wp
from rollout_cases import equal, make_core, make_policies, network_outputs

from gpu_envs.runtime.rollout import policy_rollout
from gpu_envs.runtime.rollout.policy_rollout import MatchupDraw, PolicyRollout
from gpu_envs.runtime.rollout.trace import RolloutTrace
from warp_kernels.framework.tile_acting import build_tile_outputs

TILE_ROWS = 32


def set_tile_rows(monkeypatch, rows):
    """Let PolicyRollout choose tiles, or rows with 0, whatever the device."""
    monkeypatch.setattr(policy_rollout, "acting_tile_rows", lambda mlp, device: rows)


def assert_close(rows, tiles):
    """Compare rollouts in rows and in tiles; equal actions give equal worlds."""
    assert torch.isfinite(rows.log_prob).all()
    torch.testing.assert_close(tiles.log_prob, rows.log_prob, rtol=1e-5, atol=3e-5)
    if rows.action.dtype == torch.int64:
        for name in ("obs", "action", "reward", "terminated", "truncated", "valid", "matchup"):
            assert torch.equal(getattr(tiles, name), getattr(rows, name)), name
    else:
        torch.testing.assert_close(tiles.action, rows.action, rtol=1e-5, atol=3e-5)
        torch.testing.assert_close(tiles.reward, rows.reward, rtol=1e-4, atol=1e-3)


SLOW = pytest.mark.slow
BOTH = [
    pytest.param("discrete", False, "fused", (8,), marks=SLOW),
    ("turns", False, "phased", (8,)),
    pytest.param("leaving", False, "phased", (40, 48), marks=SLOW),
    pytest.param("leaving", False, "fused", (128, 128), marks=SLOW),
    pytest.param("turns", False, "fused", (40, 48, 33), marks=SLOW),
    pytest.param("box", False, "fused", (64, 64), marks=SLOW),
    pytest.param("box", True, "phased", (48,), marks=SLOW),
]


@pytest.mark.parametrize(("case", "squashed", "schedule", "hidden"), BOTH)
def test_acting_in_tiles_equals_acting_in_rows(case, squashed, schedule, hidden, monkeypatch):
    """37 worlds leave part of the last tile empty, and tiles have rows of several agents."""
    traces = []
    for rows in (0, TILE_ROWS):
        set_tile_rows(monkeypatch, rows)
        core = make_core(case, num_envs=37, schedule=schedule)
        traces.append(core.rollout(make_policies(core, squashed, hidden=hidden)[1], 12))
    assert_close(*traces)


def mixed_rollout(monkeypatch, rows, num_steps=12):
    """Return a rollout in which worlds draw one of five matchups of three policies, of two kinds, and random agents.

    A policy reads only 13 of the 18 entries of an observation, as where other agents observe more than its own.
    """
    set_tile_rows(monkeypatch, rows)
    monkeypatch.setattr("gpu_envs.runtime.rollout.policy_rollout.misfit", lambda *_: "")
    core = make_core("discrete", num_envs=37, schedule="phased")
    policies = [
        make_policies(core, seed=seed, inputs=inputs)[1]["agent"] for seed, inputs in enumerate((None, 13, None))
    ]
    index = torch.tensor([[0, 1, 2], [2, 2, 0], [-1, 0, 1], [1, 1, 1], [2, -1, -1]])
    draw = MatchupDraw(torch.linspace(0.2, 1.0, 5, dtype=torch.float64), torch.tensor([9]))
    trace = RolloutTrace.allocate(core, num_steps, 2, matchups=True)
    plan = PolicyRollout(core, policies, index, trace, 1, matchup=torch.arange(37) % 5, draw=draw, flexible=True)
    return core.rollout(plan, num_steps), plan


def test_rows_of_a_tile_may_have_different_policies(monkeypatch):
    """Worlds draw matchups inside the kernels, also in the middle of the rollout."""
    (rows, _), (tiles, plan) = (mixed_rollout(monkeypatch, rows) for rows in (0, TILE_ROWS))
    assert_close(rows, tiles)
    assert len(plan._tiles) == 2
    assert not torch.equal(tiles.matchup[0], tiles.matchup[-1])
    assert (tiles.log_prob[0][torch.arange(37) % 5 == 4][:, 1:] == 0.0).all()


def test_assigned_policies_act_in_tiles(monkeypatch):
    set_tile_rows(monkeypatch, TILE_ROWS)
    core, other = make_core("discrete"), make_core("discrete")
    first, second = (make_policies(core, seed=seed)[1]["agent"] for seed in (0, 1))
    agents = torch.zeros(3, dtype=torch.int64)
    plan = PolicyRollout(core, [first], agents, RolloutTrace.allocate(core, 8, 8), 1)
    plan.assign([second], agents)
    core.rollout(plan, 8)
    equal(plan.trace, other.rollout({"agent": second}, 8))


@pytest.mark.parametrize("block_dim", [pytest.param(1, marks=SLOW), 128])
def test_tile_kernel_writes_the_outputs_of_deciding_agents(block_dim, monkeypatch):
    """Threads of a block run one after another between barriers, so that a missing barrier changes results."""
    monkeypatch.setattr(wp.config, "enable_cpu_blocks", True)
    set_tile_rows(monkeypatch, TILE_ROWS)
    core = make_core("leaving", num_envs=20)
    networks, policies = make_policies(core)
    index = torch.zeros(core.num_agents, dtype=torch.int64)
    for number, agents in enumerate(core.groups.values()):
        index[list(agents)] = number
    trace = RolloutTrace.allocate(core, 8, 2)
    plan = PolicyRollout(core, list(policies.values()), index, trace, 1)
    dead = torch.zeros(20, core.num_agents, dtype=torch.bool)
    for _ in range(6):  # some agents have left
        core.rollout(plan, 1)
        dead = ~core._io["alive"]
        if dead.any():
            break
    plan._outputs.fill_(7.0)
    (kind,) = plan._acting.kinds
    kernel = build_tile_outputs(kind.mlp, TILE_ROWS, True, False, block_dim)
    tiles = -(-20 * core.num_agents // TILE_ROWS)
    inputs = [0, tiles, 1, 0, 0, core.num_agents, core._launcher.arguments[2][0], plan._structs[0]]
    wp.launch_tiled(kernel, dim=[1], inputs=inputs, block_dim=block_dim, device="cpu")
    outputs = plan._outputs.view(20, core.num_agents, -1)
    assert 0 < dead.sum() < dead.numel()
    assert (outputs[dead] == 7.0).all()
    for group, rows in core.groups.items():
        rows = list(rows)
        alive = ~dead[:, rows]
        expected = network_outputs(networks[group], core.obs[:, rows][alive]).float()
        actual = outputs[:, rows][alive]
        torch.testing.assert_close(actual[:, : kind.mlp.outputs], expected, rtol=1e-5, atol=1e-5)

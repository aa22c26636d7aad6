"""Games of turns: who moves, what the others may do, and what a refused action does. The game is in ``turns.py``."""

import dataclasses

import pytest
import torch
import toy
import turns
from toy import announce

import gpu_envs
from gpu_envs import errors
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.factory import make_core
from gpu_envs.testing.env_checker import check_env

SCHEDULES = pytest.mark.parametrize("schedule", ["fused", "phased"])
ROWS = torch.arange(64)


@pytest.fixture
def nim(monkeypatch):
    """Return a function that makes cores of the game."""
    announce(monkeypatch, "Nim-v0", turns)

    def make(**settings):
        core = make_core("Nim-v0", len(ROWS), "cpu", **{"seed": 0, **settings})
        core.reset()
        return core

    return make


def mover_of(core):
    return core.world_state["mover"].long()


@SCHEDULES
def test_play_follows_the_rules(nim, schedule):
    """Against Nim in torch: heaps, movers, winners, masks, over many games."""
    core = nim(schedule=schedule, autoreset="disabled")
    games = 0
    for _ in range(40):
        stones, mover = core.world_state["stones"].clone(), mover_of(core)
        assert core.to_move[ROWS, mover].all()
        assert not core.to_move[ROWS, 1 - mover].any()
        assert torch.equal(core.action_mask[ROWS, mover], (stones[:, :, None] > torch.arange(turns.MOST)).flatten(1))
        assert core.action_mask[ROWS, 1 - mover].sum(1).eq(1).all()
        assert core.action_mask[ROWS, 1 - mover, 0].all()
        action = core.sample_actions()
        assert core.action_mask.gather(2, action[..., None]).all()
        chosen = action[ROWS, mover]
        _, reward, terminated, truncated, info = core.step(action)
        stones[ROWS, chosen // turns.MOST] -= (chosen % turns.MOST + 1).int()
        assert torch.equal(core.world_state["stones"], stones)
        won = stones.sum(1) == 0
        expected = torch.zeros(len(ROWS), 2)
        expected[ROWS[won], mover[won]], expected[ROWS[won], 1 - mover[won]] = 1.0, -1.0
        assert torch.equal(reward, expected)
        assert torch.equal(terminated, won[:, None].expand(-1, 2))
        assert not truncated.any()
        assert info["valid"].all()
        assert torch.equal(info["to_move"].any(1), ~won)
        assert info["action_mask"][won].sum(2).eq(1).all(), "who has left keeps the no-op"
        games += int(won.sum())
        core.reset(reset_mask=won)
    assert games > 200


@SCHEDULES
def test_actions_of_players_not_to_move_are_ignored(nim, schedule):
    first, second = nim(schedule=schedule), nim(schedule=schedule)
    for _ in range(10):
        action = first.sample_actions()
        left = first.step(action)
        right = second.step(torch.where(second.to_move, action, 10**9))
        for a, b in zip(left[:4], right[:4], strict=True):
            assert torch.equal(a, b)


@SCHEDULES
@pytest.mark.parametrize("threads", [1, 2])
def test_refused_action_leaves_the_world_and_its_mover(nim, schedule, threads):
    """The error names the lowest world; that world waits, all others continue."""
    bad, good = (nim(schedule=schedule, threads=threads) for _ in range(2))
    action, mover = bad.sample_actions(), mover_of(bad)
    good.step(action)
    wrong = action.clone()
    wrong[5, mover[5]], wrong[40, mover[40]] = 99, -1
    previous = bad.get_state()
    with pytest.raises(errors.ActionError, match="world 5 is out of range"):
        bad.step(wrong)
    waiting = (ROWS == 5) | (ROWS == 40)
    after, played = bad.get_state(), good.get_state()
    for name in ("state.stones", "state.mover", "io.obs", "io.to_move", "io.action_mask", "io.step", "io.alive"):
        assert torch.equal(after[name][waiting], previous[name][waiting]), name
        assert torch.equal(after[name][~waiting], played[name][~waiting]), name
    assert not bad.valid[waiting].any()
    assert bad.valid[~waiting].all()
    assert not bad.reward[waiting].any()
    bad.step(torch.where(waiting[:, None], action, bad.sample_actions()))
    for name in ("state.stones", "state.mover", "io.obs", "io.step"):  # another action, and all is well
        assert torch.equal(bad.get_state()[name][waiting], played[name][waiting]), name


@SCHEDULES
def test_illegal_action_differs_from_action_out_of_range(nim, schedule):
    core = nim(schedule=schedule)
    mover, fewest = mover_of(core), core.world_state["stones"].argmin(1)
    action = core.sample_actions()
    world = int((core.world_state["stones"].amin(1) < turns.MOST).nonzero()[0])
    action[world, mover[world]] = fewest[world] * turns.MOST + turns.MOST - 1
    with pytest.raises(errors.ActionError, match=f"world {world} is illegal here"):
        core.step(action)


@SCHEDULES
def test_illegal_action_loses(nim, schedule):
    core = nim(schedule=schedule, illegal_actions="loss")
    fouls = ROWS % 3 == 0
    for value in (99, -1):
        mover, action, steps, obs = mover_of(core), core.sample_actions(), core.elapsed_steps.clone(), core.obs.clone()
        action[ROWS[fouls], mover[fouls]] = value
        _, reward, terminated, _, info = core.step(action)
        assert reward[ROWS[fouls], mover[fouls]].eq(-1).all()
        assert reward[ROWS[fouls], 1 - mover[fouls]].eq(1).all()
        assert terminated[fouls].all()
        assert torch.equal(info["final_obs"][fouls], obs[fouls]), "the game stands as it stood"
        assert torch.equal(info["episode_length"][fouls, 0], steps[fouls] + 1)
        assert torch.equal(info["episode_return"][fouls], reward[fouls])
        assert info["alive"].all(), "the next game has begun"
        assert info["to_move"].sum(1).eq(1).all()
    core.raise_pending_errors()


@pytest.mark.slow
def test_turn_based_game_passes_check_env(nim):
    """Schedules and the order of heaps agree, with games that end by themselves and games cut short."""
    check_env("Nim-v0")
    check_env("Nim-v0", max_steps=4)


@SCHEDULES
def test_truncated_game_has_no_player_to_move(nim, schedule):
    core = nim(schedule=schedule, autoreset="disabled", max_steps=1, largest=9)
    *_, truncated, info = core.step(core.sample_actions())
    cut = truncated.all(1)
    assert cut.any()
    assert not info["to_move"][cut].any()
    assert info["action_mask"][cut].sum(2).eq(1).all()


def test_remaining_players_share_the_reward_of_an_illegal_action(nim):
    core = nim(illegal_actions="loss", players=4)
    mover = mover_of(core)
    gone = (mover + 2) % 4
    core.alive[ROWS, gone] = False
    action = torch.full((len(ROWS), 4), 99)
    _, reward, terminated, _, info = core.step(action)
    assert reward[ROWS, mover].eq(-1).all()
    assert not reward[ROWS, gone].any()
    assert not terminated[ROWS, gone].any()
    assert reward.sum(1).eq(0).all()
    assert info["valid"].sum(1).eq(3).all()


@pytest.mark.parametrize("schedule", ["fused", pytest.param("phased", marks=pytest.mark.slow)])
def test_team_loses_the_stake_of_an_illegal_action_together(schedule):
    core = team_of(turns.Config(players=3), schedule=schedule, illegal_actions="loss", autoreset="disabled")
    action = core.sample_actions()
    action[0] = 99
    _, reward, terminated, _, info = core.step(action)
    assert reward.tolist() == [[-1.0] * 3, [0.0] * 3]
    assert terminated.tolist() == [[True] * 3, [False] * 3]
    assert info["episode_return"][0].tolist() == [-1.0] * 3


def test_shared_stake_needs_turns():
    with pytest.raises(errors.ConfigError, match="shared_stake: expected False unless agents take turns"):
        team_of(toy.Config(), toy)


def team_of(config, host=turns, **settings):
    """Return a core with two worlds of the game, whose players are a team."""
    definition = host.build(config)
    rules = dataclasses.replace(definition.rules, key=f"{definition.rules.key} of a team", shared_stake=True)
    team = dataclasses.replace(definition, rules=rules)
    core = Core(team, env_id="Nim-v0", config=config, num_envs=2, device=torch.device("cpu"), seed=0, **settings)
    core.reset()
    return core


def test_turn_based_game_needs_two_players(nim):
    with pytest.raises(errors.ConfigError, match=">= 2 where agents take turns"):
        make_core("Nim-v0", 2, "cpu", players=1)


def test_single_worlds_handle_illegal_actions_as_the_core(nim):
    """Actions of players not to move are ignored; an illegal action raises, or loses if so configured."""
    env = gpu_envs.parallel_env("Nim-v0")
    obs, infos = env.reset(seed=0)
    mover, other = sorted(env.agents, key=lambda agent: not infos[agent]["to_move"])
    assert not infos[other]["to_move"]
    with pytest.raises(errors.ActionError, match=f"{mover} is out of range"):
        env.step({mover: 99, other: 99})
    legal = int(obs[mover]["action_mask"].nonzero()[0][0])
    _, _, _, _, infos = env.step({mover: legal, other: 99})
    assert infos[other]["to_move"]
    env = gpu_envs.parallel_env("Nim-v0", illegal_actions="loss")
    _, infos = env.reset(seed=0)
    _, rewards, terminated, _, _ = env.step({mover: 99, other: 0})
    assert rewards == {mover: -1.0, other: 1.0}
    assert all(terminated.values())
    assert not env.agents

"""SwitchRiddle-v0 against recorded steps of JaxMARL 0.2.0; ``make test-parity`` plays JaxMARL itself."""

import itertools

import numpy as np
import pytest
import torch

from gpu_envs.runtime.factory import make_core
from parity import jax_replay

ENV = "SwitchRiddle-v0"
NOTHING, SWITCH, TELL = range(3)


@pytest.mark.variations
@pytest.mark.parametrize("index", range(len(jax_replay.TRACES[ENV])))
def test_recorded_steps_equal_the_original(index):
    rewards = jax_replay.replay(ENV, index)
    assert len(rewards) > 250
    assert min((rewards < 0).any(1).sum(), (rewards > 0).any(1).sum()) > 3


def at(been, room, bulb=0, **settings):
    """Return a core with one world in a state."""
    core = make_core(ENV, 1, "cpu", seed=0, autoreset="disabled", **settings)
    core.reset()
    core.world_state["been"][0] = torch.tensor(been)
    core.world_state["room"][0] = room
    core.world_state["bulb"][0] = bulb
    return core


@pytest.mark.parametrize(("been", "reward"), [((1, 1, 0), 2.0), ((1, 0, 0), -5.0)])
def test_telling_ends_the_episode_with_a_shared_reward(been, reward):
    core = at(been, 2, reward_all_live=2.0, reward_all_die=-5.0)
    _, rewards, terminated, truncated, _ = core.step(torch.tensor([[NOTHING, NOTHING, TELL]]))
    assert rewards.tolist() == [[reward] * 3]
    assert terminated.all()
    assert not truncated.any()


def test_actions_outside_of_the_room_have_no_effect():
    core = at((0, 0, 0), 0)
    _, rewards, terminated, _, _ = core.step(torch.tensor([[NOTHING, SWITCH, TELL]]))
    assert not rewards.any()
    assert not terminated.any()
    assert core.world_state["bulb"][0] == 0
    assert core.world_state["been"][0].tolist() == [1, 0, 0]


def test_only_the_prisoner_in_the_room_sees_the_lamp():
    core = at((1, 1, 1), 0, bulb=1, num_agents=3)
    obs, *_ = core.step(torch.zeros((1, 3), dtype=torch.long))
    room = int(core.world_state["room"][0])
    assert obs[0].tolist() == [[1.0, 1.0] if row == room else [0.0, 0.0] for row in range(3)]
    assert core.state()[0, 6].item() == 1.0
    assert core.state()[0, 7].item() == pytest.approx(1 / 6)


@pytest.mark.parametrize("count", [3, 5])
def test_silence_terminates_after_the_time_limit_without_reward(count):
    core = make_core(ENV, 64, "cpu", seed=0, num_agents=count)
    core.reset()
    for step in range(4 * count - 6):
        _, reward, terminated, truncated, _ = core.step(torch.zeros((64, count), dtype=torch.long))
        assert terminated.all() == (step == 4 * count - 7)
        assert not reward.any()
        assert not truncated.any()


def test_prisoners_are_drawn_uniformly_at_the_start_and_in_every_step():
    """Pairs of consecutive prisoners are uniform, so the same prisoner may enter twice in a row."""
    core = make_core(ENV, 40_000, "cpu", seed=1)
    core.reset()
    rooms = [core.world_state["room"].clone()]
    for _ in range(2):
        core.step(torch.zeros((40_000, 3), dtype=torch.long))
        rooms.append(core.world_state["room"].clone())
    for first, other in ((0, 1), (1, 2), (0, 2)):
        shares = torch.bincount((3 * rooms[first] + rooms[other]).long(), minlength=9) / 40_000
        assert (shares - 1 / 9).abs().max() < 0.006


def test_oracle_that_tells_in_time_earns_the_share_of_the_page():
    """The page states that all three prisoners have been in the room in 540 of 729 sequences."""
    core = make_core(ENV, 20_000, "cpu", seed=2)
    core.reset()
    total = torch.zeros(20_000)
    for _ in range(6):
        room, been = core.world_state["room"].long(), core.world_state["been"]
        after = been.scatter(1, room[:, None], 1)
        tell = after.all(1, keepdim=True).expand(-1, 3)
        total += core.step(torch.where(tell, TELL, NOTHING))[1][:, 0] * (total == 0)
    assert abs(total.mean().item() - 540 / 729) < 0.01


@pytest.mark.parametrize(("tell_in_step_5", "expected"), [(False, 0.527), (True, 0.535)])
def test_returns_without_the_lamp_are_those_of_the_page(tell_in_step_5, expected):
    """The prisoner in the last step tells if that pays on average over all sequences that reach this step.

    It knows only the steps in which it has been in the room. The better policy also tells in a first visit in step 5.
    """
    earned, chances = 0, {}
    for rooms in itertools.product(range(3), repeat=6):
        if tell_in_step_5 and rooms[4] not in rooms[:4]:
            earned += 1 if len(set(rooms[:5])) == 3 else -1
            continue
        visits = tuple(step for step in range(5) if rooms[step] == rooms[5])
        chances[visits] = chances.get(visits, 0) + (1 if len(set(rooms)) == 3 else -1)
    assert {len(visits) for visits, total in chances.items() if total > 0} == {0, 1, 2}
    assert round((earned + sum(max(total, 0) for total in chances.values())) / 729, 3) == expected


def test_initial_lamp_is_a_setting():
    core = make_core(ENV, 4, "cpu", initial_bulb_state=True)
    core.reset()
    np.testing.assert_array_equal(core.world_state["bulb"].numpy(), 1)

"""Checks of the action tables of classic control."""

import ast

import pytest
import torch
from action_steps import direction_of, one_step

from docs.scripts import tables


def cartpole_actions():
    (table,) = tables.action_tables("classic/cartpole")
    for index, push in table:
        after = one_step("classic/cartpole", lambda state: state["motion"].zero_(), index)
        assert after["motion"][1].sign() == direction_of(push)[0]


def multi_cartpole_actions():
    (table,) = tables.action_tables("classic/multi_cartpole")
    for index, push in table:
        after = one_step("classic/multi_cartpole", lambda state: state["motion"].zero_(), index)
        assert (after["motion"][:, 1].sign() == direction_of(push)[0]).all()


def mountain_car_actions():
    (table,) = tables.action_tables("classic/mountain_car")
    for index, push in table:
        after = one_step("classic/mountain_car", lambda state: state["motion"].copy_(torch.tensor([-0.5, 0.0])), index)
        coasting = -0.0025 * float(torch.cos(torch.tensor(-1.5)))
        assert after["motion"][1] - coasting == pytest.approx(0.001 * float(direction_of(push)[0]), abs=1e-8)


def mountain_car_continuous_actions():
    name = "classic/mountain_car_continuous"
    ((_, throttle, span),) = tables.action_tables(name)[0]
    for action in ast.literal_eval(span):
        after = one_step(name, lambda state: state["motion"].copy_(torch.tensor([-0.5, 0.0])), action)
        coasting = -0.0025 * float(torch.cos(torch.tensor(-1.5)))
        expected = 0.0015 * action * float(direction_of(throttle)[0])
        assert after["motion"][1] - coasting == pytest.approx(expected, abs=1e-8)


def pendulum_actions():
    ((_, sense, span),) = tables.action_tables("classic/pendulum")[0]
    assert sense == "counter-clockwise"
    for torque in ast.literal_eval(span):
        after = one_step("classic/pendulum", lambda state: state["motion"].zero_(), torque)
        assert float(after["motion"][1]) == pytest.approx(3 * torque * 0.05)
        picture = -torch.sin(after["motion"][0])  # where the free end went, to the right
        assert picture.sign() == -torch.tensor(torque).sign()


def acrobot_actions():
    (table,) = tables.action_tables("classic/acrobot")
    for index, torque in table:
        after = one_step("classic/acrobot", lambda state: state["motion"].zero_(), index)
        assert after["motion"][3].sign() == float(torque)

"""Checks of the action tables of Tag and MPE."""

import re

import torch
from action_steps import direction_of, one_step

from docs.scripts import tables


def simple_tag_actions():
    def separate(state):
        state["pos"].copy_(torch.arange(12.0).view(1, 6, 2))

    discrete, continuous = tables.action_tables("mpe/simple_tag")
    accel = torch.tensor([[3.0], [3.0], [3.0], [4.0]])
    for index, push in discrete:
        after = one_step("mpe/simple_tag", separate, index)
        torch.testing.assert_close(after["vel"], accel * 0.1 * direction_of(push))
    for index, push, _ in continuous:
        after = one_step("mpe/simple_tag", separate, torch.eye(5)[index], continuous_actions=True)
        torch.testing.assert_close(after["vel"], accel * 0.1 * direction_of(push))


def tag_continuous_actions():
    def moving(state):
        state["speed"].fill_(0.5)
        state["direction"].fill_(3.0)

    (table,) = tables.action_tables("tag/tag_continuous")
    for index, acceleration, turn in table:
        after = one_step("tag/tag_continuous", moving, index)
        assert abs(after["acceleration"][0] - float(acceleration)) < 1e-4
        assert abs(after["direction"][0] - 3.0 - float(turn)) < 1e-3


def tag_gridworld_actions():
    (table,) = tables.action_tables("tag/tag_gridworld")
    for index, move in table:
        after = one_step("tag/tag_gridworld", lambda state: state["cell"].fill_(2), index)
        assert (after["cell"] - 2 == direction_of(move)).all()


def mpe_actions(name, accel=5.0):
    """Check the tables on agents at rest without contacts; ``accel`` is in m/s^2, for all agents or per agent."""
    accel = torch.as_tensor(accel).reshape(-1, 1)

    def separate(state):
        state["pos"].copy_(torch.arange(float(state["pos"].numel())).view_as(state["pos"]))

    discrete, continuous = tables.action_tables(name)
    for index, push in discrete:
        after = one_step(name, separate, index)
        torch.testing.assert_close(after["vel"], (accel * 0.1 * direction_of(push)).expand_as(after["vel"]))
    for index, push, _ in continuous:
        after = one_step(name, separate, torch.eye(5)[index], continuous_actions=True)
        torch.testing.assert_close(after["vel"], (accel * 0.1 * direction_of(push)).expand_as(after["vel"]))


def collect_treasure_actions():
    mpe_actions("mpe/collect_treasure", [1.5] * 3 + [1.5 / 2.25] * 2)


def talking_actions(name, speakers, accel, tables_of):
    """Hold tables of words and pushes against what agents do: (table, rows of the agents, continuous) each."""

    def separate(state):
        if "pos" in state:
            state["pos"].copy_(torch.arange(float(state["pos"].numel())).view_as(state["pos"]))

    components = max(len(table) for table, _, continuous in tables_of if continuous)
    for table, rows, continuous in tables_of:
        for index, meaning, *_ in table:
            action = torch.zeros(len(accel), components) if continuous else torch.zeros(len(accel))
            action[rows] = torch.eye(components)[index] if continuous else float(index)
            after = one_step(name, separate, action, continuous_actions=continuous)
            if accel.any():
                torch.testing.assert_close(after["vel"][rows], accel[rows, None] * 0.1 * direction_of(meaning))
            letter = re.match(r"letter (\d+)", meaning)
            for speaker in speakers:
                message = torch.zeros(after["said"].shape[1])
                if speaker in rows and letter:
                    message[int(letter[1])] = 1.0
                elif not continuous:
                    message[0] = 1.0  # choice 0, which is a letter too
                assert torch.equal(after["said"][speaker], message)


def with_letters(table, letters):
    """Return a table with a row per letter k in place of a row such as "5 k + 1" or "5 + k"."""
    rows = []
    for index, meaning, *cells in table:
        if isinstance(index, int):
            rows.append((index, meaning, *cells))
            continue
        match = re.fullmatch(r"(\d+) k(?: \+ (\d+))?", index) or re.fullmatch(r"()(\d+) \+ k", index)
        factor, offset = int(match[1] or 1), int(match[2] or 0)
        for k in range(letters):
            rows.append((factor * k + offset, meaning.replace("letter k", f"letter {k}"), *cells))
    return rows


def simple_crypto_actions():
    discrete, continuous = tables.action_tables("mpe/simple_crypto")
    rows = [0, 1, 2]
    talking_actions("mpe/simple_crypto", rows, torch.zeros(3), ((discrete, rows, False), (continuous, rows, True)))


def simple_reference_actions():
    discrete, continuous = (with_letters(table, 10) for table in tables.action_tables("mpe/simple_reference"))
    assert len(discrete) == 50
    rows, accel = [0, 1], torch.tensor([5.0, 5.0])
    talking_actions("mpe/simple_reference", rows, accel, ((discrete, rows, False), (continuous, rows, True)))


def simple_speaker_listener_actions():
    word, push, loudness, throttle = tables.action_tables("mpe/simple_speaker_listener")
    cases = (word, [0], False), (push, [1], False), (loudness, [0], True), (throttle, [1], True)
    talking_actions("mpe/simple_speaker_listener", [0], torch.tensor([0.0, 5.0]), cases)


def simple_world_comm_actions():
    page = tables.action_tables("mpe/simple_world_comm")
    lead, push, loudness, throttle = (with_letters(table, 4) for table in page)
    assert len(lead) == 20
    followers, accel = [1, 2, 3, 4, 5], torch.tensor([3.0, 3.0, 3.0, 3.0, 4.0, 4.0])
    cases = (lead, [0], False), (push, followers, False), (loudness, [0], True), (throttle, followers, True)
    talking_actions("mpe/simple_world_comm", [0], accel, cases)

"""Phased kernels give equal results, bit for bit, in every order of the threads of a world."""

from dataclasses import replace

import pytest
import torch
import toy
import turns
import warp as wp
from many_agents import SMALL as CELLS
from small_environments import SMALL, SPECIAL
from test_conformance import MOSTLY_SLOW

from gpu_envs.definition.registry import find
from gpu_envs.errors import ConformanceError
from gpu_envs.testing.conformance import check_schedules
from gpu_envs.testing.reference_checks import Subject
from gpu_envs.utils.settings import build_config
from warp_kernels.episode import IO
from warp_kernels.framework.schedules import build
from warp_kernels.framework.thread_orders import ORDERS, permutation, reorder
from warp_kernels.rules import item_phase

pytestmark = pytest.mark.representative

EVERY_ORDER = pytest.mark.parametrize("order", ORDERS)


def first_difference(subject, order, steps, num_envs=8):
    """Return step and name of the first array that differs from the usual order's; None if all are equal."""
    usual = subject.definition
    reordered = replace(usual, rules=reorder(usual.rules, order))
    left, right = (subject.core(num_envs, d, schedule="phased") for d in (usual, reordered))
    for core in (left, right):
        core.reset()
    for step in range(steps + 1):
        first, other = ({**core.get_state(), "state()": core.state()} for core in (left, right))
        for name, value in first.items():
            if not torch.equal(value, other[name]):
                return step, name
        actions = [core.sample_actions().clone() for core in (left, right)]
        if not torch.equal(*actions):
            return step, "sampled actions"
        results = [core.step(action)[:4] for core, action in zip((left, right), actions, strict=True)]
        if not all(map(torch.equal, *results)):
            return step, "results"
    return None


def registered(env_id, settings):
    """Return a registered environment with settings."""
    kind, build_definition = find(env_id).load()
    config = build_config(kind, settings, env_id)
    return Subject(env_id, config, build_definition(config))


def small(host, **config):
    """Return an environment of a test module."""
    config = host.Config(**config)
    return Subject("Small-v0", config, host.build(config))


@EVERY_ORDER
@pytest.mark.parametrize("env_id", MOSTLY_SLOW)
def test_no_sibling_order_matters(env_id, order):
    assert first_difference(registered(env_id, SMALL[env_id]), order, steps=40) is None


@pytest.mark.slow
@EVERY_ORDER
@pytest.mark.parametrize(("env_id", "settings"), SPECIAL)
def test_no_sibling_order_matters_with_special_settings(env_id, settings, order):
    assert first_difference(registered(env_id, SMALL[env_id] | settings), order, steps=40) is None


@pytest.mark.slow
@EVERY_ORDER
def test_no_sibling_order_matters_in_cells(order):
    """The grid stores agents of a cell in the order of their threads; what is read from it is the same."""
    subject = registered("TagContinuous-v0", {**SMALL["TagContinuous-v0"], **CELLS})
    assert first_difference(subject, order, steps=40) is None


@pytest.mark.slow
@EVERY_ORDER
@pytest.mark.parametrize("host", [toy, turns])
def test_no_sibling_order_matters_in_correct_small_environments(host, order):
    assert first_difference(small(host), order, steps=20) is None


# ---------------------------------------------------------------- planted races


@EVERY_ORDER
def test_race_between_agents_of_a_phase_is_found(order):
    assert first_difference(small(toy, flaw="reads a sibling"), order, steps=20) is not None


@EVERY_ORDER
def test_race_between_observing_agents_is_found(order):
    """A phase that the framework runs around the rules' own function."""
    assert first_difference(peeking(), order, steps=20) is not None


@EVERY_ORDER
def test_race_between_items_is_found(order):
    assert first_difference(passing_on(), order, steps=20) is not None


@pytest.mark.slow
def test_checker_names_the_racing_phase():
    with pytest.raises(ConformanceError, match=r"reads what a sibling writes.*phase observe \(over agents\): io\.obs"):
        check_schedules(peeking())


def peeking():
    """Return the toy whose agents observe a part of the next agent's observation."""
    subject = small(toy)
    d = subject.definition
    Params, State = d.rules.params, d.rules.state
    observe, count = d.rules.observe, d.rules.num_agents

    @wp.func
    def peek(params: Params, state: State, io: IO, env: int, agent: int):
        observe(params, state, io, env, agent)
        io.obs[env, agent, 1] = 0.5 * io.obs[env, agent, 1] + 0.5 * io.obs[env, (agent + 1) % count, 0]

    rules = replace(d.rules, key=f"{d.rules.key} peeking", observe=peek)
    return replace(subject, definition=replace(d, rules=rules))


def passing_on():
    """Return the toy with a phase over items in which each takes over a part of the next."""
    subject = small(toy, num_agents=7)
    d = subject.definition
    Params, State = d.rules.params, d.rules.state

    @wp.func
    def take_over(params: Params, state: State, io: IO, env: int, item: int):
        state.cell[env, item] = (state.cell[env, item] + state.cell[env, (item + 1) % 7]) % (params.length + 1)

    rules = replace(d.rules, key=f"{d.rules.key} passing on", phases=(*d.rules.phases, item_phase(7, take_over)))
    return replace(subject, definition=replace(d, rules=rules))


# ---------------------------------------------------------------- the orders


@pytest.mark.parametrize("count", [*range(1, 40), 105, 1000])
def test_orders_are_distinct_permutations(count):
    orders = {tuple(range(count))}
    for order in ORDERS:
        factor, shift = permutation(order, count)
        orders.add(tuple((thread * factor + shift) % count for thread in range(count)))
    assert all(sorted(order) == list(range(count)) for order in orders)
    assert len(orders) == (count if count < 3 else 1 + len(ORDERS))


def test_orders_share_kernels():
    rules = toy.build(toy.Config()).rules
    first, second = (build(reorder(rules, order), "phased", False) for order in ORDERS[:2])
    assert [stage.kernel for stage in first.step] == [stage.kernel for stage in second.step]
    assert [stage.more for stage in first.step] != [stage.more for stage in second.step]


def test_wrong_orders_raise():
    rules = toy.build(toy.Config()).rules
    with pytest.raises(ValueError, match=r"order: expected one of usual, reversed, .* permutation 2, got 'random'"):
        reorder(rules, "random")
    with pytest.raises(ValueError, match="schedule: expected 'phased' for rules with order 'reversed', got 'fused'"):
        build(reorder(rules, "reversed"), "fused", False)

"""Orders of the threads of a world, in which phased kernels give equal results; see also `test_planted_faults.py`."""

from dataclasses import replace

import pytest
import toy
import turns
import warp as wp
from many_agents import SMALL as CELLS
from small_environments import SMALL, SPECIAL

from gpu_envs.errors import ConformanceError
from gpu_envs.runtime.factory import configured_definition
from gpu_envs.testing.conformance import check_schedules
from gpu_envs.testing.reference_checks import Subject
from warp_kernels.episode import IO
from warp_kernels.framework.schedules import build
from warp_kernels.framework.thread_orders import ORDERS, permutation, reorder
from warp_kernels.rules import item_phase


def small(host, **config):
    """Return an environment of a test module."""
    config = host.Config(**config)
    return Subject("Small-v0", config, host.build(config))


@pytest.mark.slow
@pytest.mark.parametrize(("env_id", "settings"), [*SPECIAL, ("TagContinuous-v0", CELLS)])
def test_no_sibling_order_matters_with_special_settings(env_id, settings):
    """`test_check_env.py` checks the usual settings. With cells, the grid stores agents in the order of threads."""
    subject = Subject(*configured_definition(env_id, None, SMALL[env_id] | settings), worlds=8, steps=40)
    check_schedules(subject)


@pytest.mark.slow
def test_no_sibling_order_matters_in_a_game_of_turns():
    check_schedules(small(turns))


def test_race_between_items_is_named():
    words = r"reads what a sibling writes.*phase take_over \(over its 7 items\): State\.cell"
    with pytest.raises(ConformanceError, match=words):
        check_schedules(passing_on())


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

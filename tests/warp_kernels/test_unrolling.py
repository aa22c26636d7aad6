"""Loops over constant ranges are unrolled while a step stays small enough to compile quickly."""

import inspect
import warnings

import commons
import pytest
import warp as wp
from small_environments import SMALL, SPECIAL
from warp._src.context import ModuleBuilder

from gpu_envs.definition.registry import find, list_envs
from gpu_envs.utils.settings import build_config
from warp_kernels.framework.schedules import build
from warp_kernels.framework.unrolling import MAX_OPERATIONS, affordable_unroll, count_operations
from warp_kernels.rules import Rules, agent_phase


@wp.func
def nothing():
    return


def operations(run, num_agents=1, max_unroll=16):
    """Return the operations of a step with one phase, and its unrolled loops."""
    rules = Rules("one phase", object, object, num_agents, 1, False, (agent_phase(run),), nothing)
    return count_operations(rules, max_unroll)


def nested(outer, inner):
    @wp.func
    def run():
        total = int(0)  # an operation; the product below is another
        for i in range(outer):
            for j in range(inner):
                total += i * j

    return run


def test_nested_loops_multiply_and_so_do_agents():
    assert operations(nested(3, 5))[0] == 1 + 3 * 5
    assert operations(nested(3, 5), num_agents=4)[0] == 4 * (1 + 3 * 5)
    assert sorted(operations(nested(3, 5), num_agents=4)[1].values()) == [(3, 60), (5, 60)]


def test_longer_loops_count_once_with_their_range():
    assert operations(nested(3, 5), max_unroll=4)[0] == 1 + 3 * (1 + 1)
    assert operations(nested(3, 5), max_unroll=2)[0] == 1 + 1 + 1 + 1
    assert operations(nested(3, 5), num_agents=4, max_unroll=2)[0] == 1 + 1 + 1 + 1


def test_inner_ranges_may_depend_on_the_outer_index():
    @wp.func
    def run():
        total = int(0)
        for i in range(4):
            for j in range(i):
                total += i * j

    assert operations(run)[0] == 1 + 0 + 1 + 2 + 3


def test_range_of_an_index_that_an_earlier_loop_had_is_unknown():
    @wp.func
    def run(count: int):
        total = int(0)
        for i in range(4):
            for j in range(i):
                total += i * j
        for i in range(count):
            for j in range(i):
                total += i * j

    assert operations(run)[0] == 1 + 6 + 1 + 1 + 1


def test_loops_with_a_break_are_not_unrolled():
    @wp.func
    def run():
        total = int(0)
        for i in range(4):
            if total > 2:  # two operations; the range and the product are one each
                break
            total += i * i

    assert operations(run)[0] == 1 + 4


def test_static_conditions_select_the_code():
    size = 4

    @wp.func
    def run():
        total = int(0)
        if wp.static(size > 5):
            total += int(1) + int(2)
        if wp.static(size < 5):
            total += int(3)

    assert operations(run)[0] == 1 + 1


@pytest.mark.parametrize(("inline", "count"), [(True, 1 + 2 * (1 + 2)), (None, 1 + 2)])
def test_inlined_functions_count_at_each_call(inline, count):
    @wp.func(inline=inline)
    def add(x: int):
        return x + 1 + 1

    @wp.func
    def run():
        total = int(0)
        for _ in range(2):
            total = add(total)

    assert operations(run)[0] == count


VIEW = commons.rules(7, 5, 16)
"""Agents that see 11 x 11 cells; every loop over constants is at most 16 long."""


def test_wide_view_stays_within_the_limit_and_the_warning_names_its_loop():
    assert count_operations(VIEW, 16)[0] > 100_000
    affordable_unroll.cache_clear()
    source, first = inspect.getsourcelines(commons.rules)
    line = first + next(n for n, text in enumerate(source) if "for down in range(width)" in text)
    with pytest.warns(UserWarning, match=rf"commons\.py:{line}: this loop of 11 iterations"):
        longest = affordable_unroll(VIEW)
    assert longest == 6  # the loops of the view are 11 long, the loops over agents 7
    assert count_operations(VIEW, longest)[0] <= MAX_OPERATIONS
    assert build(VIEW, "fused", True).module.options["max_unroll"] == 6


@pytest.mark.parametrize(
    ("env_id", "settings"),
    [*((env_id, {}) for env_id in list_envs()), *SMALL.items(), *SPECIAL],
)
def test_environments_of_this_library_are_below_the_limit(env_id, settings):
    config, build_definition = find(env_id).load()
    rules = build_definition(build_config(config, settings, env_id)).rules
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert affordable_unroll(rules) == rules.max_unroll


@pytest.mark.parametrize("length", [8, 40])
def test_loops_with_static_expressions_stay_unrolled_and_a_warning_names_the_largest(length):
    numbers = tuple(range(length))

    @wp.func
    def run():
        total = int(0)
        for i in range(length):
            for j in range(40):
                total += wp.static(numbers[i]) * j * j * j * j * j * j * j * j * j * j

    rules = Rules(f"static loops {length}", object, object, 12, 1, False, (agent_phase(run),), nothing)
    line = run.adj.fun_lineno + 3
    with pytest.warns(UserWarning, match=rf"test_unrolling\.py:{line}: this loop of {length} .*loop with wp\.static"):
        assert affordable_unroll(rules) <= 16


def test_generated_code_of_the_wide_view_is_small():
    """Without the limit Warp writes 1.6 MB; the compiler needs minutes for that."""
    module = build(VIEW, "fused", True).module
    options = module.resolve_options(wp.config, block_dim=1) | {"output_arch": None, "block_dim": 1}
    assert len(ModuleBuilder(module, options, target="cpu").codegen("cpu")) < 300_000

"""The fingerprint of rules changes with what they compute."""

import dataclasses

import pytest
import toy
import warp as wp

from gpu_envs.definition.registry import find, list_envs
from gpu_envs.utils.settings import build_config
from warp_kernels.generated_source import compiled
from warp_kernels.rules import agent_phase, world_phase
from warp_kernels.rules_source import rules_fingerprint

BASE = toy.rules(3, True)


@wp.func
def add_one(x: int):
    return x + 1


@wp.func
def add_two(x: int):
    return x + 2


def fingerprint(lines, **constants):
    """Return the fingerprint of rules with one phase made of lines."""
    run = compiled("play", "x: int", lines, constants)
    return rules_fingerprint(dataclasses.replace(BASE, phases=(agent_phase(run),)))


FIRST = fingerprint(["y = add(x) * size"], add=add_one, size=3)


@pytest.mark.parametrize(
    ("lines", "constants"),
    [
        (["y = add(x) + size"], {"add": add_one, "size": 3}),
        (["y = add(x) * size"], {"add": add_two, "size": 3}),
        (["y = add(x) * size"], {"add": add_one, "size": 4}),
    ],
    ids=["code", "called function", "constant"],
)
def test_other_code_has_another_fingerprint(lines, constants):
    assert fingerprint(lines, **constants) != FIRST


@pytest.mark.parametrize(
    ("size", "other"),
    [
        (wp.vec2(3.0, 1.0), wp.vec2(3.0, 2.0)),
        (wp.mat22(1.0, 2.0, 3.0, 4.0), wp.mat22(1.0, 2.0, 3.0, 5.0)),
        ((1, (2, 3)), (1, (2, 4))),
    ],
    ids=["vector", "matrix", "tuple"],
)
def test_vectors_matrices_and_tuples_are_constants(size, other):
    assert fingerprint(["y = x * size"], size=size) != fingerprint(["y = x * size"], size=other)


@pytest.mark.parametrize(
    "changes",
    [
        {"phases": (agent_phase(add_one), agent_phase(add_two), agent_phase(add_one))},
        {"phases": (agent_phase(add_one), world_phase(add_two))},
        {"shared_stake": True},
        {"illegal_noop": True},
    ],
)
def test_order_of_phases_and_flags_change_the_fingerprint(changes):
    rules = dataclasses.replace(BASE, phases=(agent_phase(add_one), agent_phase(add_two)))
    assert rules_fingerprint(dataclasses.replace(rules, **changes)) != rules_fingerprint(rules)


@wp.func
def plus_one(number: int):
    """Add one, by other names."""
    return number + 1


@pytest.mark.parametrize(
    ("lines", "constants"),
    [
        (['"""Words."""', "# a comment", "y = add(x)  *  size"], {"add": add_one, "size": 3}),
        (["result = add(x) * size"], {"add": add_one, "size": 3}),
        (["y = step(x) * length"], {"step": plus_one, "length": 3}),
    ],
    ids=["comments", "local variable", "function and constant"],
)
def test_comments_formatting_and_names_do_not_matter(lines, constants):
    assert fingerprint(lines, **constants) == FIRST


def test_environments_of_this_library_have_different_fingerprints():
    fingerprints = set()
    for env_id in list_envs():
        config, build = find(env_id).load()
        fingerprints.add(rules_fingerprint(build(build_config(config, {}, env_id)).rules))
    assert len(fingerprints) == len(list_envs())

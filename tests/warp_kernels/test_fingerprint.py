"""The fingerprint of rules changes with what they compute."""

import dataclasses

import pytest
import toy
import warp as wp

from gpu_envs.definition.registry import find, list_envs
from gpu_envs.utils.settings import build_config
from warp_kernels.fingerprint import rules_fingerprint
from warp_kernels.generated_source import compiled
from warp_kernels.rules import agent_phase

BASE = toy.rules(3, True)


@wp.func
def one(x: int):
    return x + 1


@wp.func
def two(x: int):
    return x + 2


def fingerprint(lines, **constants):
    """Return the fingerprint of rules with one phase made of lines."""
    run = compiled("play", "x: int", lines, constants)
    return rules_fingerprint(dataclasses.replace(BASE, phases=(agent_phase(run),)))


FIRST = fingerprint(["y = add(x) * size"], add=one, size=3)


@pytest.mark.parametrize(
    ("lines", "constants"),
    [
        (["y = add(x) + size"], {"add": one, "size": 3}),
        (["y = add(x) * size"], {"add": two, "size": 3}),
        (["y = add(x) * size"], {"add": one, "size": 4}),
    ],
    ids=["code", "called function", "constant"],
)
def test_other_code_has_another_fingerprint(lines, constants):
    assert fingerprint(lines, **constants) != FIRST


def test_comments_docstrings_and_formatting_do_not_matter():
    assert fingerprint(['"""Words."""', "# a comment", "y = add(x)  *  size"], add=one, size=3) == FIRST


def test_environments_of_this_library_have_different_fingerprints():
    found = set()
    for env_id in list_envs():
        config, build = find(env_id).load()
        found.add(rules_fingerprint(build(build_config(config, {}, env_id)).rules))
    assert len(found) == len(list_envs())

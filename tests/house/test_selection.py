"""CI runs a part of all tests: every test is in exactly one, with the tests that compile the same kernels."""

from types import SimpleNamespace

import pytest
from selection import is_in_part
from small_environments import SMALL


def collected(nodeid, **params):
    return SimpleNamespace(nodeid=nodeid, callspec=SimpleNamespace(params=params))


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_every_test_is_in_one_part(parts):
    items = [collected(f"{file}::test[{env_id}]", env_id=env_id) for file in "ab" for env_id in SMALL]
    items += [collected(f"{file}::test[{i}]", i=i) for file in "cdefgh" for i in range(5)]
    part_by_unit = {}
    for item in items:
        (part,) = [part for part in range(1, parts + 1) if is_in_part(item, part, parts)]
        unit = item.callspec.params.get("env_id", item.nodeid[0])
        assert part_by_unit.setdefault(unit, part) == part
    assert {*part_by_unit.values()} == {*range(1, parts + 1)}

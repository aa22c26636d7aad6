"""Memo of networks on a CPU: the distribution of a policy for an observation is computed once per launch.

Observations of turn-based games repeat: Kuhn poker has six per seat. An entry of the table is found by a hash of
policy and observation, and replaces the entry before. It has the parameters of the distribution over actions. They
depend on policy, observation and legal actions only, all of which are compared, so results do not change.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import warp as wp

from warp_kernels.framework.policies import PolicyKind
from warp_kernels.networks.activations import vector
from warp_kernels.networks.mlp import Mlp, padded

MAX_ENTRIES = 8192
"""Largest number of entries of a table."""


@dataclass(frozen=True)
class Memo:
    """Warp functions of a table. It consists of ``entries``, (N, S) float32, and their ``owners``, (N,) int32."""

    find: Any
    """``find(obs, mask, policy, entries, owners) -> int``: the entry of an observation and legal actions at addresses.

    It is ``-1 - n`` if entry n does not have them."""
    read: Any
    """``read(entry, entries) -> V``: the parameters of an entry."""
    write: Any
    """``write(entry, obs, mask, policy, parameters, entries, owners)``: replace an entry."""


def entry_size(num_choices: int, kinds: Sequence[PolicyKind]) -> int:
    """Return the length of an entry S for policies of several kinds: observation, legal actions, and parameters."""
    return max(padded(kind.mlp.inputs) + kind.mlp.head_width for kind in kinds) + padded(num_choices) // 4


def memo_entries(num_envs: int) -> int:
    """Return the number of entries for a number of worlds."""
    return min(8 * num_envs, MAX_ENTRIES)


# The bits of 0 and 1, frequent observations, differ in the upper half only, hence the shift.
_FIND = """
    const unsigned int factors[{inputs}] = {{{factors}}};
    const unsigned int* own = (const unsigned int*)obs;
    unsigned int hash = (unsigned int)policy * {policy_factor}u;
    for (int i = 0; i < {inputs}; ++i) hash += (own[i] ^ own[i] >> 16) * factors[i];
    const int entry = (int)(((unsigned long long)hash * (unsigned long long)entries.shape[0]) >> 32);
    if (owners.data[entry] != policy + 1) return -1 - entry;
    const unsigned int* known = (const unsigned int*)(entries.data + (long long)entry * {size});
    unsigned int differs = 0;
    for (int i = 0; i < {inputs}; ++i) differs |= own[i] ^ known[i];
    const unsigned char* legal = (const unsigned char*)mask;
    const unsigned char* known_legal = (const unsigned char*)(known + {legal});
    for (int i = 0; i < {choices}; ++i) differs |= legal[i] ^ known_legal[i];
    return differs ? -1 - entry : entry;
"""
_READ = """
    const wp::float32* known = entries.data + (long long)entry * {size} + {parameters};
    wp::vec_t<{length}, wp::float32> z;
    for (int i = 0; i < {length}; ++i) z.c[i] = known[i];
    return z;
"""
_WRITE = """
    const wp::float32* own = (const wp::float32*)obs;
    wp::float32* known = entries.data + (long long)entry * {size};
    for (int i = 0; i < {inputs}; ++i) known[i] = own[i];
    const unsigned char* legal = (const unsigned char*)mask;
    unsigned char* known_legal = (unsigned char*)(known + {legal});
    for (int i = 0; i < {choices}; ++i) known_legal[i] = legal[i];
    for (int i = 0; i < {length}; ++i) known[{parameters} + i] = v.c[i];
    owners.data[entry] = policy + 1;
"""


@cache
def memo_of(mlp: Mlp, choices: int, size: int) -> Memo:
    """Build the functions for networks of one kind, masks of so many choices (0: none) and entries of a length."""
    V, draw = vector(mlp.head_width), random.Random(0)
    factor, *factors = (draw.getrandbits(32) | 1 for _ in range(1 + mlp.inputs))
    sizes = {"inputs": mlp.inputs, "legal": padded(mlp.inputs), "choices": choices, "length": mlp.head_width}
    sizes |= {"parameters": size - mlp.head_width, "size": size}
    sizes |= {"factors": ", ".join(f"{x}u" for x in factors), "policy_factor": factor}

    @wp.func_native(_FIND.format(**sizes))
    def find(
        obs: wp.uint64, mask: wp.uint64, policy: int, entries: wp.array2d(dtype=float), owners: wp.array(dtype=int)
    ) -> int: ...

    @wp.func_native(_READ.format(**sizes))
    def read(entry: int, entries: wp.array2d(dtype=float)) -> V: ...

    @wp.func_native(_WRITE.format(**sizes))
    def write(
        entry: int,
        obs: wp.uint64,
        mask: wp.uint64,
        policy: int,
        v: V,
        entries: wp.array2d(dtype=float),
        owners: wp.array(dtype=int),
    ): ...

    return Memo(find, read, write)

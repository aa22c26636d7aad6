"""GPU kernels of learning with dense networks of typical sizes, by name, and their resources."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import warp as wp

import warp_kernels
from benchmarks.kernels.assembler import Assembler, AssemblerError, KernelUsage
from benchmarks.kernels.occupancy import Architecture
from benchmarks.kernels.programs import ENTRY, FUSE_FP, subjects
from trainers.algorithms.on_policy.ppo import PPO
from warp_kernels.framework.policies import Acting, PolicyKind
from warp_kernels.framework.rollout import build_phased_rollout
from warp_kernels.framework.tile_acting import build_tile_outputs
from warp_kernels.networks.advantages import build_advantages
from warp_kernels.networks.distributions import distribution_of
from warp_kernels.networks.losses import policy_head, value_head
from warp_kernels.networks.mlp import Mlp
from warp_kernels.networks.optimizer import build_optimizer
from warp_kernels.networks.tile_memory import fits
from warp_kernels.networks.tiles import build_tile_forward, build_tile_gradient

LEARNING = "learning"
"""Set of the kernels of a network, in place of a schedule."""
ANY_SIZE = "Advantages and optimizer"
"""Kernels that do not depend on the sizes of networks."""
ENVIRONMENT = "SimpleTag-v0"
"""Environment of the policies."""
NUM_CHOICES = 5
"""Number of its actions."""
WIDTHS = (64, 128)
"""Widths of the hidden layers of the networks in the record."""
TILES = ("policy gradient", "value gradient", "values", "policy outputs")
"""Kernels of a network, which compute in tiles."""
ROLLOUT = tuple(f"{ENVIRONMENT}: {phase}" for phase in ("act", "store", "store last"))
"""Kernels of rollouts around the steps, with a thread per world and agent; "act" samples from the policy outputs."""


@dataclass(frozen=True)
class NetworkSubject:
    """A policy with masked discrete actions and a critic, with two hidden layers each; or the kernels of ANY_SIZE."""

    width: int = 0
    """Width of the hidden layers; 0 for the kernels of ANY_SIZE."""

    @property
    def policy(self) -> Mlp:
        """Sizes of the policy, as in SimpleTag."""
        return Mlp(18, (self.width, self.width), NUM_CHOICES)

    @property
    def critic(self) -> Mlp:
        """Sizes of the critic."""
        return Mlp(18, (self.width, self.width), 1)

    def tile_rows(self, architecture: Architecture) -> int | None:
        """Return the rows of a tile on an architecture; None for kernels without tiles."""
        return fits(self.policy, architecture.compute_capability) if self.width else None

    def kernels(self, architecture: Architecture) -> dict[str, Any]:
        """Return the kernels on an architecture by name, without compiling them."""
        rows = self.tile_rows(architecture)
        if rows is None:
            named = zip(("add chunks", "adam", "copy matrices"), build_optimizer(), strict=True)
            return {"advantages": build_advantages(False), "advantages by turns": build_advantages(True), **dict(named)}
        distribution = distribution_of("categorical", (NUM_CHOICES,), self.policy, True)
        head, settings = PPO.objective.kernel_head, PPO.objective.settings
        policy = policy_head(distribution, head, settings, self.policy.head_width)
        value = value_head(head, settings, self.critic.head_width)
        built = (
            build_tile_gradient(self.policy, policy, "benchmark", rows),
            build_tile_gradient(self.critic, value, "benchmark", rows),
            build_tile_forward(self.critic, rows, True),
            build_tile_outputs(self.policy, rows, True, False),
        )
        rules = subjects()[ENVIRONMENT].definition().rules
        kinds = (PolicyKind(self.policy, "categorical", (NUM_CHOICES,)),)
        acting = Acting(kinds, ((0,),) * rules.num_agents, True, tile_rows=(rows,))
        around = [stage.kernel for stage in build_phased_rollout(rules, acting, FUSE_FP)]
        return dict(zip((*TILES, *ROLLOUT), (*built, *around), strict=True))


@cache
def networks() -> dict[str, NetworkSubject]:
    """Return all networks by their names in the record."""
    sizes = {f"Networks 18-{width}-{width}": NetworkSubject(width) for width in WIDTHS}
    return {**sizes, ANY_SIZE: NetworkSubject()}


def network_usages(
    name: str, architectures: Sequence[Architecture], ptxas: Assembler
) -> Iterator[tuple[str, str, KernelUsage]]:
    """Compile the kernels of a network and yield label, architecture and resources; shared memory includes tiles.

    Raises:
        AssemblerError: Ptxas refuses a kernel.
    """
    warp_kernels.start()
    for architecture in architectures:
        kernels = networks()[name].kernels(architecture)
        for module in dict.fromkeys(kernel.module for kernel in kernels.values()):
            called = {kernel.key: label for label, kernel in kernels.items() if kernel.module is module}
            with tempfile.TemporaryDirectory() as folder:
                paths = wp.compile_aot_module(
                    module, device=None, arch=[architecture.compute_capability], module_dir=folder, use_ptx=True
                )
                (ptx,) = [Path(path).read_bytes() for path in paths if Path(path).suffix == ".ptx"]
                (meta,) = Path(folder).rglob("*.meta")
                tiles = json.loads(meta.read_text(encoding="utf-8"))
            for entry, usage in ptxas.usage(ptx, architecture.name).items():
                match = ENTRY.fullmatch(entry)
                if match is None or match["key"] not in called:
                    raise AssemblerError(f"{name}: the kernel {entry} has no name in the record")
                yield (
                    called[match["key"]],
                    architecture.name,
                    replace(usage, shared=usage.shared + tiles[f"{entry}_smem_bytes"]),
                )

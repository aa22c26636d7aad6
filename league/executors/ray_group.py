"""A task that several processes of a Ray cluster run together, each on its own GPU."""
# Ray is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any

from league.executors.worker import perform
from trainers.cluster.connect import ray_module

__all__ = ["RayGroup"]


class RayGroup:
    """Processes of one task, in a placement group: all of them have their resources, or none has.

    They are actors of this task only. If one of them dies, the other processes cannot continue, and the caller ends the
    group and starts another one.
    """

    def __init__(self, ray: Any, content: tuple[Any, ...], ranks: int, resources: Mapping[str, float]) -> None:
        """Start the processes as soon as their resources are free; this returns at once.

        Args:
            ray: Ray's module.
            content: Packed task, see `league.executors.ray`; its function takes the argument `sharded`.
            ranks: Number of processes.
            resources: Resources of each process, by their names in Ray.
        """
        groups, strategies = ray_module("util.placement_group"), ray_module("util.scheduling_strategies")
        self._ray = ray
        self._remove: Callable[[Any], None] = groups.remove_placement_group
        # PACK: on as few nodes as possible, since processes of one node communicate faster
        self._placement: Any = groups.placement_group([dict(resources)] * ranks, strategy="PACK")
        custom = {name: share for name, share in resources.items() if name not in ("CPU", "GPU")}
        remote = ray.remote(_Rank)
        self._actors: list[Any] = [
            remote.options(
                num_cpus=resources["CPU"],
                num_gpus=resources.get("GPU", 0),
                resources=custom,
                scheduling_strategy=strategies.PlacementGroupSchedulingStrategy(
                    self._placement, placement_group_bundle_index=rank
                ),
            ).remote()
            for rank in range(ranks)
        ]
        address, packed = self._actors[0].address.remote(), ray.put(content)  # sent once to each node
        self.refs: list[Any] = [
            actor.run.remote(packed, rank, ranks, address) for rank, actor in enumerate(self._actors)
        ]
        """Results of the processes: rank 0 returns the result of the task, others None."""

    def end(self) -> None:
        """Kill the processes and free their resources."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._remove(self._placement)


class _Rank:
    """One process of a group."""

    def address(self) -> tuple[str, int]:
        """Return the address of this node and a free port, at which rank 0 awaits the others."""
        host = sys.modules["ray"].util.get_node_ip_address()
        with socket.create_server((host, 0)) as free:
            return host, free.getsockname()[1]

    def run(self, content: tuple[Any, ...], rank: int, ranks: int, address: tuple[str, int]) -> Any:
        """Run the task as one rank, and return its packed result on rank 0; see `Shard.from_env`."""
        function, pools, arguments, device, threads, modules, refs, workspace = content
        names = {"RANK": rank, "WORLD_SIZE": ranks, "MASTER_ADDR": address[0], "MASTER_PORT": address[1]}
        os.environ.update({name: str(value) for name, value in names.items()})

        def together(policies: Any, **arguments: Any) -> Any:
            from torch import distributed

            result = function(policies, sharded=True, **arguments)
            distributed.barrier()  # gloo may abort a process whose peer closes its connections first
            return result if rank == 0 else None

        return perform(together, pools, arguments, device, threads, modules, refs, sys.modules["ray"].get, workspace)

"""The CPUs and GPUs of a Ray cluster, and what tasks take of them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from gpu_envs.errors import ConfigError
from league.executors.gpu_shares import SHARING, GpuNode, GpuShare, SharePlan, plan_shares
from league.executors.tasks import RemoteTask
from trainers.cluster.connect import ray_module

GPU = "GPU"
"""Ray's name of the resource."""
RESOURCE_INTERVAL = 5.0
"""Interval between two queries of the cluster's resources [s]."""
KIND = "accelerator_type:"
"""Beginning of the name of Ray's resource for the model of a node's GPUs."""
PART_OF_KIND = 0.001
"""Part of this resource with which a process asks for the model."""


class RayResources:
    """Resources of a cluster's nodes, which can join and leave."""

    def __init__(
        self, ray: Any, threads: int, gpus_per_learner: float | None, memory_per_learner: float, gpu_resource: str
    ) -> None:
        """Query the resources; arguments as in `RayExecutor`, with 0 for unlimited memory."""
        self._ray = ray
        self.threads: int = threads
        self.gpus_per_learner: float | None = gpus_per_learner
        self.memory_per_learner: float = memory_per_learner
        self.gpu_resource: str = gpu_resource
        self._memory: dict[str, float] = {}  # of a GPU, by node
        self._updated_at = -RESOURCE_INTERVAL
        self.update()

    def update(self) -> None:
        """Query the resources if the last query is old."""
        if time.monotonic() - self._updated_at > RESOURCE_INTERVAL:
            self._updated_at = time.monotonic()
            alive = [node for node in self._ray.nodes() if node["Alive"]]
            self.nodes: list[GpuNode] = [self._node(node["NodeID"], node["Resources"]) for node in alive]
            self.cpus: int = sum(node.cpus for node in self.nodes)
            self.gpus: int = sum(node.gpus for node in self.nodes)

    def _node(self, name: str, resources: dict[str, float]) -> GpuNode:
        kinds = [resource.removeprefix(KIND) for resource in resources if resource.startswith(KIND)]
        gpus, cpus = int(resources.get(self.gpu_resource, 0)), int(resources.get("CPU", 0))
        memory = self._memory_of(name) if gpus and self.memory_per_learner and self.gpu_resource == GPU else math.inf
        return GpuNode(gpus, cpus, kinds[0] if kinds and gpus else "", memory, name)

    def _memory_of(self, name: str) -> float:
        """Return the memory of a GPU of a node [GiB], which a task on the node reads once; 0 if the node is lost."""
        if name not in self._memory:
            strategies = ray_module("util.scheduling_strategies")
            strategy = strategies.NodeAffinitySchedulingStrategy(name, soft=False)
            read = self._ray.remote(max_calls=1)(_gpu_memory)  # in a separate process, since it starts CUDA
            ref = read.options(num_cpus=0, num_gpus=0.001, scheduling_strategy=strategy).remote()
            try:
                self._memory[name] = self._ray.get(ref)
            except self._ray.exceptions.TaskUnschedulableError:
                return 0.0
        return self._memory[name]

    def check_share(self) -> None:
        """Raise ConfigError if a training is to have more GPUs, or more memory, than the cluster has."""
        largest = max((node.memory for node in self.nodes if node.gpus), default=math.inf)
        if self.memory_per_learner > largest:
            raise ConfigError(
                f"memory_per_learner = {self.memory_per_learner:g}: expected at most the {largest:.3g} GiB of the "
                "cluster's largest GPU; use smaller networks or fewer worlds"
            )
        gpus = self.gpus_per_learner or 0.0
        if gpus <= 1 or not self.gpus:
            return
        largest = max(share.gpus for share in plan_shares(self.nodes, 1, cpus=self.threads).shares or [GpuShare(0.0)])
        if gpus > largest:
            raise ConfigError(
                f"gpus_per_learner = {gpus:g}: expected at most the {largest:g} GPUs of one kind in the cluster, with "
                f"{self.threads} CPU for each; use fewer"
            )

    @property
    def cuda_gpus(self) -> int:
        """Number of GPUs that are not simulated."""
        return self.gpus if self.gpu_resource == GPU else 0

    def plan(self, trainings: int) -> SharePlan:
        """Return the GPUs of trainings that begin together."""
        memory = self.memory_per_learner
        return plan_shares(self.nodes, trainings, cpus=self.threads, memory=memory, gpus=self.gpus_per_learner)

    @property
    def least_share(self) -> float:
        """Smallest share of a GPU for a training, of which other tasks get half; 0 without GPUs."""
        if not self.gpus:
            return 0.0
        if self.gpus_per_learner is not None:
            return min(self.gpus_per_learner, 1.0)
        by_memory = [node.memory / self.memory_per_learner for node in self.nodes if self.memory_per_learner]
        limit = min([SHARING, self.cpus / self.threads / self.gpus, *(number for number in by_memory if number >= 1)])
        return 1 / max(1, int(limit))

    def uses_gpu(self, task: RemoteTask) -> bool:
        """Return whether a task computes on a GPU, or takes a simulated one."""
        return task.device.startswith("cuda") or self.gpu_resource != GPU

    def capacity(self, task: RemoteTask, trainings: Sequence[GpuShare]) -> int:
        """Return the number of tasks like this one, which does not train, that can run beside trainings."""
        cores = self.cpus // self.threads
        if not self.uses_gpu(task) or not self.gpus:
            return max(1, cores)
        free = self.gpus - sum(share.gpus for share in trainings)
        cores -= sum(share.processes for share in trainings)
        return max(0 if trainings else 1, min(cores, int(free / (self.least_share / 2) + 1e-6)))

    def can_host(self, needs_gpu: bool) -> bool:
        """Return whether a node has the resources of a task."""
        return any(node.cpus >= self.threads and (node.gpus or not needs_gpu) for node in self.nodes)

    def task_options(self, task: RemoteTask, share: GpuShare | None) -> dict[str, Any]:
        """Return the options of a Ray task: a training with a share, or another task with half of the smallest one."""
        gpus = share.gpus if share else self.least_share / 2 if self.uses_gpu(task) else 0.0
        strategy: Any = "SPREAD"
        if share is not None and share.node:
            strategies = ray_module("util.scheduling_strategies")
            strategy = strategies.NodeAffinitySchedulingStrategy(share.node, soft=True)
        options: dict[str, Any] = {"name": task.key, "num_cpus": self.threads, "scheduling_strategy": strategy}
        if self.gpu_resource == GPU:
            return {**options, "num_gpus": round(gpus, 4)}
        return {**options, "resources": {self.gpu_resource: round(gpus, 4)}}

    def keeps_gpu(self, options: dict[str, Any]) -> bool:
        """Return whether a process has to end with its task, since it keeps one of several GPUs of its node."""
        return bool(options.get("num_gpus")) and any(node.gpus > 1 for node in self.nodes)

    def of_process(self, share: GpuShare) -> dict[str, float]:
        """Return the resources of one of several processes of a training, by Ray's names."""
        resources = {"CPU": float(self.threads), self.gpu_resource: 1.0}
        if share.kind and len({node.kind for node in self.nodes if node.gpus}) > 1:
            resources[f"{KIND}{share.kind}"] = PART_OF_KIND
        return resources


def _gpu_memory() -> float:
    """Return the memory of the GPU of this process [GiB]."""
    import torch

    return torch.cuda.mem_get_info()[1] / 2**30

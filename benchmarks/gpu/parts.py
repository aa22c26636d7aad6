"""Parts of the report, one function each. A part runs in its own process and yields rows."""

import argparse
import dataclasses
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu import peers
from benchmarks.gpu.measure import failed, free, throughputs
from benchmarks.throughput.cases import many_agent_settings
from benchmarks.throughput.roofline import traffic
from gpu_envs.runtime.factory import make_core
from gpu_envs.runtime.kernels import BLOCK_DIMS, MAX_BLOCK_AGENTS, MAX_FUSED_AGENTS

Rows = Iterator[dict[str, Any]]
MILLION = 1 << 20


HYBRID = "training with rollouts in kernels"
"""Mode of trainings with policies in kernels and gradients by PyTorch."""
IN_KERNELS = "training in kernels"
"""Mode of trainings with policies and gradients in kernels."""
TRAINING_MODES: dict[str, dict[str, Any]] = {
    "training": {"cuda_graph": True, "engine": "torch"},
    "training without graphs": {"cuda_graph": False, "engine": "torch"},
    HYBRID: {"cuda_graph": True, "engine": "auto"},
    IN_KERNELS: {"cuda_graph": True, "engine": "kernel"},
}
"""Settings of a training by its mode."""


@dataclass(frozen=True)
class Scale:
    """Sizes of the measurements."""

    worlds: tuple[int, ...] = (1, 16, 256, 4096, 65536, MILLION)
    headline: tuple[int, ...] = (4096, 65536, MILLION)  # of SimpleTag, and of its peers
    environments: tuple[str, ...] = ("SimpleTag-v0", "CartPole-v1", "SimpleSpread-v0")
    many_agents: tuple[int, ...] = (4, 100, 1000, 10_000, 100_000)
    rows: int = 2_000_000  # total agents of a batch with many agents
    tag: tuple[tuple[int, int], ...] = ((105, 2000), (1000, 2000))  # agents and worlds; the last as WarpDrive published
    blocks: tuple[tuple[str, str, tuple[int, ...]], ...] = (  # environment, schedule and worlds, by size of blocks
        ("SimpleTag-v0", "fused", (4096, 65536, MILLION)),
        ("Hanabi-v0", "fused", (4096, 65536, MILLION)),
        ("TagContinuous-v0", "block", (200, 2000, 20_000)),
        ("TagContinuous-v0", "phased", (200, 2000, 20_000)),
    )
    seconds: float = 0.12  # of a timing
    training: float = 5.0  # seconds of a training
    training_worlds: int | None = None  # None: the preset's


TINY = Scale(
    worlds=(1, 8),
    headline=(8,),
    environments=("CartPole-v1",),
    many_agents=(7,),
    rows=14,
    tag=((7, 2),),
    blocks=(("CartPole-v1", "fused", (8,)),),
    seconds=0.02,
    training=0.5,
    training_worlds=4,
)
"""Sizes for a trial on any machine."""


def goals(device: torch.device, scale: Scale) -> Rows:
    """Yield the figures of `benchmarks.gpu.page.GOALS`: SimpleTag to a million worlds, and Tag with many agents."""
    yield from _bytes("SimpleTag-v0", device)
    yield from _registers("SimpleTag-v0", device, "fused")
    for worlds in reversed(scale.headline):
        modes = ("in place", "copied", "sampled", "random play", "eager")
        yield from throughputs("SimpleTag-v0", worlds, device, modes, 2 * scale.seconds, schedule="fused")
        free(device)
    for agents, worlds in scale.tag:
        config = {} if agents == 105 else many_agent_settings(agents)  # 105: the defaults, 5 taggers and 100 runners
        yield from _bytes("TagContinuous-v0", device, **config)
        for schedule, modes in (("block", ("in place", "copied", "sampled")), ("phased", ("in place",))):
            yield from _registers("TagContinuous-v0", device, schedule, **config)
            yield from throughputs(
                "TagContinuous-v0", worlds, device, modes, 2 * scale.seconds, schedule=schedule, config=config
            )
            free(device)


def blocks(device: torch.device, scale: Scale) -> Rows:
    """Yield throughput by the threads of a block, which `choose_block_dim` and `threads_of_world` choose."""
    for env_id, schedule, sizes in scale.blocks:
        for worlds, block_dim in product(reversed(sizes), BLOCK_DIMS):
            yield from throughputs(
                env_id, worlds, device, ("copied",), scale.seconds, schedule=schedule, config={"block_dim": block_dim}
            )
            free(device)


def sweep(device: torch.device, scale: Scale) -> Rows:
    """Yield throughput from one world to a million, by schedule, captured and eager."""
    for env_id in scale.environments:
        yield from _bytes(env_id, device)
    for worlds, env_id, schedule in product(reversed(scale.worlds), scale.environments, ("fused", "phased")):
        yield from throughputs(env_id, worlds, device, ("copied", "eager"), scale.seconds, schedule=schedule)
        free(device)


def many_agents(device: torch.device, scale: Scale) -> Rows:
    """Yield throughput of TagContinuous from 4 to 100,000 agents, in many worlds and in one."""
    for agents in scale.many_agents:
        config, many = many_agent_settings(agents), max(1, scale.rows // agents)
        yield from _bytes("TagContinuous-v0", device, **config)
        for worlds in (many, 1):
            yield from throughputs(
                "TagContinuous-v0", worlds, device, ("copied", "eager"), scale.seconds, config=config
            )
            free(device)
        for schedule, limit in (("fused", 100), ("phased", MAX_BLOCK_AGENTS)):  # where the GPU would take another one
            if MAX_FUSED_AGENTS < agents <= limit:
                yield from throughputs(
                    "TagContinuous-v0", many, device, ("copied",), scale.seconds, schedule=schedule, config=config
                )
                free(device)


def training(device: torch.device, scale: Scale) -> Rows:
    """Yield the speed of the trainer, updates included: with CUDA graphs, without, and with kernels."""
    env_ids = ("SimpleTag-v0",) if scale is TINY else ("SimpleTag-v0", "TagContinuous-v0", "CartPole-v1")
    for env_id, mode in itertools.product(env_ids, TRAINING_MODES):
        yield from _training(env_id, mode, scale.training_worlds, device, scale)
    for worlds, mode in itertools.product(() if scale is TINY else scale.headline, ("training", HYBRID, IN_KERNELS)):
        yield from _training("SimpleTag-v0", mode, worlds, device, scale)


def _training(env_id: str, mode: str, num_envs: int | None, device: torch.device, scale: Scale) -> Rows:
    """Yield the speed of a training with a preset; ``num_envs`` replaces its number of worlds."""
    from trainers.config.presets import preset
    from trainers.runner.trainer import Trainer

    about = {"env": env_id, "mode": mode, "unit": "env-steps/s"}
    settings = TRAINING_MODES[mode]
    try:
        config = dataclasses.replace(preset(env_id, str(device)), **settings)
        worlds = num_envs or config.num_envs
        never = {"checkpoint_interval": 10**9, "total_steps": 10**12, "eval_episodes": 0, "num_envs": worlds}
        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(dataclasses.replace(config, **never), Path(folder) / "run")
            for _ in range(2):  # kernels are compiled and loaded, memory is taken
                trainer.iterate()
            _wait(device)
            start, first_step = time.perf_counter(), trainer.steps
            while time.perf_counter() - start < scale.training / 2:
                trainer.iterate()
            _wait(device)
            lasted = time.perf_counter() - start
            trainer.log.close()
            phases = _phases(Path(folder) / "run" / "metrics.csv")
        value = (trainer.steps - first_step) / lasted
        about |= {"worlds": worlds, "agents": trainer.core.num_agents, "value": value, "note": phases}
        del trainer
    except Exception as error:  # noqa: BLE001  # reported; the next training follows
        about |= failed(error)
    yield about
    free(device)


def _phases(metrics: Path) -> str:
    """Return the time of the last iteration by phase."""
    from trainers.storage.learning_curves import read_rows

    last = read_rows(metrics)[-1]
    spent = {name.removeprefix("time/"): float(value) for name, value in last.items() if name.startswith("time/")}
    return ", ".join(f"{name} {seconds / sum(spent.values()):.0%}" for name, seconds in spent.items())


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _bytes(env_id: str, device: torch.device, **config: Any) -> Rows:
    """Yield the bytes that a step of a world must move."""
    about = {"env": env_id, "unit": "B/env-step"}
    try:
        core = make_core(env_id, 2, device, seed=0, reuse_buffers=True, **config)
        counted = traffic(core)
        about |= {"agents": core.num_agents, "value": counted.bytes, "mode": "bytes"}
        about["note"] = ", ".join(f"{e.name} {e.moved:g}" for e in sorted(counted.entries, key=lambda e: -e.moved))
    except Exception as error:  # noqa: BLE001  # the roofline is missing then, and the throughput is still of use
        about |= failed(error)
    yield about
    free(device)


def _registers(env_id: str, device: torch.device, schedule: str, **config: Any) -> Rows:
    """Yield the registers per thread of the step's kernels; many registers limit the number of concurrent threads."""
    if device.type != "cuda":
        return
    import warp as wp

    about: dict[str, Any] = {"env": env_id, "unit": "registers"}
    try:
        core = make_core(env_id, 2, device, seed=0, reuse_buffers=True, schedule=schedule, **config)
        core.reset()
        core.step(core.sample_actions())
        for stage in core._launcher.program.step:
            properties = wp.get_cuda_kernel_properties(stage.kernel, str(device))
            local = f"{properties['local_memory_size']} bytes of local memory"
            yield about | {"what": stage.kernel.key, "value": properties["register_count"], "note": local}
    except Exception as error:  # noqa: BLE001  # an extra, and new in Warp
        yield about | failed(error)


def _peer(peer: peers.GpuPeer, device: torch.device, scale: Scale) -> Rows:
    """Yield the throughput of another library in the batch sizes of the targets."""
    return peers.measured(peer, device, scale.headline, scale.seconds)


PARTS: dict[str, Callable[[torch.device, Scale], Rows]] = {
    "goals": goals,
    "blocks": blocks,
    "sweep": sweep,
    "many-agents": many_agents,
    "training": training,
    **{name: partial(_peer, peer) for name, peer in peers.PEERS.items()},
}


def main(argv: list[str]) -> None:
    """Print the rows of a part as lines of JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.parts", description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args(argv)
    device = torch.device(args.device)
    if device.type == "cuda":
        device = torch.device("cuda", device.index or 0)
        torch.cuda.set_device(device)
    if args.tiny:
        torch.set_num_threads(1)  # small tensors, and others may be at work
    for row in PARTS[args.part](device, TINY if args.tiny else Scale()):
        print("ROW " + json.dumps(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Other libraries on the same device, as they are meant to be used: whatever is not installed is told and left out.

Each step gives observations, rewards and ends of every agent and starts finished worlds anew; random actions are made
beforehand. They are imported in the process of their own part only.
"""

import os
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import torch

from benchmarks.compare import Spread
from benchmarks.gpu.measure import SAMPLES, failed

STEPS = 16
"""Steps of a compiled loop."""
EPISODE = 25
"""Steps of an episode of simple_tag."""


def jaxmarl(device: torch.device, sizes: tuple[int, ...], seconds: float) -> Iterator[dict[str, Any]]:
    """JaxMARL's simple_tag (3 adversaries, 1 good agent, 2 obstacles): jit over scan over vmap."""
    jax = _jax(device)
    library: Any = import_module("jaxmarl")

    env = library.make("MPE_simple_tag_v3")

    def actions(key: Any, worlds: int) -> Any:
        draw = lambda row: jax.random.randint(jax.random.fold_in(key, row), (STEPS, worlds), 0, 5)  # noqa: E731
        return {agent: draw(row) for row, agent in enumerate(env.agents)}

    def reset(keys: Any) -> tuple[Any, Any]:
        return jax.vmap(env.reset)(keys)

    def step(keys: Any, state: Any, action: Any) -> tuple[Any, ...]:
        return jax.vmap(env.step)(keys, state, action)

    about = {"env": "SimpleTag-v0", "agents": env.num_agents, "peer": "JaxMARL", "mode": "jit(scan(vmap(step)))"}
    for worlds in sizes:
        yield about | {"worlds": worlds} | _scanned(jax, worlds, seconds, reset, step, actions)


def gymnax(device: torch.device, sizes: tuple[int, ...], seconds: float) -> Iterator[dict[str, Any]]:
    """CartPole of gymnax: jit over scan over vmap."""
    jax = _jax(device)
    library: Any = import_module("gymnax")

    env, params = library.make("CartPole-v1")

    def actions(key: Any, worlds: int) -> Any:
        return jax.random.randint(key, (STEPS, worlds), 0, 2)

    def reset(keys: Any) -> tuple[Any, Any]:
        return jax.vmap(env.reset, (0, None))(keys, params)

    def step(keys: Any, state: Any, action: Any) -> tuple[Any, ...]:
        return jax.vmap(env.step, (0, 0, 0, None))(keys, state, action, params)

    about = {"env": "CartPole-v1", "agents": 1, "peer": "gymnax", "mode": "jit(scan(vmap(step)))"}
    for worlds in sizes:
        yield about | {"worlds": worlds} | _scanned(jax, worlds, seconds, reset, step, actions)


def vmas(device: torch.device, sizes: tuple[int, ...], seconds: float) -> Iterator[dict[str, Any]]:
    """VMAS's simple_tag as shipped (10 substeps) with discrete actions; all worlds start anew every 25 steps."""
    library: Any = import_module("vmas")

    for worlds in sizes:
        about = {"env": "SimpleTag-v0", "worlds": worlds, "agents": 4, "peer": "VMAS", "mode": "env.step"}
        try:
            env: Any = library.make_env(
                "simple_tag", num_envs=worlds, device=str(device), continuous_actions=False, seed=0
            )
            about["agents"] = len(env.agents)
            batches = [[torch.randint(0, 5, (worlds, 1), device=device) for _ in env.agents] for _ in range(EPISODE)]

            def episode(env: Any = env, batches: list[Any] = batches) -> None:
                env.reset()
                for batch in batches:
                    env.step(batch)
                if device.type == "cuda":
                    torch.cuda.synchronize(device)

            yield about | _rate(worlds * EPISODE, _times(episode, seconds))
        except Exception as error:  # noqa: BLE001  # told, and the next size may fit
            yield about | failed(error)


def _jax(device: torch.device) -> Any:
    """JAX on the same kind of device, taking memory as it needs it."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if device.type == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
    jax: Any = import_module("jax")
    kind = jax.devices()[0].platform
    if device.type == "cuda" and kind not in ("gpu", "cuda"):
        raise RuntimeError(f"JAX sees no GPU here, only {kind}: its CUDA plugin is not installed, or finds no driver")
    return jax


def _scanned(
    jax: Any, worlds: int, seconds: float, reset: Callable[..., Any], step: Callable[..., Any], draw: Callable[..., Any]
) -> dict[str, Any]:
    """Throughput of a compiled loop of steps; observations, rewards and ends are carried along, so all are made."""
    try:
        key = jax.random.PRNGKey(0)
        actions = draw(key, worlds)
        _, state = jax.jit(reset)(jax.random.split(key, worlds))

        def one(carry: Any, action: Any) -> tuple[Any, None]:
            key, state = carry[:2]
            key, now = jax.random.split(key)
            obs, state, *told = step(jax.random.split(now, worlds), state, action)
            return (key, state, obs, *told[:2]), None

        def play(key: Any, state: Any) -> Any:
            first, _ = one((key, state), jax.tree_util.tree_map(lambda column: column[0], actions))
            return jax.lax.scan(one, first, jax.tree_util.tree_map(lambda column: column[1:], actions))[0]

        compiled = jax.jit(play)
        begun = time.perf_counter()
        kept = [jax.block_until_ready(compiled(key, state))]
        note = f"compiled in {time.perf_counter() - begun:.1f} s"

        def again() -> None:
            kept[0] = jax.block_until_ready(compiled(*kept[0][:2]))

        return _rate(worlds * STEPS, _times(again, seconds)) | {"note": note}
    except Exception as error:  # noqa: BLE001  # told, and the next size may fit
        return failed(error)


def _times(call: Callable[[], Any], seconds: float) -> list[float]:
    """Seconds of single calls, each of which waits for the device: after a warm-up, at least a few of them."""
    call()
    times: list[float] = []
    begun = time.perf_counter()
    while len(times) < SAMPLES or time.perf_counter() - begun < 2 * seconds:
        before = time.perf_counter()
        call()
        times.append(time.perf_counter() - before)
    return times


def _rate(steps: int, times: list[float]) -> dict[str, Any]:
    spread = Spread.of([steps / lasted for lasted in times])
    return {"unit": "env-steps/s", "value": spread.median, "low": spread.low, "high": spread.high}

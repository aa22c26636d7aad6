"""Comparisons of trainings and of rollouts with policies: kernels, PyTorch and other libraries."""

from typing import Any

from benchmarks.hardware.provenance import THREADS
from benchmarks.throughput.comparisons import STEPS, ComparisonGroup, Round, peer
from benchmarks.throughput.contenders import Contender, PPOSubject, RolloutSubject

SB3 = {"rollout_length": 2048, "num_epochs": 10, "num_minibatches": 256, "learning_rate": 3e-4, "gamma": 0.99}
"""Stable-Baselines3's defaults: 8 worlds of 2048 steps in minibatches of 64."""
JAXMARL = {"rollout_length": 128, "num_epochs": 4, "num_minibatches": 4, "learning_rate": 2.5e-3, "gamma": 0.99}
"""JaxMARL's published settings of IPPO for MPE."""
MANY = {"rollout_length": 25, "num_epochs": 4, "num_minibatches": 4, "hidden_sizes": (64, 64)}
"""PPO with the default environment of TagContinuous: 5 taggers, 100 runners, 10 neighbors observed."""
MANY_WORLDS = 32

SPREAD, JAX_IPPO = "MPE_simple_spread_v3", "IPPO in JAX on JaxMARL"
SPREAD_WORLDS = {"kernel": 128, "torch": 512, "jax": (16, 64)}
"""Numbers of worlds with the highest speed on all cores, see `benchmarks.throughput.training_worlds`."""


def jax_ippo(name: str, worlds: int, threads: int = THREADS) -> Contender:
    """Return PPO in JAX on JaxMARL's SimpleSpread."""
    return peer(name, "jaxmarl", SPREAD, worlds, module="benchmarks.peers.inside.jaxmarl_training", threads=threads)


def _ppo(
    engine: str, variant: str, env_id: str, worlds: int | None, ppo: dict[str, Any] | None, **more: Any
) -> Contender:
    named = {"kernel": "PPO in kernels", "torch": "PPO in PyTorch", "auto": "PPO"}[engine]
    return Contender(f"{named}, {variant}", "gpu_envs", PPOSubject(env_id, worlds, ppo, engine=engine, **more))


_PEERS = (
    Round(
        "CartPole-v1, 8 worlds, 1 thread",
        (
            _ppo("kernel", "SB3's settings", "CartPole-v1", 8, SB3),
            _ppo("torch", "SB3's settings", "CartPole-v1", 8, SB3),
            _ppo("auto", "its preset, 64 worlds", "CartPole-v1", None, None),
            peer("Stable-Baselines3 PPO", "sb3", "CartPole-v1", 8, threads=1),
        ),
        {"Stable-Baselines3 PPO": ">= 8"},
    ),
    Round(
        "SimpleSpread-v0, 16 worlds, 1 thread",
        (
            _ppo("kernel", "JaxMARL's settings", "SimpleSpread-v0", 16, JAXMARL),
            _ppo("torch", "JaxMARL's settings", "SimpleSpread-v0", 16, JAXMARL),
            jax_ippo(JAX_IPPO, 16, threads=1),
        ),
        {JAX_IPPO: ">= 1.3"},
    ),
    Round(
        "SimpleSpread-v0, all cores",
        (
            *(
                _ppo(engine, f"{worlds} worlds", "SimpleSpread-v0", worlds, JAXMARL, threads=THREADS)
                for engine, worlds in (("kernel", SPREAD_WORLDS["kernel"]), ("torch", SPREAD_WORLDS["torch"]))
            ),
            *(jax_ippo(f"{JAX_IPPO}, {worlds} worlds", worlds) for worlds in SPREAD_WORLDS["jax"]),
        ),
        {f"{JAX_IPPO}, {worlds} worlds": ">= 2" for worlds in SPREAD_WORLDS["jax"]},
    ),
)


def _many_agents(engine: str, threads: int) -> Contender:
    variant = "1 thread" if threads == 1 else f"{threads} threads"
    return _ppo(engine, variant, "TagContinuous-v0", MANY_WORLDS, MANY, threads=threads, env={})


_MANY = (
    Round(
        f"{MANY_WORLDS} worlds",
        (_many_agents("kernel", THREADS), _many_agents("torch", THREADS), _many_agents("torch", 1)),
        alone={STEPS: ">= 1800"},
    ),
    Round(
        f"{MANY_WORLDS} worlds, another program keeps a core busy",
        (_many_agents("kernel", THREADS), _many_agents("kernel", 1)),
        {"PPO in kernels, 1 thread": ">= 1"},
        busy_cores=1,
    ),
)


def _rollouts(env_id: str, worlds: int) -> Round:
    """Return rollouts of equal networks: in kernels, and with PyTorch between the steps."""
    kernels = Contender("core.rollout", "gpu_envs", RolloutSubject(env_id, worlds, "kernels"))
    variants = [
        (f"{name}, PyTorch with {count} thread{'s' if count > 1 else ''}", interface, count)
        for name, interface in (("networks between steps", "torch"), ("rollouts of a training", "collector"))
        for count in sorted({1, THREADS})
    ]
    between = [
        Contender(name, "gpu_envs", RolloutSubject(env_id, worlds, interface, torch_threads=count))
        for name, interface, count in variants
    ]
    goals = {name: ">= 4" for name, *_ in variants}
    return Round(f"{env_id}, {worlds:,} worlds", (kernels, *between), goals)


TRAINING_COMPARISONS = (
    ComparisonGroup("peers-training", "PPO training, updates included", "CartPole-v1", _PEERS, repeats=3, turn=2.5),
    ComparisonGroup(
        "training-many-agents",
        "PPO training on TagContinuous-v0, 5 taggers and 100 runners",
        "TagContinuous-v0",
        _MANY,
        repeats=3,
        turn=1.0,
    ),
    ComparisonGroup(
        "policy-rollouts",
        "Rollouts with networks of two layers of 64, stored",
        "SimpleTag-v0",
        (_rollouts("SimpleTag-v0", 16384),),
        repeats=5,
        turn=1.0,
    ),
)

"""Comparisons of interfaces: with the core, with dictionaries, and with other libraries."""

from dataclasses import replace

from benchmarks.hardware.bounds.tag_continuous import CONFIG as NO_EXITS
from benchmarks.peers.process import PeerTask
from benchmarks.throughput.cases import Case, many_agents
from benchmarks.throughput.comparisons import (
    CORE_STEP,
    ComparisonGroup,
    Round,
    core_contenders,
    mpe2,
    peer,
    warpdrive_tag,
    world_count,
)
from benchmarks.throughput.contenders import Contender


def _interface(name: str, case: Case, interface: str, reuse: bool = False) -> Contender:
    return Contender(name, "interface", replace(case, interface=interface, reuse_buffers=reuse))


LIBRARIES = {"Stable-Baselines3's VecEnv": "sb3", "TorchRL's EnvBase": "torchrl", "skrl's interface": "skrl"}
"""Interfaces of other libraries, which run in a separate environment."""


def _library_interface(name: str, interface: str, case: Case) -> Contender:
    return Contender(
        name,
        "interface",
        PeerTask(
            "interfaces",
            case.env_id,
            case.num_envs,
            {"interface": interface},
            module="benchmarks.throughput.interface_process",
        ),
    )


def _all_interfaces(case: Case) -> Round:
    clones, dicts = "core.step, clones", "dicts of tensors"
    return Round(
        world_count(case.num_envs),
        (
            *core_contenders(case),
            _interface(clones, case, "core"),
            _interface(dicts, case, "dict", reuse=True),
            _interface(f"{dicts}, clones", case, "dict"),
            _interface("rows of tensors", case, "rows", reuse=True),
            _interface("rows of arrays", case, "numpy rows", reuse=True),
            *(_library_interface(name, interface, case) for name, interface in LIBRARIES.items()),
        ),
        quick=True,
    )


def _dicts(title: str, case: Case) -> tuple[Round, Round]:
    """Return rounds with the target that dictionaries take at most a quarter more time than stacked tensors."""
    rounds = []
    for reuse, results in ((True, "reused buffers"), (False, "clones")):
        core = Contender(CORE_STEP, "gpu_envs", replace(case, reuse_buffers=reuse))
        dicts = _interface("dicts of tensors", case, "dict", reuse)
        rounds.append(Round(f"{title}, {results}", (core, dicts), {dicts.name: "<= 1.25"}))
    return rounds[0], rounds[1]


def _copies(case: Case) -> Round:
    """Return a round of reused results and clones, which is what ``step`` returns by default."""
    clones = replace(case, reuse_buffers=False)
    title = f"{case.env_id}, {world_count(case.num_envs)}"
    return Round(title, (Contender(CORE_STEP, "gpu_envs", case), Contender("core.step, clones", "interface", clones)))


def _one_world(title: str, case: Case, interface: Contender, *contenders: Contender) -> Round:
    """Return a round of an interface, equivalent interfaces of other libraries, and the core."""
    return Round(title, (interface, *contenders, *core_contenders(case)))


_SPREAD, _POLE, _TAG = Case("SimpleSpread-v0", 1), Case("CartPole-v1", 1), many_agents(105)
_PARALLEL, _MAKE = "gpu-envs parallel_env", "gpu-envs gymnasium.make"
_ONE_WORLD = (
    _one_world(
        "SimpleSpread-v0",
        _SPREAD,
        _interface(_PARALLEL, _SPREAD, "pettingzoo"),
        mpe2("mpe2's parallel_env", "simple_spread_v3"),
        _interface("gpu-envs gymnasium.make of one agent", _SPREAD, "gymnasium env"),
    ),
    _one_world("TagContinuous-v0, 105 agents", _TAG, _interface(_PARALLEL, _TAG, "pettingzoo"), warpdrive_tag(_TAG)),
    _one_world(
        "CartPole-v1",
        _POLE,
        _interface(_MAKE, _POLE, "gymnasium env"),
        peer("Gymnasium's own gymnasium.make", "gymnasium", "CartPole-v1", options={"vector": False}),
    ),
)

INTERFACE_COMPARISONS = (
    ComparisonGroup(
        "interfaces-all",
        "Interfaces to SimpleSpread-v0",
        "SimpleSpread-v0",
        (_all_interfaces(Case("SimpleSpread-v0", 4096)),),
    ),
    ComparisonGroup(
        "interfaces-dicts",
        "Dictionaries of tensors compared with core.step",
        "SimpleTag-v0",
        (
            *_dicts("SimpleTag-v0, 4,096 worlds", Case("SimpleTag-v0", 4096)),
            *_dicts("TagContinuous-v0 5 + 100, 1,024 worlds", Case("TagContinuous-v0", 1024, config=NO_EXITS)),
        ),
    ),
    ComparisonGroup(
        "interfaces-copies",
        "Reused results compared with clones",
        "Overcooked-v0",
        (
            _copies(Case("Overcooked-v0", 4096, config={"old_dynamics": True})),
            _copies(Case("Hanabi-v0", 4096, "legal actions")),
        ),
    ),
    ComparisonGroup("interfaces-one", "One world through PettingZoo and Gymnasium", "SimpleSpread-v0", _ONE_WORLD),
)

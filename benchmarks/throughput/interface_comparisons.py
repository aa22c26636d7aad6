"""Comparisons of doors: with the core behind them, with dicts, and with the like of theirs in other libraries."""

from dataclasses import replace

from benchmarks.bounds.tag_continuous import CONFIG as NO_EXITS
from benchmarks.cases import Case, crowd
from benchmarks.contest import OURS, Contest, Heat, mpe2, ours, peer, warpdrive_tag, worlds_of
from benchmarks.entrants import Entrant
from benchmarks.peers.process import Task


def _door(name: str, case: Case, entrance: str, reuse: bool = False) -> Entrant:
    return Entrant(name, "door", replace(case, entrance=entrance, reuse_buffers=reuse))


LIBRARIES = {"Stable-Baselines3's VecEnv": "sb3", "TorchRL's EnvBase": "torchrl", "skrl's interface": "skrl"}
"""Doors that need a library of their own, and so an environment of their own."""


def _library_door(name: str, entrance: str, case: Case) -> Entrant:
    return Entrant(name, "door", Task("doors", case.env_id, case.num_envs, {"entrance": entrance}, module="door"))


def _every_door(case: Case) -> Heat:
    clones, dicts = "core.step, clones", "dicts of tensors"
    return Heat(
        worlds_of(case.num_envs),
        (
            *ours(case),
            _door(clones, case, "core"),
            _door(dicts, case, "dict", reuse=True),
            _door(f"{dicts}, clones", case, "dict"),
            _door("rows of tensors", case, "rows", reuse=True),
            _door("rows of arrays", case, "numpy rows", reuse=True),
            *(_library_door(name, entrance, case) for name, entrance in LIBRARIES.items()),
        ),
        quick=True,
    )


def _dicts(title: str, case: Case) -> tuple[Heat, Heat]:
    """Dicts of tensors may take a quarter more time than stacked ones, be they buffers or clones."""
    heats = []
    for reuse, results in ((True, "reused buffers"), (False, "clones")):
        core = Entrant(OURS, "ours", replace(case, reuse_buffers=reuse))
        dicts = _door("dicts of tensors", case, "dict", reuse)
        heats.append(Heat(f"{title}, {results}", (core, dicts), {dicts.name: "<= 1.25"}))
    return heats[0], heats[1]


def _one_world(title: str, case: Case, door: Entrant, *others: Entrant) -> Heat:
    """A door beside the like of it, and what is behind it."""
    return Heat(title, (door, *others, *ours(case)))


_SPREAD, _POLE, _TAG = Case("SimpleSpread-v0", 1), Case("CartPole-v1", 1), crowd(105)
_PARALLEL, _MAKE = "our parallel_env", "our gymnasium.make"
_ONE_WORLD = (
    _one_world(
        "SimpleSpread-v0",
        _SPREAD,
        _door(_PARALLEL, _SPREAD, "pettingzoo"),
        mpe2("mpe2's parallel_env", "simple_spread_v3"),
        _door("our gymnasium.make of one agent", _SPREAD, "gymnasium env"),
    ),
    _one_world("TagContinuous-v0, 105 agents", _TAG, _door(_PARALLEL, _TAG, "pettingzoo"), warpdrive_tag(_TAG)),
    _one_world(
        "CartPole-v1",
        _POLE,
        _door(_MAKE, _POLE, "gymnasium env"),
        peer("Gymnasium's own gymnasium.make", "gymnasium", "CartPole-v1", options={"vector": False}),
    ),
)

DOORS = (
    Contest(
        "doors-all", "Every door to SimpleSpread-v0", "SimpleSpread-v0", (_every_door(Case("SimpleSpread-v0", 4096)),)
    ),
    Contest(
        "doors-dicts",
        "Dicts of tensors beside core.step",
        "SimpleTag-v0",
        (
            *_dicts("SimpleTag-v0, 4,096 worlds", Case("SimpleTag-v0", 4096)),
            *_dicts("TagContinuous-v0 5 + 100, 1,024 worlds", Case("TagContinuous-v0", 1024, config=NO_EXITS)),
        ),
    ),
    Contest("doors-one", "One world for PettingZoo and Gymnasium, beside theirs", "SimpleSpread-v0", _ONE_WORLD),
)

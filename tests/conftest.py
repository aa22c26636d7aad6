"""Shared by all tests: one torch thread, since the suite runs on several processes."""

import argparse
import gc
import os
import signal
import sys
import zlib
from pathlib import Path

import pytest
import torch
import toy
import warp as wp
from small_environments import REPRESENTATIVES, SMALL

from gpu_envs.definition import id_modules
from gpu_envs.definition.registry import list_envs
from gpu_envs.runtime.factory import LIMIT_NAMES, make_core
from warp_kernels import HEADERS_VARIABLE, OPTIMIZATION_VARIABLE
from warp_kernels.drawing import rasterizer

torch.set_num_threads(1)
# Many modules in one process. Processes that tests start do the same, and so find what the tests compiled.
wp.config.use_precompiled_headers = True
os.environ[HEADERS_VARIABLE] = "1"
if os.environ.get("GPU_ENVS_DEBUG"):  # see test_debug_mode.py
    wp.config.mode = "debug"


def has_room(folder="/dev/shm", needed=4 << 30):
    """Return whether a folder in memory has room for the files of tests, and may hold programs."""
    if not os.path.isdir(folder):
        return False
    memory = dict(line.split()[:2] for line in Path("/proc/meminfo").read_text().splitlines())
    disk = os.statvfs(folder)
    is_usable = not disk.f_flag & (os.ST_NOEXEC | os.ST_RDONLY)
    return is_usable and min(disk.f_bavail * disk.f_frsize, int(memory["MemAvailable:"]) << 10) >= needed


if has_room():  # tests write many small files that are forced to the disk, and would wait for it half of their time
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", "/dev/shm")  # pytest makes its temporary folder there


INSTALLERS = ("apt", "apt-get", "brew", "dnf", "dpkg", "npm", "pip", "pip3", "snap", "yum")


@pytest.fixture(scope="session", autouse=True)
def no_installers(tmp_path_factory):
    """Replace commands that install packages by one that fails, also for scripts that tests start."""
    folder = tmp_path_factory.mktemp("installers")
    for name in INSTALLERS:
        (folder / name).write_text(f"#!/bin/sh\necho '{name}: a test may not change the machine' >&2\nexit 97\n")
        (folder / name).chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(folder), prepend=os.pathsep)
        yield


@pytest.fixture
def usual_signals():
    """Handle signals as in a terminal; the process that started the tests may ignore SIGHUP (nohup) or SIGINT (&)."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    handlers = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def part_of(text):
    """Return the numbers of K/N."""
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"expected K/N with 1 <= K <= N, such as 1/3, got {text!r}")
    return int(part), int(parts)


def pytest_addoption(parser):
    text = "run tests marked gpu on a pretended GPU, see tests/pretended_gpu/__init__.py"
    parser.addoption("--pretended-gpu", action="store_true", help=text)
    text = "compile kernels with optimization, for tests that take many steps"
    parser.addoption("--optimize", action="store_true", help=text)
    text = "run one of N parts of the tests, such as 1/3"
    parser.addoption("--part", type=part_of, metavar="K/N", default=(1, 1), help=text)


def pytest_configure(config):
    """Compile without optimization unless --optimize is given: most tests compile many kernels and take few steps.

    So do the processes that tests start. Results are the same bit for bit. Only the kernel that draws is optimized, in
    this process: it colors millions of pixels, and without optimization a frame takes 30 times as long.
    """
    if config.option.optimize:
        wp.config.optimization_level = None
        os.environ.pop(OPTIMIZATION_VARIABLE, None)
    else:
        wp.config.optimization_level = 0
        os.environ[OPTIMIZATION_VARIABLE] = "0"
        wp.set_module_options({"optimization_level": 2}, rasterizer)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark tests as slow that `representative` and `variations` say are, and leave out tests of other parts.

    Tests that compile the same kernels are in the same part: all tests of an environment, and all tests of a file.
    """
    part, parts = config.option.part
    selected, deselected = [], []
    for item in items:
        env_id = item.callspec.params.get("env_id") if hasattr(item, "callspec") else None
        env_id = env_id if isinstance(env_id, str) and env_id in SMALL else None
        variations = item.get_closest_marker("variations")
        is_further = variations and max(item.callspec.indices.values()) >= variations.kwargs.get("quick", 1)
        is_other = item.get_closest_marker("representative") and env_id and env_id not in REPRESENTATIVES
        if is_further or is_other:
            item.add_marker(pytest.mark.slow)
        unit = env_id or item.nodeid.partition("::")[0]
        (selected if zlib.crc32(unit.encode()) % parts == part - 1 else deselected).append(item)
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = selected


def pytest_runtest_setup(item):
    """Skip tests marked gpu on machines without a GPU, and those that need a real one on the pretended GPU."""
    if item.get_closest_marker("gpu") is None:
        return
    real = item.get_closest_marker("needs_real_gpu")
    if not item.config.getoption("--pretended-gpu"):
        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")
    elif real is not None:
        pytest.skip(f"needs a real GPU: {real.kwargs['reason']}")


@pytest.fixture(scope="module", autouse=True)
def small_collections():
    """Exclude what a module of tests leaves, such as kernels, from garbage collections, which then stay fast."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def optimization(request, monkeypatch):
    """Compile kernels with optimization for a test marked optimized."""
    if request.node.get_closest_marker("optimized") is not None:
        monkeypatch.setattr(wp.config, "optimization_level", None)
        monkeypatch.delenv(OPTIMIZATION_VARIABLE, raising=False)


@pytest.fixture(autouse=True)
def named_modules_of_one_test(monkeypatch):
    """Forget the modules that ids of a test name: processes that later tests start would import them."""
    monkeypatch.setattr(id_modules, "_named", dict(id_modules._named))


@pytest.fixture
def own_module(request, monkeypatch):
    """Make the module `OWN_MODULE` of a test file, with classes of a user, importable and not imported."""
    name = request.module.OWN_MODULE
    monkeypatch.setattr(id_modules, "_named", {})
    monkeypatch.delitem(sys.modules, name, raising=False)
    yield name
    sys.modules.pop(name, None)


@pytest.fixture(autouse=True)
def pretended_gpu(request):
    """Activate the pretended GPU for a test marked gpu, with --pretended-gpu."""
    if request.node.get_closest_marker("gpu") is None or not request.config.getoption("--pretended-gpu"):
        yield
        return
    from pretended_gpu import activate

    with activate():
        yield


@pytest.fixture
def hidden_window(monkeypatch):
    """Open windows on a dummy display, and do not wait between frames."""
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")

    class Clock:
        def tick(self, fps):
            assert fps > 0

    monkeypatch.setattr(pygame.time, "Clock", Clock)


@pytest.fixture(params=list_envs())
def env_id(request):
    """Return the ID of each registered environment in turn."""
    return request.param


@pytest.fixture
def toys(monkeypatch):
    """Register `Toy-v0`."""
    toy.announce(monkeypatch)


@pytest.fixture
def small_core():
    """Function that makes a core of a small configuration."""

    def build(env_id, num_envs=16, **settings):
        small = SMALL[env_id]
        if "max_episode_steps" in settings:  # naming the time limit twice is an error
            small = {name: value for name, value in small.items() if name not in LIMIT_NAMES}
        return make_core(env_id, num_envs, "cpu", **{"seed": 0, **small, **settings})

    return build

"""The names of packages that import their public names at the first use."""

import importlib
import threading

import pytest
from forks import code_of_fork

from gpu_envs.errors import GpuEnvsError

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.mark.parametrize("name", ["gpu_envs", "trainers", "league", "trainers.zoo"])
def test_dir_lists_public_names_and_special_attributes_only(name):
    package = importlib.import_module(name)
    assert {export for export in dir(package) if not export.startswith("__")} == {
        export for export in package.__all__ if not export.startswith("__")
    }
    assert {"__all__", "__name__", "__path__"} <= set(dir(package))


def test_subpackage_is_a_public_name_like_others():
    league = importlib.import_module("league")
    assert league.solvers is importlib.import_module("league.solvers")


PACKAGE = """
from typing import TYPE_CHECKING
from gpu_envs.utils.lazy_exports import lazy_exports
if TYPE_CHECKING:
    from lazy_package.slow import value
    from lazy_package.other import number as five
__getattr__, __dir__ = lazy_exports(__name__)
"""
SLOW_MODULE = """
import gates
gates.began.set()
gates.may_end.wait()
value = 3
"""


def test_fork_while_another_thread_imports_raises_an_error_instead_of_waiting_forever(tmp_path, monkeypatch):
    package = tmp_path / "lazy_package"
    package.mkdir()
    (package / "__init__.py").write_text(PACKAGE)
    (package / "slow.py").write_text(SLOW_MODULE)
    (package / "other.py").write_text("number = 5\n")
    (tmp_path / "gates.py").write_text("from threading import Event\nbegan, may_end = Event(), Event()\n")
    monkeypatch.syspath_prepend(tmp_path)
    gates, lazy = importlib.import_module("gates"), importlib.import_module("lazy_package")

    def read(name):
        try:
            return getattr(lazy, name)
        except GpuEnvsError as error:
            return 42 if "forked while another thread imported lazy_package.value" in str(error) else 43

    thread = threading.Thread(target=read, args=("value",))
    thread.start()
    try:
        assert gates.began.wait(60)
        assert code_of_fork(lambda: read("value")) == 42
        assert code_of_fork(lambda: read("five")) == 42, "a module may import the locked one"
    finally:
        gates.may_end.set()
        thread.join()
    assert code_of_fork(lambda: read("value") + read("five")) == 8

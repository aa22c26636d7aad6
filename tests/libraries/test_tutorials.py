"""The tutorials of libraries that go into one environment run, cell by cell. Run by `make test-libraries`.

The tutorials of BenchMARL and RLlib are tested in `test_benchmarl.py` and `test_rllib.py`, where these libraries are.
"""

import pytest

from docs.scripts import notebook


@pytest.mark.filterwarnings("ignore::UserWarning")  # SuperSuit's and Lightning's
@pytest.mark.parametrize("page", ["lightning.md", "sb3.md", "skrl.md", "supersuit_pettingzoo.md", "torchrl.md"])
def test_cells_run(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # some write files
    notebook.run(notebook.TUTORIALS / "libraries" / page)

"""Releases: version, documents, and a wheel and an sdist that work without the checkout."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
import yaml

import gpu_envs

ROOT = Path(__file__).parents[2]
PACKAGES = ("gpu_envs", "league", "trainers", "warp_kernels")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_version_is_defined_once():
    assert "version" in PROJECT["dynamic"]
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", gpu_envs.__version__)
    files = [ROOT / name for name in ("pyproject.toml", "CITATION.cff", "README.md", "docs/conf.py", "Makefile")]
    assert not [path.name for path in files if gpu_envs.__version__ in path.read_text(encoding="utf-8")]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert "version" not in citation
    assert (citation["authors"], citation["license"]) == (PROJECT["authors"], PROJECT["license"])


def test_changelog_has_the_expected_sections():
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    versions = [line for line in lines if line.startswith("## ")]
    assert versions[0] == "## [Unreleased]"
    assert all(re.fullmatch(r"## \[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", line) for line in versions[1:])
    kinds = {line for line in lines if line.startswith("### ") and not line.startswith("### Upgrading from ")}
    assert kinds <= {f"### {kind}" for kind in ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")}
    assert gpu_envs.__version__ in versions[1]
    start = lines.index(versions[1])
    end = lines.index(versions[2]) if len(versions) > 2 else len(lines)
    assert end - start < 130  # a user can read it


def test_release_checklist_names_existing_targets_and_files():
    text = (ROOT / "RELEASING.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"make ([a-z][a-z-]+)", text))
    assert {"build", "test-slow", "test-wheel", "docs"} <= targets
    assert not {target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)}
    for name in re.findall(r"`?(?:bash |python )?((?:\.ci|docs|tests|gpu_envs)/[\w/.]+)", text):
        assert (ROOT / name).exists(), name
    steps = re.findall(r"^- \[ \] ", text, re.MULTILINE)
    assert len(steps) >= 12
    assert "RELEASING.md" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def run(*command, cwd, env=None):
    """Standard output of a command that has to succeed."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def tracked():
    """Return the paths of the files of the checkout, including new files."""
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines()
    return [name for name in listed if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """`python -m build` of a clean checkout: an sdist, and from it a wheel. Nothing is downloaded."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source), cwd=source)
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    assert wheel.name == f"gpu_envs-{gpu_envs.__version__}-py3-none-any.whl"
    assert sdist.name == f"gpu_envs-{gpu_envs.__version__}.tar.gz"
    return {"wheel": wheel, "sdist": sdist}


@pytest.mark.slow
def test_wheel_has_packages_and_metadata(built):
    info = f"gpu_envs-{gpu_envs.__version__}.dist-info"
    with zipfile.ZipFile(built["wheel"]) as wheel:
        names, about = set(wheel.namelist()), message_from_bytes(wheel.read(f"{info}/METADATA"))
        entries = wheel.read(f"{info}/entry_points.txt").decode()
    page = "league/watch/page/"
    expected = {name for name in tracked() if name.partition("/")[0] in PACKAGES and not name.startswith(page)}
    assert {name for name in names if not name.startswith(info)} == expected
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    assert "gpu_envs/cli/templates/line/rules.py.txt" in names
    assert "trainers/zoo/cartpole-ppo/manifest.json" in names
    assert {f"{info}/licenses/LICENSE", f"{info}/licenses/NOTICE"} <= names
    assert (about["Version"], about["License-Expression"]) == (gpu_envs.__version__, "Apache-2.0")
    assert about.get_payload().startswith("# gpu-envs")
    for name, value in PROJECT["entry-points"]["gpu_envs.commands"].items():
        assert f"{name} = {value}\n" in entries + "\n"


@pytest.mark.slow
def test_sdist_has_sources_and_documents(built):
    with tarfile.open(built["sdist"]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"LICENSE", "NOTICE", "README.md", "CHANGELOG.md", "CITATION.cff", "pyproject.toml"} <= names
    folders = {name.partition("/")[0] for name in names if "/" in name}
    assert folders == set(PACKAGES)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_installed_package_works_from_an_empty_folder(built, kind, tmp_path):
    home, folder = tmp_path / "venv", tmp_path / "empty"
    folder.mkdir()
    run(sys.executable, "-m", "venv", "--without-pip", str(home), cwd=tmp_path)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(home), "platbase": str(home)}))
    # what it depends on; a folder that is named in a .pth brings no .pth of its own, so that no checkout comes with it
    shared = [sysconfig.get_path("purelib"), *(path for path in sys.path if path.endswith("site-packages"))]
    (packages / "shared.pth").write_text("\n".join(dict.fromkeys(shared)) + "\n", encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"PATH": f"{home / 'bin'}{os.pathsep}{env['PATH']}", "OMP_NUM_THREADS": "1"}
    pip = (sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install", "--no-deps", "--no-index")
    run(*pip, "--no-build-isolation", "--disable-pip-version-check", str(built[kind]), cwd=folder, env=env)

    location = run("python", "-c", "import gpu_envs, league; print(gpu_envs.__file__)", cwd=folder, env=env)
    assert Path(location.strip()).is_relative_to(packages), location
    assert "SimpleTag-v0" in run("gpu-envs", "list", cwd=folder, env=env).split()
    checked = run("gpu-envs", "check", "SimpleTag-v0", cwd=folder, env=env)
    assert checked.startswith("SimpleTag-v0 passed all 12 checks in "), checked
    train = "gpu-envs train SimpleTag-v0 --device cpu --num-envs 16 --total-steps 4096 --eval-episodes 0 --no-video"
    assert "trained" in run(*train.split(), "--run-dir", "run", cwd=folder, env=env)
    assert (folder / "run" / "metrics.csv").exists()
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    run("python", "-c", example[1], cwd=folder, env=env)

"""Devices that torch and Warp agree on, on a machine whose GPUs are pretended."""

import re
import warnings
from pathlib import Path

import pytest
import torch
import warp as wp

import gpu_envs
import warp_kernels
from gpu_envs.errors import DeviceError
from gpu_envs.utils.devices import resolve_device

ROOT = Path(__file__).parents[3]


@pytest.fixture
def pretend(monkeypatch):
    """Pretend numbers of GPUs that torch and Warp find, and CUDA versions of Warp and the driver."""

    def pretend(torch_gpus, warp_gpus, built=(13, 4), driver=(12, 4)):
        def start():
            raise AssertionError("CUDA was started")

        monkeypatch.setattr(torch.cuda, "_lazy_init", start)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: torch_gpus > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: torch_gpus)
        monkeypatch.setattr(wp, "get_cuda_device_count", lambda: warp_gpus)
        monkeypatch.setattr(wp, "get_cuda_toolkit_version", lambda: built)
        monkeypatch.setattr(wp, "get_cuda_driver_version", lambda: driver)

    return pretend


def test_gpu_with_too_old_a_driver_for_warp_raises_with_both_versions(pretend):
    pretend(1, 0)
    with pytest.raises(DeviceError) as caught:
        gpu_envs.make("CartPole-v1", device="cuda")
    message = str(caught.value)
    expected = ("'cuda'", "CUDA 13.4", "CUDA 12.4", wp.__version__, torch.__version__, "580 or newer", "+cu12", "'cpu'")
    assert not [part for part in expected if part not in message]


def test_default_device_without_a_gpu_of_warp_is_the_cpu_with_a_warning(pretend):
    pretend(1, 0)
    with pytest.warns(UserWarning, match=r"^device: the CPU is used; .*CUDA 13\.4.*CUDA 12\.4.*newer driver"):
        env = gpu_envs.make("CartPole-v1")
    assert env.core.device == torch.device("cpu")
    pretend(0, 0, driver=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert resolve_device(None) == torch.device("cpu")


def test_cuda_is_not_started_by_the_choice_of_a_device(pretend, monkeypatch):
    pretend(2, 2, driver=(13, 4))
    assert resolve_device(None) == resolve_device("cuda") == torch.device("cuda", 0)
    assert resolve_device("cuda:1") == torch.device("cuda", 1)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert resolve_device("cuda") == torch.device("cuda", 1)


def test_index_of_a_gpu_beyond_those_of_either_library_raises(pretend):
    pretend(2, 1, driver=(13, 4))
    with pytest.raises(DeviceError, match="'cuda:2' was asked for, but the number of GPUs of torch is 2"):
        resolve_device("cuda:2")
    with pytest.raises(DeviceError, match="'cuda:1' was asked for, but the number of GPUs of Warp is 1"):
        resolve_device("cuda:1")


@pytest.mark.parametrize(
    ("built", "driver", "reason"),
    [
        (None, None, "is a build without CUDA; install the wheel of warp-lang from PyPI"),
        ((13, 4), None, "finds no NVIDIA driver; install a driver, 580 or newer"),
        ((13, 4), (11, 8), r"the NVIDIA driver supports CUDA 11.8 only; install a newer driver \(580 or newer\)"),
        ((13, 4), (13, 4), "finds no GPU, although the NVIDIA driver supports CUDA 13.4; check CUDA_VISIBLE_DEVICES"),
        ((14, 1), (13, 4), r"CUDA 13.4 only; install a newer driver \(one for CUDA 14 or newer\)"),
    ],
)
def test_missing_gpu_of_warp_has_a_reason(pretend, built, driver, reason):
    pretend(1, 0, built, driver)
    with pytest.raises(DeviceError, match=reason + ".*; or use device='cpu'") as caught:
        resolve_device("cuda")
    assert "+cu1" not in str(caught.value)
    pretend(1, 1, built, driver)
    assert warp_kernels.missing_gpu() == ""


def test_one_function_each_wraps_tensors_and_streams_for_warp():
    """They check strides, and register a stream once; see `warp_array` and `warp_stream`."""
    calls = {
        str(path.relative_to(ROOT))
        for package in ("gpu_envs", "trainers", "league")
        for path in (ROOT / package).rglob("*.py")
        if re.search(r"\bwp\.(from_torch|stream_from_torch)\(", path.read_text(encoding="utf-8"))
    }
    assert calls == {"gpu_envs/utils/devices.py"}

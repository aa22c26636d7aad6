"""Files of recorded traces hold arrays of all kinds."""

import json

import numpy as np

from parity.traces import recorded, write_arrays


def test_arrays_are_read_as_they_were_written(tmp_path):
    arrays = {
        "0.flags": np.array([[True, False]]),
        "0.bits": np.packbits(np.array([1, 0, 1], bool)),
        "0.reward": np.float32([0.1, -2.5]),
        "1.reward": np.zeros((0, 3)),
    }
    path = tmp_path / "trace.npz.xz"
    write_arrays(path, {"settings": np.array(json.dumps([{"a": 1}, {}])), **arrays})
    settings, trace = recorded(path, 0)
    assert settings == {"a": 1}
    assert trace.keys() == {"flags", "bits", "reward"}
    for name, array in trace.items():
        assert array.dtype == arrays[f"0.{name}"].dtype
        np.testing.assert_array_equal(array, arrays[f"0.{name}"])

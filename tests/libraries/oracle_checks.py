"""Comparisons with originals: recorded traces, and distributions of starts."""

import numpy as np
from parity.traces import read_arrays


def assert_recorded(path, recorded, tolerance=0.0):
    """Assert that two files of arrays are equal, up to a tolerance."""
    new, old = read_arrays(path), read_arrays(recorded)
    assert set(new) == set(old)
    for name in new:
        if tolerance:
            np.testing.assert_allclose(new[name], old[name], tolerance, tolerance)
        else:
            np.testing.assert_array_equal(new[name], old[name])


def assert_equally_frequent(ours, theirs):
    """Assert that integers of an original, (N,), have the frequencies of ours by a chi-square test."""
    values, counts = np.unique(ours, return_counts=True)
    assert np.isin(theirs, values).all()
    expected = counts / len(ours) * len(theirs)
    square = ((np.array([(theirs == value).sum() for value in values]) - expected) ** 2 / expected).sum()
    degrees = max(len(values) - 1, 1)
    assert square < degrees + 5.0 * np.sqrt(2.0 * degrees) + 5.0, (square, degrees)

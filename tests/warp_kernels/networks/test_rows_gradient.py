"""Gradients by the form of rows against PyTorch in float64."""

import pytest
from hypothesis import Phase, given, settings
from network_cases import BATCHES, NETWORKS, Minibatch, assert_close, networks

LARGEST = "tanh_gaussian"


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n == LARGEST else ()) for n in NETWORKS])
@settings(max_examples=15, deadline=None, derandomize=True)
@given(batch=BATCHES)
def test_gradients_equal_those_of_autograd(name, batch):
    minibatch = Minibatch(NETWORKS[name], **batch)
    assert_close(minibatch.rows(), minibatch.torch())


@pytest.mark.parametrize("num_rows", [2_500, pytest.param(70_000, marks=pytest.mark.slow)])
def test_gradients_of_many_chunks_equal_those_of_autograd(num_rows):
    minibatch = Minibatch(NETWORKS["value"], 5, num_rows, valid=0.9)
    assert_close(minibatch.rows(), minibatch.torch())


@pytest.mark.parametrize("form", ["rows", pytest.param("tiles", marks=pytest.mark.slow)])
def test_rows_that_do_not_count_may_have_infinite_ratios(form):
    minibatch = Minibatch(NETWORKS["gaussian"], 3, 20, valid=0.5)
    minibatch.log_prob[~minibatch.valid] = -1e4
    assert_close(minibatch.rows() if form == "rows" else minibatch.tiles(32), minibatch.torch())


@pytest.mark.slow
@settings(max_examples=25, deadline=None, derandomize=True, phases=[Phase.generate])
@given(network=networks(), batch=BATCHES)
def test_gradients_of_any_network_equal_those_of_autograd(network, batch):
    minibatch = Minibatch(network, **batch)
    assert_close(minibatch.rows(), minibatch.torch())

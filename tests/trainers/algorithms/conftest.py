"""Small networks are computed with one thread of PyTorch, so that results do not depend on their number."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread():
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)

"""Processes that train one network: they stay equal to the last bit, and to one process with the whole batch."""

import pytest
import torch

from tests.nn.parallel.processes import values
from tests.nn.parallel.training import alone, together

pytestmark = [pytest.mark.once, pytest.mark.rotated(6)]

CASES = {
    "mlp": ("mlp", 2, {}),
    "mlp of 4": ("mlp", 4, {"bucket_cap_mb": 0.0005}),
    "uneven mlp": ("mlp", 2, {"_uneven": True, "gradient_as_bucket_view": True}),
    "added up mlp": ("mlp", 2, {"_pieces": 4}),
    "added up views": ("mlp", 2, {"_pieces": 2, "gradient_as_bucket_view": True, "bucket_cap_mb": 0.0005}),
    "cnn": ("cnn", 2, {"bucket_cap_mb": 0.0005}),
    "uneven cnn of 4": ("cnn", 4, {"_uneven": True}),
    "cnn, unused": ("cnn", 2, {"find_unused_parameters": True}),
    "gpt": ("gpt", 2, {"bucket_cap_mb": 0.001}),
    "gpt of 4": ("gpt", 4, {"static_graph": True}),
    "gpt, unused": ("gpt", 2, {"find_unused_parameters": True, "bucket_cap_mb": 0.001}),
}


@pytest.mark.rotated(4)
@pytest.mark.parametrize("case", CASES)
def test_processes_are_equal_and_as_one_process(case):
    name, size, settings = CASES[case]
    first, *others = values(together, size, name, settings)
    for other in others:
        for key, value in first.items():
            assert torch.equal(value, other[key]), key
    for key, value in alone(name).items():
        torch.testing.assert_close(first[key], value, rtol=1e-10, atol=1e-10)

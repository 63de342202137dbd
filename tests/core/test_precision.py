"""Derivatives in float64 are right to more digits than torch's tolerance asks for."""

from typing import Any

import pytest
import torch

from tests.sweeps import precision

SEED = 1


@pytest.mark.parametrize("name", ["hardsigmoid", "hardswish", "hardswish_backward", "gelu", "silu", "mish", "selu"])
@pytest.mark.parametrize("twice", [False, True])
def test_a_derivative_is_that_of_differences(name: str, twice: bool) -> None:
    for sample in precision.samples(name):
        found = precision.error(name, sample, SEED, twice=twice)
        assert not found, found


def test_a_constant_of_seven_digits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    row = precision.OPS["silu"]
    rule = row.rules["input"]

    def rough(*values: Any) -> Any:
        return rule.function(*values) * float(torch.tensor(1.0) + 3e-8) * (1 + 3e-8)

    monkeypatch.setitem(row.rules, "input", rule._replace(function=rough, kernel=None))
    monkeypatch.setattr(row, "_plans", {})
    found = [precision.error("silu", sample, SEED, twice=False) for sample in precision.samples("silu")]
    assert any("first derivative" in one for one in found)

"""Every op with each of its optional tensors and without it. Each set of its inputs has its turn to get gradients."""

from collections.abc import Iterable, Iterator
from itertools import chain, combinations

import pytest

from tests.sweeps import optional_inputs

AT_MOST = 8
"""If there are more sets than this, only small and large ones are tried: none, one, all but one, all. The sweep tries
others.
"""


def sets(keys: list[int | str]) -> Iterator[tuple[int | str, ...]]:
    """The sets of keys that are tried."""
    sizes: Iterable[int] = range(len(keys) + 1)
    if 2 ** len(keys) > AT_MOST:
        sizes = (0, 1, len(keys) - 1, len(keys))
    yield from chain.from_iterable(combinations(keys, size) for size in sizes)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", [*optional_inputs.ROWS, *optional_inputs.CALLS])
def test_gradients_are_torchs_without_any_of_the_optional_tensors(name: str) -> None:
    compared = 0
    for call in optional_inputs.calls_of(name)[:2]:
        for left_out in sets(call.optional):
            for needs in sets([key for key in call.differentiable if key not in left_out]):
                found = optional_inputs.compare(name, call, left_out, needs)
                assert not found, found
                compared += 1
    assert compared


def test_a_rule_that_reads_a_tensor_that_is_not_there_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    row = optional_inputs.ROWS["linear"]
    rule = row.rules["bias"]
    halved = rule._replace(function=lambda g, *saved: rule.function(g, *saved) * 0.5, kernel=None)
    monkeypatch.setitem(row.rules, "bias", halved)
    monkeypatch.setattr(row, "_plans", {})
    call = optional_inputs.calls_of("linear")[0]
    assert "gradient: " in optional_inputs.compare("linear", call, (), (2,))
    assert not optional_inputs.compare("linear", call, (2,), (0,))

"""The samples of a row vary each of its settings. So they find a rule that ignores a setting."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Make, Sample, unary
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.engine.node import Rule
from tests.core import rows

every_row = pytest.mark.parametrize("row", [row for row in OPS.values() if row.defaults], ids=lambda row: row.name)


def same(one: Any, other: Any) -> bool:
    """Whether two values of a setting are the same; True differs from 1."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and one.dtype == other.dtype and bool(torch.equal(one, other))
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and not isinstance(one, torch.Tensor) and bool(one == other)


def values(row: Op, name: str) -> list[Any]:
    """The values of a setting in all samples."""
    return [sample.settings.get(name, row.defaults[name]) for sample in rows.samples(row)]


def constant(row: Op) -> set[str]:
    """The settings that have the same value in all samples."""
    found = {name: values(row, name) for name in row.defaults}
    return {name for name, given in found.items() if all(same(given[0], one) for one in given)}


@pytest.mark.sampled(4)
@every_row
def test_samples_vary_every_setting_or_the_row_says_why_not(row: Op) -> None:
    assert constant(row) == set(row.unvaried), "add samples to the row, or a reason to its unvaried"
    assert all(row.unvaried.values()), "say why"


@pytest.fixture
def lazy() -> Iterator[Op]:
    @op(formula="x", samples=unary, method=False, unvaried={"other": ""})
    def lazy_row_of_a_test(x, *, scale=1.0, other=None):  # type: ignore[no-untyped-def]
        return x * scale

    yield lazy_row_of_a_test
    del OPS["lazy_row_of_a_test"]


def test_a_setting_that_no_sample_varies_is_found(lazy: Op) -> None:
    assert constant(lazy) == {"scale", "other"}
    with pytest.raises(AssertionError, match="add samples"):
        test_samples_vary_every_setting_or_the_row_says_why_not(lazy)
    lazy.unvaried["scale"] = "a test"
    with pytest.raises(AssertionError, match="say why"):
        test_samples_vary_every_setting_or_the_row_says_why_not(lazy)


def test_unvaried_names_settings() -> None:
    with pytest.raises(ValueError, match=r"op 'lazy' has no setting 'scole': its settings are scale"):

        @op(formula="x", samples=unary, method=False, unvaried={"scole": "a slip"})
        def lazy(x, *, scale=1.0):  # type: ignore[no-untyped-def]
            return x * scale

    assert "lazy" not in OPS


# Rules that ignore a setting.

SHAPED = "the gradient's shape says it too: it only tells the rule that there is nothing to do"
ANY = "any value gives the same gradient, which is a matter of speed or of the last digits"
NEVER_SEEN: dict[tuple[str, str], str] = {
    **{
        (row, "keepdim"): SHAPED
        for row in (
            *("sum", "mean", "nansum", "prod", "logsumexp", "linalg_vector_norm", "amax", "amin", "aminmax"),
            *("var", "std", "var_mean", "std_mean"),
        )
    },
    ("cdist", "compute_mode"): ANY,
    ("flash_attention", "backend"): ANY,
    ("rrelu", "training"): "the samples draw from one slope alone, because no other draw could be compared",
    ("linalg_eig", "any_phase"): "it only says whether a loss that depends on the phase is an error",
    ("linalg_qr", "mode"): "a square matrix has the same factors in both modes, and others have no gradient in one",
}
"""Settings of rows that a rule could ignore without any sample showing it, and why."""

CRASHES = {("batch_norm", "training")}
"""If a rule ignores these, torch's kernel reads memory out of bounds."""


@contextmanager
def ignoring(row: Op, name: str, value: Any) -> Iterator[None]:
    """In the block, the rules of the row always see ``value`` for this setting."""
    before = dict(row.rules)
    changed: dict[int, Rule] = {}

    def fixed(function: Callable[..., Any], place: int) -> Callable[..., Any]:
        def rule(*args: Any) -> Any:
            return function(*args[:place], value, *args[len(args) + place + 1 :])

        return rule

    try:
        for taken, rule in before.items():
            if name in rule.needs:
                place = rule.needs.index(name) - len(rule.needs)
                row.rules[taken] = changed.setdefault(
                    id(rule), rule._replace(function=fixed(rule.function, place), kernel=None)
                )
        row._plans.clear()
        row._rows.clear()
        yield
    finally:
        row.rules.update(before)
        row._plans.clear()
        row._rows.clear()


def unseen(row: Op, name: str) -> bool:
    """Whether the samples cannot show that the rules ignore this setting."""
    first = values(row, name)[0]
    with ignoring(row, name, first):
        for sample in rows.samples(row):
            if same(sample.settings.get(name, row.defaults[name]), first):
                continue
            try:
                rows.check(row, sample)
            except Exception:
                return False
    return True


def named(row: Op) -> list[str]:
    """The settings that rules of the row use and that its samples vary."""
    return sorted({*row.defaults} & {need for rule in row.rules.values() for need in rule.needs} - {*row.unvaried})


RULED = [row for row in OPS.values() if named(row)]


@pytest.mark.parametrize("row", RULED, ids=[row.name for row in RULED])
def test_a_rule_that_ignores_a_setting_is_found(row: Op) -> None:
    found = {name for name in named(row) if (row.name, name) not in CRASHES and unseen(row, name)}
    assert found == {name for known, name in NEVER_SEEN if known == row.name}


def test_many_rules_name_settings() -> None:
    assert len(RULED) > 100


@pytest.fixture
def scaled() -> Iterator[Op]:
    def samples(make: Make) -> Iterator[Sample]:
        yield from unary(make)
        yield Sample.of(make(3), scale=2.0)

    @op(formula="s x", samples=samples, method=False, reference=lambda x, scale=1.0: x * scale)
    def scaled_of_a_test(x, *, scale=1.0):  # type: ignore[no-untyped-def]
        return x * scale

    yield scaled_of_a_test
    del OPS["scaled_of_a_test"]


def test_the_rules_are_as_before_afterwards(scaled: Op) -> None:
    @scaled.rule("x", "s g")
    def _(g: Any, scale: float) -> Any:
        return g * scale

    before = dict(scaled.rules)
    assert not unseen(scaled, "scale")
    assert scaled.rules == before
    for sample in rows.samples(scaled):
        rows.check(scaled, sample)


def test_a_rule_that_names_no_setting_fails_the_tests_of_the_rows(scaled: Op) -> None:
    @scaled.rule("x", "g")
    def _(g: Any) -> Any:
        return g

    *_, last = rows.samples(scaled)
    with pytest.raises(AssertionError, match="gradient"):
        rows.check(scaled, last)

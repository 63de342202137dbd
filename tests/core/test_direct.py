"""A row names the torch function that its forward only calls. A rule names the operator that it only applies."""

import ast
import inspect
import operator
import textwrap
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.backend.aten import Kernels
from nbgrad.core.backend.autocast import may_cast
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import unary
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.engine.node import Rule, identity
from tests.core import rows

Function = Callable[..., Any]


def parsed(function: Function) -> tuple[ast.arguments | None, ast.expr | None]:
    """The parameters of a function and the expression that it returns, if it does nothing else."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, SyntaxError, TypeError):  # it is not written in Python, or is a lambda in a longer line
        return None, None
    if not isinstance(tree, ast.FunctionDef):
        return None, None
    body = tree.body[1:] if ast.get_docstring(tree) is not None else tree.body
    returned = body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None
    return tree.args, returned


def has_no_body(function: Function) -> bool:
    """Whether a function is a docstring alone."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    return isinstance(tree, ast.FunctionDef) and len(tree.body) == 1 and ast.get_docstring(tree) is not None


def only_calls(forward: Function) -> Function | None:
    """The torch function that ``forward`` only calls, with its inputs and then its settings.

    This reads the source. Settings may be passed by name or in order. None for any other forward.
    """
    takes, call = parsed(forward)
    if takes is None or not isinstance(call, ast.Call) or takes.vararg or None in takes.kw_defaults:
        return None
    first, *names = ast.unparse(call.func).split(".")
    function = forward.__globals__.get(first)
    if not isinstance(function, ModuleType) or not function.__name__.startswith("torch") or not names:
        return None
    inputs, settings = [one.arg for one in takes.args], [one.arg for one in takes.kwonlyargs]
    given = [ast.unparse(one) for one in call.args]
    named = {one.arg: ast.unparse(one.value) for one in call.keywords}
    by_position = len(given) - len(inputs)
    rest = settings[max(by_position, 0) :]
    if given != [*inputs, *settings[: max(by_position, 0)]] or named != dict(zip(rest, rest, strict=True)):
        return None
    for name in names:
        function = getattr(function, name)
    return function  # type: ignore[return-value]  # a module's attribute that is called


OPERATORS = {ast.Mult: operator.mul, ast.Div: operator.truediv}


def only_applies(rule: Function) -> Function | None:
    """The operator that ``rule`` applies to all its arguments, or ``identity``; None if the rule does more."""
    takes, returned = parsed(rule)
    names = [one.arg for one in takes.args] if takes is not None else []
    if isinstance(returned, ast.Name) and names[:1] == [returned.id]:
        return identity
    if isinstance(returned, ast.UnaryOp) and isinstance(returned.op, ast.USub):
        return operator.neg if names == [ast.unparse(returned.operand)] else None
    if isinstance(returned, ast.BinOp) and names == [ast.unparse(returned.left), ast.unparse(returned.right)]:
        return OPERATORS.get(type(returned.op))
    return None


every_row = pytest.mark.parametrize("row", OPS.values(), ids=OPS)


@pytest.mark.sampled(4)
@pytest.mark.once
@every_row
def test_a_row_that_only_calls_a_function_of_torch_names_it(row: Op) -> None:
    assert only_calls(row.__wrapped__) is None, "say kernel= in @op, and leave out the body"


@pytest.mark.sampled(4)
@pytest.mark.once
@every_row
def test_a_rule_that_only_applies_an_operator_names_it(row: Op) -> None:
    for name, rule in row.rules.items():
        if rule.outputs is None and not rule.joint:
            assert rule.kernel is only_applies(rule.function), f"say kernel= in the rule for {name}"


DIRECT = [row for row in OPS.values() if row.forward is not row.__wrapped__]
RULES = [
    pytest.param(row, name, id=f"{row.name} {name}")
    for row in OPS.values()
    for name, rule in row.rules.items()
    if rule.kernel
]


def test_there_are_many() -> None:
    assert len(DIRECT) > 150
    assert len(RULES) > 25


@pytest.mark.parametrize("row", DIRECT, ids=[row.name for row in DIRECT])
def test_a_row_with_a_kernel_has_no_body_and_the_kernel_takes_every_setting_by_its_name(row: Op) -> None:
    assert has_no_body(row.__wrapped__)
    for sample in rows.samples(row):
        given, all_of_them = (
            row.forward(*sample.args, **one) for one in (sample.settings, row.defaults | sample.settings)
        )
        torch.testing.assert_close(rows.parts(given), rows.parts(all_of_them), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(("row", "name"), RULES)
def test_the_kernel_of_a_rule_gives_what_the_rule_gives(row: Op, name: str) -> None:
    rule: Rule = row.rules[name]
    assert rule.kernel is not None
    given = [torch.tensor([1.5, -2.0]) / (1 + place) for place in range(1 + len(rule.needs))]
    taken = given[:1] if rule.kernel is identity else given
    torch.testing.assert_close(rule.kernel(*taken), rule.function(*given), rtol=0, atol=0)


# The tester is tested.


def plain(a, b):  # type: ignore[no-untyped-def]  # as the forwards of rows are
    """With a docstring, as a row has."""
    return torch.mul(a, b)


def with_a_setting(a, b, *, alpha=1):  # type: ignore[no-untyped-def]
    return torch.add(a, b, alpha=alpha)


def dotted(A):  # type: ignore[no-untyped-def]  # noqa: N803
    return torch.linalg.inv(A)


def by_position(x, *, dim=None, keepdim=False, dtype=None):  # type: ignore[no-untyped-def]
    return torch.sum(x, dim, keepdim, dtype=dtype)


@pytest.mark.parametrize(
    ("forward", "function"),
    [(plain, torch.mul), (with_a_setting, torch.add), (dotted, torch.linalg.inv), (by_position, torch.sum)],
)
def test_a_forward_that_only_calls_is_known(forward: Function, function: Function) -> None:
    assert only_calls(forward) is function


def swapped(a, b):  # type: ignore[no-untyped-def]
    return torch.sub(b, a)


def more(a, b):  # type: ignore[no-untyped-def]
    return torch.mul(a, b) * 2


def constant(a):  # type: ignore[no-untyped-def]
    return torch.mul(a, 2)


def another_setting(a, b, *, alpha=1):  # type: ignore[no-untyped-def]
    return torch.add(a, b, alpha=2)


def unused(a, b):  # type: ignore[no-untyped-def]
    return torch.exp(a)


def checked(a):  # type: ignore[no-untyped-def]
    if a.ndim == 0:
        raise ValueError
    return torch.exp(a)


def required(x, *, dim):  # type: ignore[no-untyped-def]
    return torch.unsqueeze(x, dim)


def reordered(x, *, dim=None, keepdim=False):  # type: ignore[no-untyped-def]
    return torch.sum(x, keepdim, dim)


def variadic(*tensors):  # type: ignore[no-untyped-def]
    return torch.cat(tensors)


@pytest.mark.parametrize(
    "forward", [swapped, more, constant, another_setting, unused, checked, required, reordered, variadic, len]
)
def test_a_forward_that_does_anything_else_is_none(forward: Function) -> None:
    assert only_calls(forward) is None


def same(g, x):  # type: ignore[no-untyped-def]
    return g


def negative(g):  # type: ignore[no-untyped-def]
    return -g


def product(g, b):  # type: ignore[no-untyped-def]
    return g * b


def ratio(g, b):  # type: ignore[no-untyped-def]
    return g / b


def other(g, b):  # type: ignore[no-untyped-def]
    return b


def turned(g, b):  # type: ignore[no-untyped-def]
    return b * g


def with_another(g, a, b):  # type: ignore[no-untyped-def]
    return g * a


def with_a_number(g):  # type: ignore[no-untyped-def]
    return g * 2


@pytest.mark.parametrize(
    ("rule", "function"),
    [
        *((same, identity), (negative, operator.neg), (product, operator.mul), (ratio, operator.truediv)),
        *((other, None), (turned, None), (with_another, None), (with_a_number, None), (len, None)),
    ],
)
def test_the_operator_of_a_rule_is_known(rule: Function, function: Function | None) -> None:
    assert only_applies(rule) is function


@pytest.fixture
def counted() -> Iterator[tuple[Op, list[str]]]:
    calls: list[str] = []

    def kernel(x: torch.Tensor, scale: float = 2) -> torch.Tensor:
        calls.append("kernel")
        return x * scale

    @op(formula="2 x", samples=unary, method=False, kernel=kernel)
    def counted_row_of_a_test(x, *, scale=2):  # type: ignore[no-untyped-def]
        """It has the parameters."""

    @counted_row_of_a_test.rule("x", "2 g", kernel=lambda g: calls.append("rule's kernel") or g * 2)
    def _(g: Any) -> Any:
        calls.append("rule")
        return g * 2

    yield counted_row_of_a_test, calls
    del OPS["counted_row_of_a_test"]


def test_a_call_runs_the_kernel_and_a_backward_that_of_the_rule(counted: tuple[Op, list[str]]) -> None:
    row, calls = counted
    x = nbgrad.tensor([1.0], requires_grad=True)
    row(x).sum().backward()
    assert calls == ["kernel", "rule's kernel"]
    assert row(x, scale=3).item() == 3
    assert calls[2:] == ["kernel"]
    assert row(torch.ones(1)).item() == 2
    assert calls[3:] == ["kernel"]


def test_a_rule_of_several_outputs_has_no_kernel() -> None:
    @op(formula="x", samples=unary, method=False, outputs=("low", "high"))
    def two_outputs_of_a_test(x):  # type: ignore[no-untyped-def]
        return x, x

    del OPS["two_outputs_of_a_test"]
    with pytest.raises(ValueError, match=r"'two_outputs_of_a_test' for 'x' .* leave kernel= out"):

        @two_outputs_of_a_test.rule("x", "g", kernel=identity)
        def _(g_low, g_high):  # type: ignore[no-untyped-def]
            return g_low


def test_autocast_is_not_asked_about_for_kernels_without_a_policy_alone() -> None:
    assert [may_cast(kernel) for kernel in (torch.mul, torch.add, torch.tanh, torch.special.erfcx)] == [False] * 4
    # A kernel with a cast policy on some device, a composite, the user's function, and a torch module.
    others = (torch.mm, torch.exp, torch.nn.functional.linear, torch.square, lambda x: x, torch.nn.Linear(1, 1))
    assert all(map(may_cast, others))


def test_a_kernel_is_torchs_own_function_where_there_is_one() -> None:
    kernels = Kernels()
    assert kernels.max_pool2d_with_indices is torch._C._nn.max_pool2d_with_indices
    assert kernels.constant_pad_nd is torch.constant_pad_nd
    assert kernels.index_put is not torch.index_put, "which takes no None among the indices"
    assert not hasattr(torch, "threshold_backward")
    g, x = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, 1.0])
    assert kernels.threshold_backward(g, x, 0).tolist() == [0.0, 2.0]
    assert "threshold_backward" in vars(kernels), "it is looked up once"

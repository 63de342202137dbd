"""Every function and method takes the names of arguments that torch takes: its own, and numpy's."""

import pickle
from functools import partial, wraps
from inspect import Parameter, signature
from typing import Any

import numpy as np
import pytest
import torch

import nbgrad
from nbgrad.core.dispatch.arguments import Parameters, parameter_names
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.tensor.methods import TensorMethods
from tests.core import call_forms, opdb
from tests.core.call_forms import Call
from tests.core.programs import Library, agree

NAMES = {"axis", "keepdims", "x1", "x2"}


def along_a_dim(entry: Any) -> bool:
    """Whether torch's function has an argument with another name in numpy, other than the first argument."""
    name = entry.aten_name or entry.name.replace(".", "_")
    signatures = call_forms.signatures(call_forms.function_of(torch, entry.name), name)
    return any({"dim", "keepdim", "other"} & {*names, *defaults} for names, defaults in signatures)


def with_numpys_names(entry: Any) -> list[tuple[Call, Call]]:
    """For the first sample along a dimension: each form with numpy's names, and the plain call."""
    samples = opdb.samples_of(entry, torch.float64)
    along = [one for one in samples if "dim" in one.kwargs or (one.args and isinstance(one.args[0], int))]
    forms = list(call_forms.calls(entry, (along or samples)[0]))
    found = {form.form: (form, forms[0]) for form in forms if NAMES & form.settings.keys() and " for " not in form.form}
    return list(found.values())


@pytest.mark.sampled(6)
@pytest.mark.parametrize("part", range(12))
def test_numpys_names_of_arguments_are_taken_where_torch_takes_them(part: int):
    agreed, wrong, seen = set(opdb.read_agreed()), [], 0
    for name, entry in list(opdb.entries().items())[part::12]:
        if name not in agreed or "." in name or not along_a_dim(entry):
            continue
        doors = call_forms.doors(entry)
        for form, plain in with_numpys_names(entry):
            for door in {"function", "method"} & doors.keys():
                found = call_forms.difference(doors[door], form, plain)
                wrong += [f"{name}, {door}, {form.form}: {found}"] if found else []
                seen += 1
    assert not wrong
    assert seen > 15


CALLS: dict[str, Any] = {
    "max(axis=, keepdims=)": lambda lib, x: lib.max(x, axis=0, keepdims=True)[0],
    "x.min(axis=)": lambda lib, x: x.min(axis=1)[0],
    "median(axis=)": lambda lib, x: lib.median(x, axis=0).values,
    "diff(axis=)": lambda lib, x: lib.diff(x, axis=0),
    "trapezoid(axis=)": lambda lib, x: lib.trapezoid(x, dim=0) + lib.cumsum(x, axis=0)[0],
    "nanmean(axis=, keepdims=)": lambda lib, x: lib.nanmean(x, axis=1, keepdims=True),
    "add(x1=, x2=)": lambda lib, x: lib.add(x1=x, x2=x * 2),
    "pow(x=, exponent=)": lambda lib, x: lib.pow(x=x, exponent=2),
    "amax(a=)": lambda lib, x: lib.amax(a=x, axis=(0, 1)),
    "max(numpy's dim)": lambda lib, x: lib.max(x, np.int64(0)).values,
    "max(dim=tensor)": lambda lib, x: lib.max(x, dim=lib.tensor(0)).values,
    "hstack(out=None)": lambda lib, x: lib.hstack((x, x), out=None),
    "tensordot(out=None)": lambda lib, x: lib.tensordot(x, x, out=None),
    "x.split(split_size=)": lambda lib, x: x.split(split_size=1)[0],
    "hsplit(sections=)": lambda lib, x: lib.hsplit(x, sections=2)[1],
    "tensor_split(indices=)": lambda lib, x: lib.tensor_split(x, indices=[1])[1],
    "ifftn(s=int)": lambda lib, x: lib.fft.ifftn(x, s=2).real,
    "x.double(memory_format=None)": lambda lib, x: x.double(memory_format=None),
    "scatter(value=tensor)": lambda lib, x: lib.scatter(x, 0, lib.tensor([[0, 1]]), value=lib.tensor(2)),
    "scatter(value=tensor, reduce=)": lambda lib, x: (
        x * lib.scatter(x.detach(), 0, lib.tensor([[0, 1]]), value=lib.tensor(2), reduce="multiply")
    ),
    "trace(input=)": lambda lib, x: lib.trace(input=x),
    "as_strided(offset=tensor)": lambda lib, x: (x * 1).as_strided((2,), (1,), lib.tensor(1)),
    "as_strided(size=tensors)": lambda lib, x: lib.as_strided(x * 1, (lib.tensor(2), 2), (lib.tensor(1), 2)),
    "as_strided_copy(offset=tensor)": lambda lib, x: lib.as_strided_copy(x * 1, (2,), (1,), lib.tensor(1)),
    "as_strided_scatter(offset=tensor)": lambda lib, x: lib.as_strided_scatter(
        x.detach(), x[0], (2,), (2,), lib.tensor(1)
    ),
    "triangular_solve(input=)": lambda lib, x: lib.triangular_solve(input=x, A=x).solution,
}


@pytest.mark.filterwarnings("ignore:torch.triangular_solve")
@pytest.mark.parametrize("name", CALLS)
def test_a_call_in_other_words_is_torchs(name):
    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf([0.5, 2.0], [3.0, -1.0])
        found = CALLS[name](lib.ops, x)
        found.sum().backward()
        return found, x.grad

    agree(program)


WRONG: dict[str, Any] = {
    "both names": lambda lib, x: lib.sum(x, dim=0, axis=0),
    "both names of a function": lambda lib, x: lib.max(x, dim=0, axis=0),
    "two of numpy's names": lambda lib, x: lib.amax(x=x, a=x),
    "a name that there is not": lambda lib, x: lib.amax(x, axes=0),
    "a tensor by name and by position": lambda lib, x: lib.add(x, x, x1=x),
    "a shape as an element type": lambda lib, x: x.view(dtype=(2, 2)),
    "a stride in a tensor of floats": lambda lib, x: lib.as_strided(x, (2,), (torch.tensor(1.0),)),
    "a value with a gradient": lambda lib, x: lib.scatter(
        x, 0, lib.tensor([[0]]), value=lib.tensor(2.0, requires_grad=True)
    ),
    "a value of several numbers": lambda lib, x: lib.scatter(x, 0, lib.tensor([[0]]), value=lib.tensor([2.0])),
    "an offset in a bool": lambda lib, x: lib.as_strided(x, (2,), (1,), torch.tensor(True)),
    "a narrower element type": lambda lib, x: lib.linalg.matrix_norm(x, "nuc", dtype=torch.float32),
}


@pytest.mark.parametrize("name", WRONG)
def test_both_refuse(name):
    for library in (torch, nbgrad):
        x = library.tensor([[0.5, 2.0], [3.0, -1.0]], dtype=torch.float64)
        with pytest.raises((TypeError, RuntimeError)):
            WRONG[name](library, x)


def test_a_tensor_to_write_into_is_refused_by_functions_too():
    x = nbgrad.ones(2, 2)
    with pytest.raises(NotImplementedError, match=r"hstack takes no out= on an nbgrad tensor"):
        nbgrad.hstack((x, x), out=x)


def test_a_function_is_pickled_by_its_name():
    assert pickle.loads(pickle.dumps(nbgrad.max)) is nbgrad.max


# The tester is tested.


def test_a_name_that_is_taken_for_another_is_caught(monkeypatch):
    row = OPS["amax"]
    monkeypatch.setattr(row, "_names", {**row.other_names(), "axis": "keepdim"})
    entry = opdb.entries()["amax"]
    found = [call_forms.difference(call_forms.doors(entry)["function"], *pair) for pair in with_numpys_names(entry)]
    assert any(found)


def test_a_gradient_that_gets_lost_is_caught():
    entry = opdb.entries()["diff"]
    theirs, ours = call_forms.doors(entry)["function"]

    def cut(x, *args, **settings):
        return ours(x.detach() if "axis" in settings else x, *args, **settings)

    found = [call_forms.difference((theirs, cut), *pair) for pair in with_numpys_names(entry)]
    assert any(found)


def test_names_of_parameters_are_those_of_the_signature() -> None:
    def settled(g: Any, a: Any, /, b: Any = 1, *, c: Any = None) -> Any:
        return g, a, b, c

    def listed(g: Any, *tensors: Any, dim: int = 0, **rest: Any) -> Any:
        return g, tensors, dim, rest

    rules = [rule.function for row in OPS.values() for rule in row.rules.values()]
    assert len(rules) > 400
    forwards = [row.__wrapped__ for row in OPS.values()]
    others = (settled, listed, wraps(settled)(listed), partial(settled, 1), OPS["mul"], torch.nn.Linear)
    for function in (*rules, *forwards, *others):
        shown = signature(function).parameters
        assert parameter_names(function) == list(shown)
        positional = {name: one.default for name, one in shown.items() if one.kind <= Parameter.POSITIONAL_OR_KEYWORD}
        starred = [name for name, one in shown.items() if one.kind is Parameter.VAR_POSITIONAL]
        named = {name: one.default for name, one in shown.items() if one.kind is Parameter.KEYWORD_ONLY}
        assert Parameters.of(function) == (positional, starred[0] if starred else None, named)


def test_a_row_and_its_methods_show_the_signature_of_the_forward() -> None:
    for name, row in OPS.items():
        assert signature(row) == signature(row.__wrapped__), name
        method = vars(TensorMethods).get(name)
        if getattr(method, "__wrapped__", None) is row:
            assert signature(method) == signature(row.__wrapped__), name
    assert str(signature(nbgrad.tensor([1.0]).softmax)) == "(*, dim, dtype=None)"
    assert str(signature(OPS["add"].in_place)) == "(a, b, *, alpha=1)"

"""The recorder remembers in which forms a function was called. Its facts about a call depend on that call alone."""

import gc
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.record import Described
from nbgrad.core.recorder.functions import KNOWN, arguments_of, called, settings_of, tensors_in
from tests.core import opdb

Call = Callable[[], Any]


def plain(value: Any) -> Any:
    """``value`` with its type: 1, 1.0 and True are not the same, nor are 0.0 and -0.0."""
    if isinstance(value, tuple | list):
        return [type(value).__name__, *map(plain, value)]
    return (value.shape, value.dtype) if isinstance(value, Described) else (type(value).__name__, repr(value))


def facts(call: Call) -> list[Any]:
    """All that the picture of ``call`` shows of its ops, with the places of records for their ids."""
    with AutogradGraph() as graph:
        held = call()
    records = graph.records
    del held  # without a backward, ops are shown as long as their results exist
    place = {record.id: at for at, record in enumerate(records)}
    return [
        (
            record.op.name if record.op else record.kind,
            {name: plain(value) for name, value in record.settings.items()},
            [(one.name, place.get(one.source), plain(one.literal)) for one in record.inputs],
        )
        for record in records
    ]


def same_whatever_ran_before(calls: list[Call]) -> list[Any]:
    """Check that the facts of each call are the same in any order of the calls, and return them."""
    fresh = []
    for call in calls:
        KNOWN.clear()
        fresh.append(facts(call))
    for order in (list(enumerate(calls)), list(enumerate(calls))[::-1]):
        KNOWN.clear()
        for at, call in order + order:
            assert facts(call) == fresh[at]
    return fresh


@pytest.mark.sampled(40)
@pytest.mark.filterwarnings("ignore")  # torch warns about functions that it will remove
@pytest.mark.parametrize("name", [name for name in opdb.cases() if not name.endswith(opdb.COMPLEX)])
def test_each_form_of_an_op_of_torchs_database_has_its_own_facts(name: str) -> None:
    entry = opdb.entries()[name]
    samples = opdb.samples_of(entry, torch.float64)[:8]
    same_whatever_ran_before([partial(entry, one.input, *one.args, **one.kwargs) for one in samples])


def given(*shape: int) -> Tensor:
    return torch.linspace(-1.0, 1.0, int(torch.tensor(shape).prod())).reshape(shape).requires_grad_()


X, Y, Z = given(2, 3), given(2, 3), given(2, 3)
IMAGE, KERNEL, BIAS, MEAN, RATIO = given(1, 2, 5, 5), given(2, 2, 3, 3), given(2), torch.zeros(2), torch.ones(2)
ORDER = [0, 1]


def ordered(*dims: int) -> Tensor:
    ORDER[:] = dims
    return X.permute(ORDER)


FORMS: dict[str, list[Call]] = {
    "a tensor twice": [lambda: torch.mul(X, X), lambda: torch.mul(X, Y), lambda: torch.mul(Y, X)],
    "one of three twice": [
        lambda: torch.addcmul(X, Y, Z, value=2),
        lambda: torch.addcmul(X, X, Z, value=2),
        lambda: torch.addcmul(X, Z, Z, value=2),
    ],
    "types of numbers": [lambda: X.pow(2), lambda: X.pow(2.0), lambda: X.pow(True), lambda: torch.pow(2, X)],
    "zeros": [partial(functional.hardtanh, X, at, 1.0) for at in (0.0, -0.0, 0)],
    "a number that is none": [partial(X.clamp, min=at) for at in (float("nan"), float("inf"), -1.0)],
    "numbers and flags": [
        lambda: X.sum(dim=1, keepdim=True),
        lambda: X.sum(1, True),
        lambda: X.sum(1),
        X.sum,
    ],
    "names in another order": [
        lambda: torch.var(X, dim=1, correction=0),
        lambda: torch.var(X, correction=1, dim=0),
        lambda: torch.var(X, dim=0, correction=1),
    ],
    "other names": [lambda: X.sum(dim=1), lambda: X.sum(axis=1), lambda: X.sum(dim=0)],
    "tuples": [lambda: X.sum((0, 1)), lambda: X.sum((0,)), lambda: X.sum([0, 1]), lambda: X.sum(0)],
    "swapped": [lambda: 2 - X, lambda: X - 2, lambda: 3 - X],
    "a list that changes": [lambda: ordered(1, 0), lambda: ordered(0, 1)],
    "an input or none": [
        lambda: functional.conv2d(IMAGE, KERNEL),
        lambda: functional.conv2d(IMAGE, KERNEL, BIAS),
        lambda: functional.conv2d(IMAGE, KERNEL, None, 2, 1),
        lambda: functional.conv2d(IMAGE, KERNEL, BIAS, (2, 1), "valid"),
        lambda: functional.conv2d(IMAGE, weight=KERNEL, bias=BIAS, padding="same"),
    ],
    "inputs by name": [
        lambda: functional.batch_norm(IMAGE, MEAN, RATIO, weight=BIAS, training=True),
        lambda: functional.batch_norm(IMAGE, MEAN, RATIO, bias=BIAS, training=True),
        lambda: functional.batch_norm(IMAGE, MEAN, RATIO, BIAS, BIAS, True, 0.1, 1e-5),
        lambda: functional.batch_norm(IMAGE, MEAN, RATIO),
    ],
    "shapes": [lambda: X.reshape(3, 2), lambda: X.reshape((3, 2)), lambda: X.reshape(-1), lambda: X.reshape(6)],
    "types": [lambda: X.sum(dtype=torch.float64), lambda: X.sum(dtype=torch.float32), lambda: X.sum(dtype=None)],
    "more than are kept": [partial(X.clamp, -at, at) for at in range(1, 20)],
    "an index": [lambda: X[0], lambda: X[:, 0], lambda: X[..., None]],
    "no row describes it": [
        lambda: torch.dstack([X, Y]),
        lambda: functional.max_pool2d(IMAGE, 2),
        lambda: functional.max_pool2d(IMAGE, 3),
        lambda: torch.flatten(IMAGE, 1),
        lambda: torch.flatten(IMAGE, 0, 2),
    ],
}


@pytest.mark.parametrize("calls", FORMS.values(), ids=FORMS.keys())
def test_a_form_is_not_taken_for_another(calls: list[Call]) -> None:
    assert all(same_whatever_ran_before(calls)), "each call is shown"


@pytest.mark.parametrize("call", [X.sum, partial(X.sum, dim=1), partial(functional.conv2d, IMAGE, KERNEL, stride=2)])
def test_a_user_may_change_the_settings_of_a_record(call: Call) -> None:
    want = facts(call)
    with AutogradGraph() as graph:
        held = call()
        graph.records[-1].settings.clear()
        graph.records[-1].settings["changed"] = True
        del held
    assert facts(call) == want


def test_the_settings_of_a_form_are_worked_out_once() -> None:
    known = called(functional.conv2d)
    assert known.forms == []
    first, _, settings = known.arguments((IMAGE, KERNEL, None, (2, 1), 1), {})
    for image, kernel, stride in ((IMAGE, KERNEL, (2, 1)), (given(2, 2, 7, 7), given(4, 2, 1, 1), (2, 1))):
        op, inputs, again = known.arguments((image, kernel, None, stride, 1), {})
        assert op is first
        assert again is settings
        assert inputs[0] is image
        assert inputs[1] is kernel
    assert len(known.forms) == 1


def test_of_many_forms_the_used_ones_are_kept() -> None:
    known = called(functional.conv2d)
    usual = known.arguments((IMAGE, KERNEL, None, 1), {})[2]
    for stride in range(2, 50):
        known.arguments((IMAGE, KERNEL, None, stride), {})
        assert known.arguments((IMAGE, KERNEL, None, 1), {})[2] is usual
    assert len(known.forms) == 8


@pytest.mark.parametrize(
    ("call", "count"),
    [
        (lambda: X.add(0.5, Y), 0),  # each such call has a warning
        (lambda: X.permute([1, 0]), 0),
        (lambda: X.clamp(min=torch.zeros(3)), 1),
        (lambda: X[torch.tensor([0])], 0),
        (lambda: torch.addcmul(X, Y, Y, value=2), 0),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_may_change_or_is_not_clear_is_no_form(call: Call, count: int) -> None:
    KNOWN.clear()
    facts(call)
    assert sum(len(known.forms) for known in KNOWN.values()) == count


@pytest.mark.filterwarnings("ignore:This overload of add is deprecated")  # torch's own warning, once in a process
def test_a_call_of_older_torch_has_its_warning_each_time() -> None:
    for _ in range(2):
        with AutogradGraph(), pytest.warns(UserWarning, match="takes its factor as the last argument"):
            X.add(0.5, Y)


def test_a_form_holds_no_tensor() -> None:
    x, w, b = given(1, 2, 5, 5), given(2, 2, 3, 3), given(2)
    held = [weakref.ref(one) for one in (x, w, b)]
    with AutogradGraph():
        functional.conv2d(x, w, b, stride=2).clamp(min=b[0]).sum().backward()
    del x, w, b
    gc.collect()
    assert [one() for one in held] == [None, None, None]


LISTED = {"num_layers": 2, "dropout": 0.25, "bidirectional": True}
PACKED = torch.nn.utils.rnn.pack_padded_sequence(torch.ones(3, 2, 4), torch.tensor([3, 2]))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("made", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_an_argument_has_the_name_of_the_form_that_was_called(made: Any, packed: bool) -> None:
    network = made(4, 5, batch_first=not packed, **LISTED)
    with AutogradGraph() as graph:
        held = network(PACKED if packed else torch.ones(2, 3, 4))
    (settings,) = [one.settings for one in graph.records if "num_layers" in one.settings]
    del held
    assert settings == {"has_biases": True, "train": True, **LISTED, **({} if packed else {"batch_first": True})}


CALLS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "addbmm": (torch.addbmm, (X, torch.ones(4, 2, 5), torch.ones(4, 5, 3)), {"beta": 0.5, "alpha": 2.0}),
    "a number between tensors": (torch.Tensor.addcmul, (X, Y, Y), {"value": 3.0}),
    "a setting before a tensor": (torch.index_add, (X, 0, torch.tensor([1, 0]), Y), {"alpha": 2.0}),
    "None before a tensor": (torch.instance_norm, (IMAGE, None, None, None, None, True, 0.1, 1e-3, False), {}),
    "polar": (torch.polar, (X.abs(), Y), {}),
    "a form of several": (torch.quantile, (X, 0.25, 1), {"keepdim": True}),
    "a convolution": (torch.convolution, (IMAGE, KERNEL, None, (2, 1), (0, 1), (1, 1), False, (0, 0), 1), {}),
    "a list": (torch.stack, ([X, Y], 1), {}),
}


@pytest.mark.parametrize(("function", "args", "kwargs"), CALLS.values(), ids=CALLS.keys())
def test_the_settings_and_the_tensors_are_the_call(function: Any, args: Any, kwargs: Any) -> None:
    name = function.__name__
    settings = settings_of(name, args, kwargs)
    assert not [key for key in settings if key.startswith("argument ")]
    given, others = arguments_of(name, tensors_in(args), settings)
    if any(isinstance(one, list) for one in args):
        given = [tensors_in(args), *given[len(tensors_in(args)) :]]
    assert torch.equal(function(*given, **others), function(*args, **kwargs))

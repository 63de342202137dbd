"""Hooks of all modules, torch's and nbgrad's: calls, their order, values and errors are torch's."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.nn.modules import module as theirs

import nbgrad
from nbgrad import nn
from nbgrad.nn.modules import module as ours
from tests.core.programs import plain

LIBRARIES = [(nn, ours), (torch.nn, theirs), (nn, theirs)]


@pytest.fixture(autouse=True)
def _none_is_left() -> Iterator[None]:
    yield
    assert not any(
        (
            theirs._global_forward_hooks,
            theirs._global_forward_pre_hooks,
            theirs._global_backward_hooks,
            theirs._global_backward_pre_hooks,
            theirs._global_module_registration_hooks,
            theirs._global_parameter_registration_hooks,
            theirs._global_buffer_registration_hooks,
        )
    )
    theirs._global_is_full_backward_hook = None


def net(lib: Any) -> Any:
    torch.manual_seed(3)
    return lib.Sequential(lib.Linear(3, 4), lib.Tanh(), lib.Linear(4, 2)).double()


def leaf(lib: Any) -> Any:
    data = torch.linspace(-1, 1, 6, dtype=torch.float64).reshape(2, 3)
    return nbgrad.tensor(data, requires_grad=True) if lib is nn else data.requires_grad_()


def raw(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [raw(one) for one in value]
    value = plain(value)
    return value.detach().tolist() if isinstance(value, torch.Tensor) else value


def calls(lib: Any, hooks: Any) -> list[Any]:
    """The calls that global hooks and hooks of one module see, and the gradients."""
    seen: list[Any] = []
    model, x = net(lib), leaf(lib)

    def note(what: str) -> Any:
        return lambda module, *given: seen.append((what, type(module).__name__, raw(list(given))))

    model[0].register_forward_pre_hook(note("own before"))
    model[0].register_forward_hook(note("own after"))
    model[2].register_full_backward_hook(note("own backward"))
    model[2].register_full_backward_pre_hook(note("own backward before"))
    handles = [
        hooks.register_module_forward_pre_hook(note("before")),
        hooks.register_module_forward_pre_hook(lambda m, args: args[0] * 2 if type(m).__name__ == "Tanh" else None),
        hooks.register_module_forward_hook(note("after"), with_kwargs=True),
        hooks.register_module_forward_hook(lambda m, _, out: out + 1 if type(m).__name__ == "Linear" else None),
        hooks.register_module_full_backward_pre_hook(note("backward before")),
        hooks.register_module_full_backward_hook(note("backward")),
        hooks.register_module_full_backward_hook(
            lambda m, inputs, _: (inputs[0] * 3,) if type(m).__name__ == "Tanh" else None
        ),
    ]
    try:
        (model(x) ** 2).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
        torch.nn.modules.module._global_forward_hooks_with_kwargs.clear()  # torch's remove() leaves an entry here
    assert len(model[0]._forward_hooks) == 1
    number = len(seen)
    model(x)  # the global hooks are gone; the module's own hooks stay
    assert [one[0] for one in seen[number:]] == ["own before", "own after"]
    return [seen, raw([x.grad, *(one.grad for one in model.parameters())])]


def close(mine: Any, yours: Any) -> None:
    if isinstance(yours, list | tuple):
        assert len(mine) == len(yours)
        for one, other in zip(mine, yours, strict=True):
            close(one, other)
    elif isinstance(yours, float):
        assert mine == pytest.approx(yours, rel=1e-9, abs=1e-12)
    else:
        assert mine == yours


@pytest.mark.parametrize("hooks", [ours, theirs])
def test_hooks_of_all_modules_run_as_torchs(hooks: Any) -> None:
    close(calls(nn, hooks), calls(torch.nn, theirs))


def test_a_forward_hooks_result_is_what_a_backward_hook_sees() -> None:
    def run(lib: Any) -> Any:
        model, x, seen = net(lib), leaf(lib), []
        model[0].register_forward_hook(lambda _, __, out: out * 5)
        model[0].register_full_backward_hook(lambda _, inputs, outputs: seen.append((inputs, outputs)))
        (model(x) ** 2).sum().backward()
        return raw(seen)

    close(run(nn), run(torch.nn))


def registered(lib: Any, hooks: Any) -> list[Any]:
    seen: list[Any] = []

    def note(what: str) -> Any:
        return lambda module, name, value: seen.append((what, type(module).__name__, name, type(value).__name__))

    def shown(_: Any, name: str, value: Any) -> Any:
        return lib.Buffer(value.detach() + 1) if name == "marked" and hasattr(lib, "Buffer") else None

    handles = [
        hooks.register_module_parameter_registration_hook(note("parameter")),
        hooks.register_module_module_registration_hook(note("module")),
        hooks.register_module_buffer_registration_hook(lambda m, n, _: seen.append(("buffer", type(m).__name__, n))),
        hooks.register_module_buffer_registration_hook(shown),
        hooks.register_module_module_registration_hook(
            lambda _, name, value: lib.ReLU() if name == "swapped" and value is not None else None
        ),
    ]
    try:
        model = lib.Sequential(lib.Linear(2, 2, bias=False), lib.BatchNorm1d(2))
        model.register_buffer("marked", torch.zeros(2))
        model.swapped = lib.Tanh()
        model.add_module("nothing", None)
        model[0].bias = lib.Parameter(torch.ones(2))
        model[0].bias = None
    finally:
        for handle in handles:
            handle.remove()
    return [seen, type(model.swapped).__name__, raw(model.marked)]


def test_hooks_see_what_any_module_registers() -> None:
    mine, yours = registered(nn, ours), registered(torch.nn, theirs)
    assert mine[1:] == yours[1:]
    # A block of nbgrad's registers what torch's does, in an order of its own.
    assert sorted(map(str, mine[0])) == sorted(map(str, yours[0]))


@pytest.mark.parametrize(("lib", "hooks"), LIBRARIES)
def test_always_called_hooks_run_after_an_error(lib: Any, hooks: Any) -> None:
    seen: list[Any] = []

    class Fails(lib.Module):  # type: ignore[name-defined, misc]
        def forward(self, _: Any) -> Any:
            raise KeyError("here")

    def fail(*_: Any) -> None:
        seen.append("raises")
        raise ValueError("there")

    def wrong(*_: Any) -> None:
        raise AssertionError("this one is not always called")

    model = Fails()
    model.register_forward_hook(lambda *given: seen.append(("own", len(given), given[-1])), always_call=True)
    with (
        hooks.register_module_forward_hook(fail, always_call=True),
        hooks.register_module_forward_hook(lambda *given: seen.append(("all", given[-1])), always_call=True),
        hooks.register_module_forward_hook(wrong),
        pytest.warns(UserWarning, match="silenced as another error was raised in forward: there"),
        pytest.raises(KeyError, match="here"),
    ):
        model(leaf(lib))
    assert seen == ["raises", ("all", None), ("own", 3, None)]


def test_a_hook_that_raises_and_is_always_called_runs_once() -> None:
    for lib, hooks in LIBRARIES:
        seen: list[int] = []

        def fail(*_: Any, seen: list[int] = seen) -> None:
            seen.append(1)
            raise ValueError("once")

        with hooks.register_module_forward_hook(fail, always_call=True), pytest.raises(ValueError, match="once"):
            lib.ReLU()(leaf(lib))
        assert seen == [1]


def test_torchs_older_backward_hooks_are_refused() -> None:
    with pytest.raises(NotImplementedError, match=r"register_full_backward_hook\(\)"):
        nn.ReLU().register_backward_hook(print)
    with (
        ours.register_module_backward_hook(print),
        pytest.raises(RuntimeError, match=r"register_module_full_backward_hook\(\)"),
    ):
        nn.ReLU()(leaf(nn))


@pytest.mark.parametrize("lib", [nn, torch.nn])
def test_an_output_that_is_no_tensor_is_warned_of(lib: Any) -> None:
    class Names(lib.Module):  # type: ignore[name-defined, misc]
        def forward(self, x: Any) -> Any:
            return {"x": x}

    model = Names()
    model.register_full_backward_hook(lambda *_: None)
    with pytest.warns(UserWarning, match="module output should be a Tensor or a tuple of Tensors"):
        model(leaf(lib))


def test_without_hooks_nothing_is_wrapped() -> None:
    model, x = net(nn), leaf(nn)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert repr(model[1](x).grad_fn) == "<tanh>"


def test_all_names_are_there() -> None:
    names = {name for name in vars(theirs) if name.startswith("register_module")}
    assert names <= set(ours.__all__)

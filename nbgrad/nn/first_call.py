"""The first call of a converted module is compared with torch's own forward.

Its forward is the user's code, which may ask for the type of a tensor and take another branch on ours.
Before it runs, a module of torch's is made of what the converted one holds now, and called with copies of the inputs
and the same random numbers. Both results must be equal. Nothing that the model or the user holds is changed by it.
"""

import random
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from contextvars import ContextVar
from io import StringIO
from typing import Any

import torch

from nbgrad.core.engine.state import Switch, current, recording
from nbgrad.nn.back_to_torch import StructureCopy, Twins, copied, holds_meta, values_of
from nbgrad.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList
from nbgrad.nn.converted_class import UNMODIFIED
from nbgrad.nn.differences import first_difference
from nbgrad.nn.module.module import Module


class _Comparison:
    """A first call that runs, and the modules that it ran."""

    def __init__(self) -> None:
        self.ran: dict[int, Module] = {}

    def called(self, module: Module, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a module of ours."""
        self.ran[id(module)] = module
        return call(module, *args, **kwargs)


_comparison: ContextVar[_Comparison | None] = ContextVar("nbgrad_comparison", default=None)


class FirstCall:
    """The object that the hooks of a converted module hold until it has run. Copies and pickles share the same one."""

    def __reduce__(self) -> str:
        return "FIRST_CALL"

    def run(self, module: Module, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return ``call(module, *args, **kwargs)``, and raise if torch's forward returns anything else.

        Raises:
            RuntimeError: the results differ. The call has changed the model as any other.
        """
        around = _comparison.get()
        if around is not None:
            return around.called(module, call, args, kwargs)
        if torch._C._functorch.maybe_current_level() is not None or holds_meta((args, kwargs)):
            return call(module, *args, **kwargs)  # tensors without numbers: a later call is compared
        twins = Twins(module, args, kwargs)
        if twins.unknown is not None:  # the user has added a module of nbgrad: nothing is compared
            forget(module)
            has = "is" if twins.unknown is module else f"holds a {type(twins.unknown).__name__} that is"
            _warn(f"{type(module).__name__} {has} nbgrad's own")
            return call(module, *args, **kwargs)
        return _compared(module, call, args, kwargs, twins)


FIRST_CALL = FirstCall()


def await_first_call(module: Module) -> None:
    """Have the first call of ``module`` compared. Lists and dicts are left out: they are never called."""
    if not isinstance(module, ModuleList | ModuleDict | ParameterList | ParameterDict):
        module._made_hooks().first_call = FIRST_CALL


class ComparedModes:
    """In which modes a call of a module has been compared: in training, in evaluation, or in both."""

    def __init__(self) -> None:
        self.modes: set[bool] = set()

    def turned(self, module: Module, mode: bool) -> None:
        """The module was set to ``mode``. Its first call in a new mode is compared: a forward may depend on it."""
        if mode not in self.modes:
            await_first_call(module)


def forget(module: Module) -> None:
    """The first call of ``module`` in its mode is over: later calls are not compared."""
    compared = vars(module).setdefault("_compared", ComparedModes())
    compared.modes.add(module.training)
    hooks = module._hooks
    if hooks is not None:
        hooks.first_call = None
        if not any((hooks.before, hooks.after, hooks.backward_before, hooks.backward_after)):
            vars(module).pop("_hooks", None)


def _compared(
    module: Module, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], twins: Twins
) -> Any:
    comparison, given = _Comparison(), StructureCopy(copied)((args, kwargs))
    numbers = _RandomState()
    try:
        expected, failed = _torchs(twins)
    finally:
        numbers.put_back()
    token = _comparison.set(comparison)
    try:
        result = comparison.called(module, call, args, kwargs)
    except Exception as error:
        if failed is None:
            numbers.put_back()
            why = "" if isinstance(error, NotImplementedError) else f" {_REASON}"
            error.add_note(f"from_torch(): torch's own forward returns a result for the same inputs.{why} {_INSTEAD}")
        raise
    finally:
        _comparison.reset(token)
    difference = None if failed is not None else first_difference(values_of(result), expected)
    if failed is not None and (twins.hooked or isinstance(failed, torch.OutOfMemoryError | MemoryError)):
        return _finished(comparison, result, f"torch's own forward raised {type(failed).__name__}: {failed}")
    if failed is None and difference is None:
        return _finished(comparison, result)
    drawn, repeated = _RandomState(), []
    for _ in range(2):
        numbers.put_back()
        repeated.append(_torchs(Twins(module, *given))[0])
    numbers.put_back()
    if difference is not None and first_difference(*repeated) is not None:
        drawn.put_back()
        return _finished(comparison, result, "torch's own forward returns other numbers each time")
    if difference is None:
        difference = f"that raises {type(failed).__name__}: {failed}"
    raise RuntimeError(_message(module, difference)) from failed


def _torchs(twins: Twins) -> tuple[Any, Exception | None]:
    """The result of torch's module, and the error that it raised, if it did."""
    records = torch.is_grad_enabled()
    try:
        with Switch(observers=()), warnings.catch_warnings(), redirect_stdout(StringIO()):  # ours warns and prints
            warnings.simplefilter("ignore")
            torch._C._set_grad_enabled(recording(current()))
            return values_of(twins.root(*twins.args, **twins.kwargs)), None
    except Exception as error:
        return None, error
    finally:
        torch._C._set_grad_enabled(records)


class _RandomState:
    """The states of what draws random numbers: torch, Python and numpy."""

    def __init__(self) -> None:
        self.torchs = torch.get_rng_state()
        devices: Any = torch.cuda
        self.devices = devices.get_rng_state_all() if devices.is_initialized() else None
        self.pythons = random.getstate()
        self.numpys = sys.modules["numpy"].random.get_state()

    def put_back(self) -> None:
        torch.set_rng_state(self.torchs)
        if self.devices is not None:
            torch.cuda.set_rng_state_all(self.devices)
        random.setstate(self.pythons)
        sys.modules["numpy"].random.set_state(self.numpys)


def _finished(comparison: _Comparison, result: Any, why: str | None = None) -> Any:
    """The result; the modules that ran are compared no more."""
    for module in comparison.ran.values():
        forget(module)
    if why is not None:
        _warn(why)
    return result


def _warn(why: str) -> None:
    warnings.warn(
        f"from_torch(): the first call could not be compared with torch's: {why}. from_torch(module, check=False) does "
        "not compare",
        stacklevel=2,
    )


def _message(module: Module, difference: str) -> str:
    """The message: the difference, the cause, how to find where it begins, and what to do."""
    return (
        f"from_torch(): the first call of {type(module).__name__} does not do what torch's own forward does with the "
        f"same inputs: {difference}. {_REASON} With model = from_torch(net, check=False), which does not compare, "
        f"nbgrad.testing.assert_gradients_close(model, net, inputs) names the first op that differs. {_INSTEAD}, or "
        "change that line"
    )


_REASON = (
    "Most often such code compares type(x) with torch's class, or calls a function that accepts only torch's own "
    "tensors."
)
_INSTEAD = UNMODIFIED[0].upper() + UNMODIFIED[1:]

"""TorchOptimizer: an optimizer that steps with the arithmetic of torch's own."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from inspect import signature, unwrap
from operator import index
from typing import Any, ClassVar

import torch

from nbgrad.core.graph.training import params_of
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.adopted import adopting
from nbgrad.optim.optimizer import Optimizer, Params, Tensors, raw

SEVERAL, CACHED = 6, 1 << 17
"""The least number of parameters, and the largest number of elements, for which torch's foreach kernels are faster than
a loop on a CPU: the results between two kernels must stay in the cache. Measured on one thread: 0.6 of the loop's time
within these limits, up to 1.9 outside."""


class TorchOptimizer(Optimizer):
    """An optimizer whose ``update`` is that of torch's class of the same name, run on the data of the parameters.

    A step changes numbers and is not differentiated, so torch's own kernels can do it, foreach and fused ones too. The
    checks of the settings, the keys of ``state_dict`` and the resulting values are torch's as well.

    Attributes:
        torchs: the class of torch.
    """

    torchs: ClassVar[type[torch.optim.Optimizer]]
    # The step of that class without torch's hooks around it: our step calls the hooks already.
    _bare: ClassVar[Callable[..., Any]]
    _usual: ClassVar[dict[str, Any]]
    """The defaults of its settings, which show their types."""
    _whole: ClassVar[frozenset[str]] = frozenset()
    """The settings that torch's step uses as a count, so that a float is an error."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        cls._bare = staticmethod(unwrap(cls.torchs.step))
        cls._usual = {one.name: one.default for one in signature(cls.torchs).parameters.values()}
        if "torchs" in vars(cls) and "__init__" not in vars(cls):
            constructor: Any = adopting(cls.torchs)(TorchOptimizer.__init__)
            cls.__init__ = constructor  # type: ignore[method-assign]

    def __init__(self, params: Params, **settings: Any) -> None:
        self._check_settings(settings)
        super().__init__(params, {})
        owners = {param.data: param for param in params_of(self)}
        runner: Any = self.torchs(
            [{**group, "params": [param.data for param in group["params"]]} for group in self.param_groups],
            **raw(settings),
        )
        self.defaults = runner.defaults
        for group, checked in zip(self.param_groups, runner.param_groups, strict=True):
            group.update({**checked, "params": group["params"]})
        self.state.update({owners[data]: held for data, held in runner.state.items()})
        self._runner = _emptied(runner)

    def _check_settings(self, settings: dict[str, Any]) -> None:
        super()._check_settings(settings)
        for name, value in settings.items():
            _check_kind(type(self).__name__, name, value, self._usual.get(name), name in self._whole)

    def update(self, params: list[Tensor], grads: Tensors, group: dict[str, Any]) -> None:
        """Change the data of ``params`` in place by their gradients ``grads``, with the settings of ``group``."""
        self._run(params, grads, {**group, **self._kernels([param.data for param in params], group)}, self._bare)

    def _run(
        self,
        params: list[Tensor],
        grads: Sequence[torch.Tensor | None],
        group: dict[str, Any],
        step: Callable[[Any], Any],
    ) -> Any:
        """Call ``step`` with torch's optimizer, which has the data, gradients and state of ``params`` meanwhile."""
        runner, state = self._known_runner(), self.state
        data, begun = [param.data for param in params], []
        runner.param_groups = [{**group, "params": data}]
        try:
            for one, grad, param in zip(data, grads, params, strict=True):
                one.grad = grad
                if param in state:
                    runner.state[one] = state[param]
                else:
                    begun.append((one, param))
            result = step(runner)
            for one, param in begun:
                if one in runner.state:
                    state[param] = runner.state[one]
            return result
        finally:
            for one in data:
                one.grad = None
            _emptied(runner)

    def _kernels(self, data: list[torch.Tensor], group: dict[str, Any]) -> dict[str, Any]:
        """Foreach kernels, if the user chose no kernel and they are faster on a CPU; on a GPU torch chooses them."""
        if len(data) < SEVERAL or group.get("foreach", True) is not None or group.get("fused"):
            return {}
        small = sum(map(torch.numel, data)) <= CACHED and all(one.is_cpu for one in data)
        return {"foreach": True} if small and not isinstance(group["lr"], torch.Tensor) else {}

    def _known_runner(self) -> Any:
        """Torch's optimizer. A copied or unpickled optimizer of ours has none, and makes it at the first use."""
        if "_runner" not in self.__dict__:
            runner: Any = self.torchs.__new__(self.torchs)
            runner.__setstate__({"defaults": self.defaults, "state": defaultdict(dict), "param_groups": []})
            self._runner = runner
        return self._runner


def _check_kind(called: str, name: str, value: Any, usual: Any, whole: bool) -> None:
    """Raise a TypeError for a setting that is no number, or no ``whole`` one, or not as many as by default."""
    hint = ""
    if isinstance(usual, tuple):
        wanted, known = f"a tuple of {len(usual)} numbers", isinstance(value, tuple | list) and len(value) == len(usual)
        fits = known and all(_is_number(one) or one is of for one, of in zip(value, usual, strict=True))
    elif isinstance(usual, int | float) and not isinstance(usual, bool):
        wanted, fits = ("a whole number", _is_whole(value)) if whole else ("a number", _is_number(value))
        hint = "" if fits else _meant(name, value, whole)
    else:
        return
    if not fits:
        raise TypeError(
            f"{called}({name}={value!r}): it has to be {wanted}, as {name}={usual!r}, which it is by default, but got "
            f"{type(value).__name__}{hint}"
        )


def _is_number(value: Any) -> bool:
    """Whether ``value`` is a number; numpy's numbers and tensors of one number count too."""
    return hasattr(value, "__float__")


def _is_whole(value: Any) -> bool:
    """Whether ``value`` is a whole number and no float; numpy's numbers and tensors of one number count too."""
    try:
        index(value)
    except (TypeError, RuntimeError):
        return False
    return True


def _meant(name: str, value: Any, whole: bool) -> str:
    """The hint to write a number in place of a text or a list of one value; empty if that would not be valid."""
    one = value[0] if isinstance(value, list | tuple) and len(value) == 1 else value
    try:
        number = float(one)
    except (TypeError, ValueError):
        return ""
    if not whole:
        return f"; write {name}={number!r}"
    return f"; write {name}={int(number)}" if number.is_integer() else ""


def _emptied(runner: Any) -> Any:
    """``runner``, keeping no parameter alive."""
    runner.state, runner.param_groups = defaultdict(dict), []
    return runner

"""The sweep of modules finds what is wrong: each of these faults makes some of its cases fail."""

from collections.abc import Callable
from typing import Any

import pytest

from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import Parameter
from tests.nn import random_modules
from tests.nn.random_modules import difference
from tools import sweep

Fault = Callable[[pytest.MonkeyPatch], None]


def saving_is_not_asked(patch: pytest.MonkeyPatch) -> None:
    own = Module._save_to_state_dict
    state_dict = Module.state_dict

    def wrong(self: Any, **settings: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            for kind in random_modules.OURS.own.values():
                if "_save_to_state_dict" in vars(kind):
                    inner.setattr(kind, "_save_to_state_dict", own)
            return state_dict(self, **settings)

    patch.setattr(Module, "state_dict", wrong)


def a_hook_is_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Module, "_made_hooks", lambda self: random_modules.nn.Linear(1, 1)._made_hooks())


def moving_forgets_buffers(patch: pytest.MonkeyPatch) -> None:
    own = Module._apply

    def wrong(self: Any, fn: Any, recurse: bool = True) -> Any:
        kept = dict(self._buffers)
        own(self, fn, recurse)
        for name, value in kept.items():
            vars(self)[name] = value
        return self

    patch.setattr(Module, "_apply", wrong)


def copies_share(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Parameter, "__deepcopy__", lambda self, _: self)


@pytest.mark.parametrize("fault", [saving_is_not_asked, a_hook_is_lost, moving_forgets_buffers, copies_share])
def test_a_fault_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    assert any(sweep.run("modules", first, cases=10).failures for first in range(0, 100, 10))


def test_differences_are_told_by_their_place() -> None:
    assert not difference([1.0, {"a": [2.0, float("nan")]}], [1.0 + 1e-6, {"a": [2.0, float("nan")]}])
    assert difference([1, [2, 3]], [1, [2, 4]]) == "[1][1]: 3 instead of 4"
    assert difference({"a": 1}, {"b": 1}) == "[0][0]: a instead of b"
    assert difference([1], [1, 2]) == ": [1] instead of [1, 2]"

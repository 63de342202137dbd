"""``TraceWatch``: sees what a traced function does beside the steps of its program, refuses it, and takes it back."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import active_count
from typing import Any, Self

import torch

from nbgrad.core.engine.call_site import user_place
from nbgrad.core.engine.node import TensorBase
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.user_names import is_module
from nbgrad.core.symbolic.calls import Calls
from nbgrad.core.symbolic.draws import generators
from nbgrad.core.symbolic.effects import Change, Effects, Lines
from nbgrad.core.symbolic.errors import TraceError, Unsettled, error_at
from nbgrad.core.symbolic.fake import is_fake
from nbgrad.core.symbolic.process_settings import PROCESS_SETTINGS, KeptSettings
from nbgrad.core.symbolic.surroundings import Sight
from nbgrad.core.symbolic.tracer import Tracer


@dataclass(frozen=True)
class Wrong:
    """Something that a function does and a program would not do.

    Attributes:
        reason, remedy: for the error.
        done: whether it is done already, in a run that a ``TraceWatch`` watches.
        fills: whether it sets what was unset.
        shared: whether another thread may have done it.
        once: whether a library may do it once for the whole process, as at the import of another one.
    """

    reason: str
    remedy: str
    done: "Callable[[TraceWatch], bool]"
    fills: bool = False
    shared: bool = False
    once: bool = False


class TraceWatch:
    """A context in which a function is traced.

    Args:
        tracer: of the trace.
        sights: what the function uses from outside.
        locating: what is looked for, in a second run that finds the line of it.

    Attributes:
        place: that line; None if it was not found.
    """

    def __init__(self, tracer: Tracer, sights: Sequence[Sight], *, locating: Wrong | None = None) -> None:
        around = [one.value for one in sights]
        self.tracer = tracer
        self.seed = torch.get_rng_state()
        self.draws = KeptSettings(generators(around))
        self.effects = Effects(sights)
        self.calls = Calls(sights, watches=locating is None)
        self.settings = KeptSettings(PROCESS_SETTINGS)
        self.place: Place | None = None
        self._setting: str | None = None
        self._settings_after = self.settings
        self._sights = sights
        self._inner: Any = self.calls if locating is None else Lines(lambda: self._told(locating))

    def __enter__(self) -> Self:
        self.settings = KeptSettings(PROCESS_SETTINGS)
        self._inner.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._inner.__exit__()
        if isinstance(self._inner, Lines) and self._inner.found is not None:
            self.place = Place(*self._inner.found)
        self._setting = self.settings.changed()
        if self._setting is not None:
            self._settings_after = KeptSettings(PROCESS_SETTINGS)
            self.settings.restore()

    def restore(self) -> None:
        """Take back what the function has done. Ask when the tensors have their own data again."""
        self.effects.restore()
        self.draws.restore()
        if (self.calls.draws or active_count() == 1) and self.has_drawn():
            torch.set_rng_state(self.seed)

    def has_drawn(self) -> bool:
        """Whether random numbers of torch's were drawn."""
        return not torch.equal(self.seed, torch.get_rng_state())

    def _told(self, wrong: Wrong) -> bool:
        with torch._C.DisableTorchFunction():
            return wrong.done(self)

    def check(self, changed: list[str], replaced: list[str], place_of: Callable[[Wrong], Place | None]) -> None:
        """Raise an error if the function has done what a program does not do again, and take that back.

        Args:
            changed: settings of optimizers that it has changed.
            replaced: attributes of modules that have become other tensors.
            place_of: finds the line of the user's.

        Raises:
            TraceError: with the line, the reason and the remedy.
        """
        try:
            self.calls.check()
        except TraceError:
            self.restore()
            raise
        found = list(self._wrong(changed, replaced))
        if not found:
            return
        wrong = next((one for one in found if not one.fills), found[0])
        after = Effects(self._sights)
        self.restore()
        place = place_of(wrong)
        if place is None and (wrong.once or (wrong.shared and active_count() > 1)):
            after.restore()
            if wrong.once:
                self._settings_after.restore()
            return
        raise error_at(place or user_place(), wrong.reason, wrong.remedy, Unsettled if wrong.fills else TraceError)

    def _wrong(self, changed: list[str], replaced: list[str]) -> Iterator[Wrong]:
        drew = self.calls.draws or active_count() == 1  # other threads may draw as they like
        if changed:
            yield Wrong(
                f"the function changes {', '.join(changed)}, which a run of a program does not do",
                "Change settings, and call schedulers, outside of the function: scheduler.step() after the compiled "
                "step",
                lambda watch: bool(watch.tracer.changed_settings()),
            )
        if drew and self.has_drawn():
            yield Wrong(
                "the function seeds torch's random numbers, or draws some where the trace does not see it",
                "Call torch.manual_seed(...) outside of the function",
                lambda watch: watch.has_drawn(),
            )
        if (drawn := self.draws.changed()) is not None and (drew or "numpy" in drawn):  # calls of numpy are not seen
            yield Wrong(
                f"the function draws random numbers of {drawn}, and a program would use the same ones in each run",
                "Draw them outside of the function and give them to it, or draw them with torch, as in torch.rand(...)",
                lambda watch: watch.draws.changed() is not None,
            )
        if replaced:
            yield Wrong(
                f"the function gives {', '.join(replaced)} a new tensor, which a program cannot do",
                "Change the tensor that is there in place: self.average.mul_(0.9).add_(...), or "
                "self.average.copy_(...)",
                lambda watch: any(_is_made(change.now) for change in watch.effects.changes()),
            )
        if self._setting is not None:
            yield Wrong(
                f"the function changes {self._setting}, which a run of a program does not do",
                "Change it before the call, outside of the function",
                lambda watch: watch.settings.changed() is not None,
                once=True,
            )
        for change in self.effects.changes():
            yield Wrong(
                f"the function {'sets' if change.fills else 'changes'} {change}, which a run of a program does not do",
                _remedy(change),
                lambda watch, name=change.name: watch.effects.has_changed(name),  # type: ignore[misc]
                change.fills,
                shared=True,
            )


def _is_made(value: Any) -> bool:
    return isinstance(value, TensorBase) and is_fake(value._data)


def _remedy(change: Change) -> str:
    owner = change.owner
    if change.fills:
        return "Call the function once without a trace if later calls find it set, or set it outside of the function"
    if hasattr(owner, "last_epoch") and hasattr(owner, "get_last_lr"):
        return "Call scheduler.step() after the compiled step"
    if isinstance(owner, TensorBase) or "hook" in change.name:
        return "Register hooks once, outside of the function"
    if is_module(owner) and change.name.endswith(".training"):
        return "Call net.train() or net.eval() before the call"
    if isinstance(owner, list):
        return "Return what is kept there, and keep it after the call"
    return (
        "Change it after the call, outside of the function. A number may be a tensor, which a program changes in "
        "place: count.add_(1)"
    )

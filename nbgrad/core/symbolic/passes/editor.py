"""``Editor``: makes the values and steps that a pass adds to a listing."""

from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import chain
from typing import Any

import torch

from nbgrad.core.symbolic.ir import Listing, ProgramStep, Value
from nbgrad.core.symbolic.naming import Names
from nbgrad.core.symbolic.passes.forms import Form, Forms, form_of


class Editor:
    """Makes values with numbers, names and memory that no other value of a listing has.

    Attributes:
        forms: the forms of results.
    """

    def __init__(self, listing: Listing) -> None:
        self.forms = Forms()
        self._listing = listing

    def value(self, form: Form, like: Value, *, view_of: Value | None = None) -> Value:
        """A new value, with the device, name and ``gradient_of`` of another one.

        Args:
            form: its shape, strides and type.
            like: the other one.
            view_of: whose memory it shares; None for memory of its own.
        """
        number = self._next["number"] = self._next["number"] + 1
        if view_of is None:
            storage = self._next["storage"] = self._next["storage"] + 1
        else:
            storage = view_of.storage
        name = self._names.fresh(like.name or "value")
        return Value(number, *form, like.device, storage, "result", name, gradient_of=like.gradient_of)

    def constant(self, data: torch.Tensor, name: str) -> Value:
        """A captured value for numbers that are the same in each run."""
        number = self._next["number"] = self._next["number"] + 1
        storage = self._next["storage"] = self._next["storage"] + 1
        form = Form(tuple(data.shape), tuple(data.stride()), data.dtype)
        fresh = self._names.fresh(name)
        return Value(number, *form, data.device, storage, "captured", fresh, data, constant=True)

    def call(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        like: ProgramStep,
        kwargs: dict[str, Any] | None = None,
        *,
        result: Value | None = None,
        view_of: Value | None = None,
    ) -> ProgramStep | None:
        """A step that calls ``function``, with the place, phase and scope of another step.

        Args:
            function: returns one tensor, in memory of its own unless ``view_of`` is given.
            args: its arguments.
            kwargs: its arguments with names.
            like: the step that it stands for.
            result: an earlier value that it makes; default: a new one.
            view_of: the argument whose memory the result shares.

        Returns:
            The step; None if torch refuses the call or the form of ``result`` would be another one.
        """
        kwargs = kwargs or {}
        form = self.forms.of(function, args, kwargs)
        if form is None:
            return None
        if result is None:
            result = self.value(form, like.results()[0], view_of=view_of)
        elif form != form_of(result):
            return None
        made = ProgramStep(function, args, kwargs, result, (), False, like.phase, None, like.place, like.scope)
        made.order = like.order
        return made

    @cached_property
    def _next(self) -> dict[str, int]:
        number = max((value.number for value in self._values()), default=0)
        storage = max((value.storage for value in self._values()), default=0)
        return {"number": number, "storage": max(storage, 0)}

    @cached_property
    def _names(self) -> Names:
        names = Names()
        for value in self._values():
            if value.name:
                names.take(value.name)
        return names

    def _values(self) -> Iterable[Value]:
        listing = self._listing
        made = chain.from_iterable(step.results() for step in listing.steps)
        return chain(listing.inputs, listing.captured, made)

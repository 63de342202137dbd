"""``Program``: a traced function that can be read, transformed, differentiated and run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from os import PathLike
from typing import Any

import torch

from nbgrad.core.backend.below_autograd import below_autograd
from nbgrad.core.engine.node import TensorBase, raw_of
from nbgrad.core.graph.renderer import registered_renderer
from nbgrad.core.structure import first_places, leaves, mapped
from nbgrad.core.symbolic.explanation import explanation
from nbgrad.core.symbolic.fake import storage_of
from nbgrad.core.symbolic.ir import Listing, Value
from nbgrad.core.symbolic.latex import Formulas
from nbgrad.core.symbolic.lines import Level
from nbgrad.core.symbolic.outline import outline
from nbgrad.core.symbolic.passes.optimize import optimized, stages
from nbgrad.core.symbolic.passes.peak import peak_memory
from nbgrad.core.symbolic.passes.rewrite import Note
from nbgrad.core.symbolic.reached import leave_reached, switch_requiring
from nbgrad.core.symbolic.replay import Run, replay
from nbgrad.core.symbolic.source import Source
from nbgrad.core.symbolic.tracing import gradient, spec_of, traced
from nbgrad.core.symbolic.turns import running, tracing
from nbgrad.core.tensor.tensor import Tensor


@dataclass(eq=False, repr=False)
class Program(Listing):
    """A traced function: see ``trace``.

    Attributes:
        function, examples: the traced function, and examples of its arguments.
        notes: the rewrites of the passes, in order.
    """

    function: Callable[..., Any] | None = None
    examples: tuple[Any, ...] = field(default=())
    notes: list[Note] = field(default_factory=list)

    @cached_property
    def run(self) -> Run:
        """The function that runs it on raw tensors: the inputs, then the captured ones."""
        return replay(self)

    def __call__(self, *args: Any) -> Any:
        """Run it.

        Args:
            args: as those of the traced function. Each tensor has the shape and type of the example.

        Returns:
            What the function returns, with tensors that need no gradient.

        Raises:
            TypeError, ValueError: an argument is not like the example.
        """
        with running:
            return self.result_of(self.run, self._given(args), self.captured_data())

    def result_of(self, run: Run, inputs: list[torch.Tensor], captured: list[torch.Tensor]) -> Any:
        """Run the program with ``run`` for the result of the function. An error leaves what the run has reached."""
        made = None
        try:
            made = below_autograd(run, inputs, captured)
            return self.delivered(made)
        except BaseException as error:
            if made is None:
                leave_reached(self, error)
            else:  # an interrupt
                self.delivered(made)
            raise

    def delivered(self, made: list[Any]) -> Any:
        """Make the results of the function from the program's raw outputs, and set ``.grad`` as the function did."""
        outputs = self.outputs
        if self._flat:
            results = type(outputs)([Tensor(one) for one in made[: len(outputs)]])
        else:
            given = iter(made)
            results = mapped(lambda one: Tensor(next(given)) if isinstance(one, Value) else one, outputs)
        if self.gradients:
            gradients = iter(made[len(made) - sum(value is not None for _, value in self.gradients) :])
            for owner, value in self.gradients:
                owner._grad = None if value is None else Tensor(next(gradients))
        if self.events:
            switch_requiring(self.events)
            for owner in self._cleared:
                owner._grad = None
        return results

    @cached_property
    def _cleared(self) -> list[Any]:
        """The tensors that have no ``.grad`` at the end, whatever they had before."""
        last = {id(event.owner): event for event in self.events if event.gradient}
        return [event.owner for event in last.values() if event.value is None]

    @cached_property
    def _flat(self) -> bool:
        """Whether it returns a list or tuple of tensors, which is put together without a walk."""
        return type(self.outputs) in (list, tuple) and all(isinstance(one, Value) for one in self.outputs)

    def captured_data(self) -> list[torch.Tensor]:
        """The data of the captured tensors as they are now.

        Raises:
            ValueError: the shape or type of a parameter has changed since the trace.
        """
        found = []
        for value in self.captured:
            data = value.data if value.owner is None else value.owner._data
            assert data is not None
            if data is not value.data and (tuple(data.shape), data.dtype, data.device) != _kind(value):
                raise ValueError(
                    f"{value.name} was traced as {list(value.shape)} of {value.dtype} on {value.device}, and is now "
                    f"{list(data.shape)} of {data.dtype} on {data.device}: trace the function again"
                )
            found.append(data)
        return found

    def _given(self, args: tuple[Any, ...]) -> list[torch.Tensor]:
        given, asked = list(leaves(args)), list(leaves(self.arguments))
        if len(given) != len(asked):
            raise TypeError(f"{self.name} takes {len(asked)} arguments as traced, got {len(given)}")
        found = []
        for one, value in zip(given, asked, strict=True):
            if not isinstance(value, Value):
                if one is not value and one != value:
                    raise ValueError(f"{self.name} was traced with the constant {value!r}, got {one!r}: trace it again")
                continue
            if not isinstance(one, TensorBase | torch.Tensor):
                raise TypeError(f"{self.name}: {value.name} must be a tensor, got {type(one).__name__}")
            data = raw_of(one)
            if (tuple(data.shape), data.dtype, data.device) != _kind(value):
                raise ValueError(
                    f"{self.name}: {value.name} was traced as {list(value.shape)} of {value.dtype} on {value.device}, "
                    f"got {list(data.shape)} of {data.dtype} on {data.device}: trace it again for that shape"
                )
            found.append(data)
        if self.changes:
            self._check_memory(found)
        return found

    def _check_memory(self, given: list[torch.Tensor]) -> None:
        """Raise an error if the inputs lie in memory in another way than the examples.

        The program changes memory in place: then the result depends on how the inputs lie in memory.
        """
        for value, data in zip(self.inputs, given, strict=True):
            if data.layout is torch.strided and tuple(data.stride()) != value.stride:
                raise ValueError(
                    f"{self.name} changes tensors in place, and {value.name} was traced with the strides "
                    f"{value.stride}, got {tuple(data.stride())}: pass a copy of those strides, or trace it again"
                )
        if self.writes_inputs:
            traced = first_places([one.storage for one in self.inputs])
            if first_places([storage_of(one) for one in given]) != traced:
                raise ValueError(
                    f"{self.name} changes an input in place, and the inputs share memory in another way than the "
                    "examples: pass a copy, or trace it again"
                )

    def grad(self, wrt: Sequence[Any] | None = None, order: int = 1) -> "Program":
        """A program that returns the results of this one, and their gradients.

        Args:
            wrt: the values with respect to which the program is differentiated: positions of tensor arguments, tensors
                that the function uses, or names of values of this program; default: every argument and captured tensor
                that requires a gradient.
            order: how often to differentiate. Orders above 1 return the gradients of each order; that of order n is the
                gradient of the sum of the gradients of order n - 1.

        Returns:
            A program that returns ``(result, gradients)``, or ``(result, gradients, gradients of order 2, ...)``.
        """
        if self.function is None:
            raise RuntimeError(f"program {self.name!r} was transformed: take the gradient of the traced program")
        chosen = self._differentiable() if wrt is None else [self._named(one) for one in wrt]
        if not chosen:
            raise RuntimeError(f"no tensor that {self.name} uses requires a gradient: give wrt, or requires_grad=True")
        with_gradients = gradient(self.function, chosen, order)
        with_gradients.__name__ = f"{self.name}_gradient"
        examples = _requiring(self.examples, {one for one in chosen if isinstance(one, int)})
        return _program(with_gradients, examples)

    def optimize(self, level: str = "exact", *, ordered: bool = False) -> "Program":
        """The program after all passes, up to a fixed point. ``notes`` say what each has done.

        Args:
            level: "exact" changes no digit of any result. "reassociate" also sums in another order, which changes the
                last digits: ``sum(expand x) = n x``, ``sum(x) + sum(y) = sum(x + y)``, factors out of sums, ``x + 0``.
                It updates a parameter as soon as its gradient is there: an error in a run may then leave some
                parameters updated and others not.
            ordered: no such early updates: an error leaves what the function would have reached.

        Raises:
            ValueError: there is no such level.
        """
        passed = optimized(self, level, ordered)
        return replace(passed.listing, notes=[*self.notes, *passed.notes])

    def passes(self, level: str = "exact") -> "list[Program]":
        """The program after each pass of ``optimize`` that has changed something, in order.

        To see one pass: ``after.view(before=before)``, with ``before`` the program in front of it in the list.

        Args:
            level: as in ``optimize``, which returns the last of these programs.

        Raises:
            ValueError: there is no such level.
        """
        found, notes = list[Program](), self.notes
        for passed in stages(self, level):
            notes = [*notes, *passed.notes]
            found.append(replace(passed.listing, notes=notes))
        return found

    def peak_memory(self) -> int:
        """The most bytes that the results of its steps take at the same time, as a run frees each at its last use.

        Arguments, captured tensors and the memory that kernels need inside are not counted.
        """
        return peak_memory(self)

    def draw(self, path: "str | PathLike[str]", *, before: "Program | None" = None) -> None:
        """Write a picture of the program to a file, of a kind that ``AutogradGraph.save`` knows.

        Forward, gradient and optimizer are boxes, with the modules in them.

        Args:
            path: where to write it.
            before: the program before a pass, which is drawn beside this one.
        """
        registered_renderer().save_programs(path, *self._beside(before))

    def view(self, *, before: "Program | None" = None) -> None:
        """Show the program as the output of a notebook cell.

        Steps of the gradient stand beside the op whose gradient they compute. "Steps" goes through the rewrites of the
        passes: the rule, the steps before and after, your line, and how many steps and bytes it saved.

        Args:
            before: the program before a pass, which is drawn beside this one.
        """
        registered_renderer().show_programs(*self._beside(before))

    def _ipython_display_(self) -> None:
        self.view()

    def _mime_(self) -> tuple[str, str]:
        return registered_renderer().frame_programs(("", self))

    def _beside(self, before: "Program | None") -> tuple[tuple[str, "Program"], ...]:
        return (("", self),) if before is None else (("before", before), ("after", self))

    def source(self, level: Level = "ops") -> str:
        """The program as Python code: a module with one function, which computes the same to the last digit.

        The function takes torch tensors: the inputs in order, then by name what ``source_arguments`` has, then the
        settings of optimizers, which have their values as defaults. It changes parameters, buffers and the state of
        optimizers as the program does, and sets ``.grad`` of the torch tensors that it gets.

        Args:
            level: "ops" calls rows of the op table where a row is whole, "torch" calls torch alone.

        Raises:
            ValueError: there is no such level.
        """
        return Source(self, level).text

    def source_arguments(self, level: Level = "ops") -> dict[str, Any]:
        """The arguments of the function in ``source(level)`` besides its inputs, by name: the captured torch tensors.

        They include each function or object that cannot be written as code, such as an optimizer that runs unchanged.
        """
        return Source(self, level).arguments

    def latex(self) -> str:
        r"""The formula of each line with the program's names, as an ``aligned`` environment.

        A gradient has the formula of the rule of its op. Its name is the name of its value with a bar.
        """
        return Formulas(self).text

    def explain(self) -> str:
        """Sentences about the program: its steps, what the gradient needs, what passes left out, what a run changes."""
        return explanation(self, self.notes)

    def __str__(self) -> str:
        return outline(self)

    def __repr__(self) -> str:
        return f"<Program {self.name}: {len(self.inputs)} inputs, {len(self.captured)} captured, {len(self)} steps>"

    def to_fx(self) -> torch.fx.GraphModule:
        """The program as a graph of ``torch.fx``.

        Returns:
            A module that takes the inputs of the program one by one, as tensors of torch, and returns a list of the
            tensors that leave the program: what it returns, then the gradients that it sets. Captured tensors are its
            buffers: the present tensors themselves, not copies. Settings of optimizers are read anew in each run.
        """
        from nbgrad.core.symbolic.exports.fx import to_fx

        return to_fx(self)

    def to_html(self, path: str | PathLike[str], *examples: Any) -> None:
        """Write the program as one page that runs it: change a number of an input or a parameter, and see every step.

        The page needs nothing but a browser. It is for small networks: all numbers stand in it.

        Args:
            path: the file.
            examples: the arguments that the page begins with. Without them they are drawn: normal floats, integers that
                are 0 or 1.

        Raises:
            NotImplementedError: a step cannot be written: it draws random numbers, belongs to the update of an
                optimizer, or has no translation, as cumprod. The message names the operator and the line.
            ValueError: inputs and captured tensors have more than a million numbers.
        """
        from nbgrad.core.symbolic.exports.page import to_html

        to_html(self, path, examples)

    def _differentiable(self) -> list[Any]:
        flat = [one for one in leaves(self.examples) if hasattr(one, "requires_grad")]
        asked: list[Any] = [place for place, one in enumerate(flat) if one.requires_grad]
        return asked + [one.owner for one in self.captured if one.owner is not None and one.owner._needs_grad]

    def _named(self, wanted: Any) -> Any:
        if not isinstance(wanted, str):
            return wanted
        for place, value in enumerate(self.inputs):
            if value.name == wanted:
                return place
        for value in self.captured:
            if value.name == wanted and value.owner is not None:
                return value.owner
        known = ", ".join(value.name for value in (*self.inputs, *self.captured))
        raise ValueError(f"program {self.name!r} has no tensor {wanted!r} to differentiate by: it has {known}")


def trace(function: Callable[..., Any], *examples: Any) -> Program:
    """Trace ``function``: note what it computes, without computing it.

    The function runs once, on tensors without numbers. So it may not ask for numbers: ``if x.sum() > 0``, ``x[x > 0]``
    and ``x.item()`` raise a ``TraceError``. Parameters, buffers and the state of optimizers that it uses are captured:
    the program reads and changes these very tensors. Random ops stay random.

    Args:
        function: takes tensors, and nested lists, tuples and dicts of them; other arguments are constants.
        examples: its arguments: tensors, of nbgrad or of torch, or a ``Spec`` in the place of a tensor.

    Returns:
        The program: call it with tensors of the same shapes.

    Raises:
        TraceError: the function does what a program cannot do.
    """
    return _program(function, examples)


def _program(function: Callable[..., Any], examples: tuple[Any, ...]) -> Program:
    with tracing():
        listing = traced(function, examples).listing
    return Program(**vars(listing), function=function, examples=mapped(spec_of, examples))


def _kind(value: Value) -> tuple[Any, ...]:
    return value.shape, value.dtype, value.device


def _requiring(examples: tuple[Any, ...], places: set[int]) -> tuple[Any, ...]:
    """The examples, of which the tensors at ``places`` require a gradient."""
    numbers = count()

    def change(one: Any) -> Any:
        return replace(one, requires_grad=True) if hasattr(one, "requires_grad") and next(numbers) in places else one

    changed: tuple[Any, ...] = mapped(change, examples)
    return changed

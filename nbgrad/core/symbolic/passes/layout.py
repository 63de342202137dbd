"""Layout: a chain of convolutions computes with channels last, from its beginning to its end."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from nbgrad.core.structure import leaves
from nbgrad.core.symbolic.ir import Listing, ProgramStep, Value
from nbgrad.core.symbolic.passes.editor import Editor
from nbgrad.core.symbolic.passes.forms import ELEMENTWISE, Form, is_elementwise, is_pointwise
from nbgrad.core.symbolic.passes.rewrite import L, Memory, Note, Passed, note, storages

WORTH = 2.0
"""The copies that the pass removes must have this many times the bytes of those that it adds at the ends of a chain."""

_IMAGES = 4
_COPIES = ("contiguous", "clone")
_POOLS = ("max_pool2d", "max_pool2d_with_indices")


def channels_last(listing: L) -> Passed[L]:
    """Keep the images between convolutions in memory with the channels of a place side by side.

    On the processor oneDNN computes a convolution like that. It copies images that lie otherwise, before and after each
    one. Max pooling, batch norms and elementwise steps compute in either order, so an image is copied only where a
    chain of such steps begins and ends. Every result of the program has the strides that it had. The last digits
    change: a convolution adds up in another order.

    Nothing is rewritten unless the removed copies have at least twice the bytes of the added ones. For a convolution,
    the copies of its input and its output images count.
    """
    if not any(step.name in _CONVOLUTIONS for step in listing.steps) or not torch._C._get_mkldnn_enabled():
        return Passed(listing, [])
    return _Layout(listing).passed()


def strides_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of images of this shape with channels last."""
    _, channels, height, width = shape
    return (height * width * channels, 1, width * channels, channels)


@dataclass(frozen=True)
class _Scattered:
    """The gradient of a max pooling, as five steps write it: numbers are added at the places of the largest ones.

    Attributes:
        steps: in order; the last one makes the gradient.
        gradient, indices: the numbers to add, and their places.
        pool: the step of the pooling.
    """

    steps: list[ProgramStep]
    gradient: Value
    indices: Value
    pool: ProgramStep


class _Layout:
    """One pass over a listing.

    An image may have a twin: the same numbers with channels last. A step that can compute with twins does so, and then
    the image itself is not there until some other step needs it.
    """

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._written = Memory(listing).written
        self._leaving = storages(listing.kept())
        self._editor = Editor(listing)
        self._made = {id(value): step for step in listing.steps for value in step.results()}
        self._twins: dict[int, Value] = {}
        self._missing: set[int] = set()
        self._steps: list[ProgramStep] = []
        self._notes: list[Note] = []
        self._saved = self._added = self._computed = 0
        self._scattered = self._gradients_of_pools()
        self._waiting = {id(step) for one in self._scattered.values() for step in one.steps[:-1]}
        self._written -= {one.steps[-1].result.storage for one in self._scattered.values()}  # only these steps write it

    def passed(self) -> Passed[Any]:
        """The result of the pass."""
        for step in self._listing.steps:
            if id(step) in self._waiting:
                continue
            scattered = self._scattered.get(id(step))
            if scattered is not None:
                if not self._pool_backward(scattered):
                    for one in scattered.steps:
                        self._keep(one)
            elif not self._rewritten(step):
                self._keep(step)
        last = self._listing.steps[-1]
        for value in self._listing.kept():
            self._need(value, last)
        if not self._computed or self._added * WORTH > self._saved:
            return Passed(self._listing, [])
        return Passed(self._listing.with_steps(self._steps), self._notes)

    # ------------------------------------------------------------------------------------------- images and twins

    def _is_image(self, value: Any) -> bool:
        return (
            isinstance(value, Value)
            and len(value.shape) == _IMAGES
            and value.stride is not None
            and value.device.type == "cpu"
            and value.numel > 0
            and value.storage not in self._written
        )

    def _twin(self, value: Any) -> Value | None:
        """The twin of an image, if there is one. An image that has channels last is its own."""
        if not self._is_image(value):
            return None
        known = self._twins.get(id(value))
        if known is None and _has_channels_last(value):
            return value  # type: ignore[no-any-return]  # it is an image
        return known

    def _converted(self, value: Any, step: ProgramStep) -> Value | None:
        """The twin of an image, which is made for ``step`` if need be."""
        twin = self._twin(value)
        if twin is not None or not self._is_image(value):
            return twin
        form = Form(value.shape, strides_of(value.shape), value.dtype)
        if _is_either(value):  # one channel, or one place: it lies both ways, and a convolution goes by the strides
            twin = self._editor.value(form, value, view_of=value)
            call: tuple[Any, Any, Any] = (torch.as_strided, (value, value.shape, form.stride), {})
        else:
            twin = self._editor.value(form, value)
            call = (torch.Tensor.contiguous, (value,), {"memory_format": torch.channels_last})
            self._added += value.nbytes
        self._append(call, twin, step)
        self._twins[id(value)] = twin
        return twin

    def _result(self, value: Value) -> Value:
        """The result of a step in another layout, its twin."""
        if _has_channels_last(value):
            return value
        form = Form(value.shape, strides_of(value.shape), value.dtype)
        twin = self._twins[id(value)] = self._editor.value(form, value)
        self._missing.add(id(value))
        return twin

    def _need(self, value: Value, step: ProgramStep) -> None:
        """Let an image be there for ``step`` as it was before the pass."""
        if id(value) not in self._missing:
            return
        self._missing.discard(id(value))
        self._added += value.nbytes
        last = _has_channels_last(value)
        kept = torch.channels_last if last else torch.contiguous_format
        function = torch.clone if value.storage in self._leaving or last else torch.Tensor.contiguous
        self._append((function, (self._twins[id(value)],), {"memory_format": kept}), value, step)

    def _append(self, call: tuple[Any, Any, Any], result: Value, step: ProgramStep) -> None:
        """Append a step that copies an image for another step."""
        function, args, kwargs = call
        made = ProgramStep(function, args, kwargs, result, (), False, step.phase, None, step.place, step.scope)
        made.order = step.order
        self._steps.append(made)
        self._notes.append(note("channels last", step, [made], -1))

    # ------------------------------------------------------------------------------------------------------ steps

    def _keep(self, step: ProgramStep) -> None:
        """Append a step as it is."""
        for value in (*step.inputs(), *step.writes):
            self._need(value, step)
        row = step.row
        if row is not None and any(id(one) in self._missing for one in leaves((row.args, row.settings))):
            step = replace(step, row=None)  # a call of the row would name values that do not exist
        self._steps.append(step)

    def _rewritten(self, step: ProgramStep) -> bool:
        """Let a step compute with twins, if it can and an image among its arguments has one."""
        name = step.name
        if step.random or (step.writes and name != "native_batch_norm"):
            return False
        rule = _RULES.get(name)
        if rule is not None:
            return rule(self, step)
        return (is_pointwise(name) or is_elementwise(step, ELEMENTWISE)) and self._elementwise(step)

    def _compute(
        self, step: ProgramStep, given: dict[int, Value], images: tuple[int, ...], results: Any = None
    ) -> bool:
        """Append a step with twins as arguments.

        Args:
            step: as it was.
            given: for the places of arguments their twins.
            images: which of its results become twins.
            results: what it gives in the place of several results, if that is not what it gave.
        """
        given_results = step.result if results is None else results
        args = tuple(given.get(place, one) for place, one in enumerate(step.args))
        for value in (one for one in leaves((args, step.kwargs)) if isinstance(one, Value)):
            self._need(value, step)
        if isinstance(step.result, Value):
            result: Any = self._result(step.result)
        else:
            result = type(step.result)(
                self._result(one) if place in images and isinstance(one, Value) else one
                for place, one in enumerate(given_results)
            )
        if all(one is other for one, other in zip(args, step.args, strict=True)) and result == step.result:
            self._steps.append(step)
            return True
        made = replace(step, args=args, result=result, row=None)
        self._computed += 1
        self._steps.append(made)
        self._notes.append(note("channels last", step, [made], 0))
        return True

    def _convolution(self, step: ProgramStep) -> bool:
        image, made = step.args[0], step.result
        if not self._is_image(image) or not isinstance(made, Value) or made.dtype is not torch.float32:
            return False
        if _skips_places(step):
            return False
        twin = self._converted(image, step)
        assert twin is not None
        self._saved += image.nbytes + made.nbytes
        return self._compute(step, {0: twin}, ())

    def _convolution_backward(self, step: ProgramStep) -> bool:
        gradient, image, weight = step.args[:3]
        if not self._is_image(gradient) or not self._is_image(image) or gradient.dtype is not torch.float32:
            return False
        if _skips_places(step):
            return False
        given = {0: self._converted(gradient, step), 1: self._converted(image, step)}
        twins = {place: one for place, one in given.items() if one is not None}
        self._saved += gradient.nbytes + image.nbytes * (1 + isinstance(step.result[0], Value))
        of_weight = step.result[1]
        if not isinstance(of_weight, Value) or _has_channels_last(of_weight):
            return self._compute(step, twins, (0,))
        form = Form(of_weight.shape, strides_of(of_weight.shape), of_weight.dtype)
        raw = self._editor.value(form, weight)  # it lies as the images do, and the gradient as the weight
        parts = list(step.result)
        parts[1] = raw
        self._compute(step, twins, (0,), type(step.result)(parts))
        function = torch.clone if of_weight.storage in self._leaving else torch.Tensor.contiguous
        self._append((function, (raw,), {"memory_format": torch.contiguous_format}), of_weight, step)
        return True

    def _pool(self, step: ProgramStep) -> bool:
        twin = self._twin(step.args[0])
        return twin is not None and not step.kwargs and self._compute(step, {0: twin}, (0, 1))

    def _batch_norm(self, step: ProgramStep) -> bool:
        twin = self._twin(step.args[0])
        return twin is not None and self._compute(step, {0: twin}, (0,))

    def _batch_norm_backward(self, step: ProgramStep) -> bool:
        gradient, image = self._twin(step.args[0]), self._twin(step.args[1])
        if gradient is None or image is None:
            return False
        return self._compute(step, {0: gradient, 1: image}, (0,))

    def _copy(self, step: ProgramStep) -> bool:
        """A copy that lies otherwise has the same twin. It is made where it is needed."""
        made = step.result
        twin = self._twin(step.args[0]) if step.args else None
        if twin is None or not isinstance(made, Value) or not self._is_image(made) or made is step.args[0]:
            return False
        self._twins[id(made)] = twin
        self._missing.add(id(made))
        self._saved += made.nbytes
        self._notes.append(note("channels last", step, [twin]))
        return True

    def _elementwise(self, step: ProgramStep) -> bool:
        """A step that computes each number from those at the same place."""
        made = step.result
        if not self._is_image(made) or any(isinstance(one, Value) for one in leaves(step.kwargs)):
            return False
        twins: dict[int, Value] = {}
        for place, one in enumerate(step.args):
            if not isinstance(one, Value) or one.numel == 1:
                continue
            if one.shape != made.shape:
                if one.numel != made.shape[1]:
                    return False
                continue
            twin = self._twin(one)
            if twin is None:
                return False
            twins[place] = twin
        return bool(twins) and self._compute(step, twins, ())

    # ------------------------------------------------------------------------------------------ gradients of pools

    def _gradients_of_pools(self) -> dict[int, _Scattered]:
        """The gradients of poolings, each by the identity of its last step."""
        uses = Counter(id(value) for step in self._listing.steps for value in step.inputs())
        uses.update(id(value) for value in self._listing.kept())
        views = {id(step.args[0]): step for step in self._listing.steps if step.name == "reshape" and step.args}
        found = {}
        for step in self._listing.steps:
            if step.name == "scatter_add_" and len(step.args) == _IMAGES and not step.kwargs:
                scattered = self._scattered_by(step, uses, views)
                if scattered is not None:
                    found[id(scattered.steps[-1])] = scattered
        return found

    def _scattered_by(self, step: ProgramStep, uses: Counter[int], views: dict[int, ProgramStep]) -> _Scattered | None:
        zeros, _, places, numbers = step.args
        makers = [self._made.get(id(one)) for one in (zeros, places, numbers)]
        last = views.get(id(zeros))
        if last is None or uses[id(zeros)] != 2 or uses[id(places)] != 1 or uses[id(numbers)] != 1:
            return None
        if any(one is None for one in makers) or [one.name for one in makers if one] != ["new_zeros", *["reshape"] * 2]:
            return None
        of_zeros, of_places, of_numbers = (one for one in makers if one is not None)
        indices, gradient = of_places.args[0], of_numbers.args[0]
        source = self._made.get(id(indices))
        while source is not None and source.name in _COPIES:
            indices = source.args[0]
            source = self._made.get(id(indices))
        if source is None or source.name != "max_pool2d_with_indices" or source.result[1] is not indices:
            return None
        if last.result.shape != source.args[0].shape or gradient.shape != indices.shape or source.kwargs:
            return None
        return _Scattered([of_zeros, of_places, of_numbers, step, last], gradient, indices, source)

    def _pool_backward(self, one: _Scattered) -> bool:
        """The gradient of a pooling by torch's own function, which takes images with channels last as they are."""
        image, indices = self._twin(one.pool.args[0]), self._twin(one.indices)
        if image is None or indices is None or not self._is_image(one.gradient):
            return False
        if not _lies_one_way(image) or not _lies_one_way(indices):
            return False
        last = one.steps[-1]
        gradient = self._converted(one.gradient, last)
        assert gradient is not None
        kernel, stride, padding, dilation, ceil = one.pool.args[1:]
        sizes = [[size] * 2 if type(size) is int else list(size) for size in (kernel, stride, padding, dilation)]
        args = (gradient, image, *sizes, ceil, indices)
        function = torch.ops.aten.max_pool2d_with_indices_backward.default
        for value in (gradient, image, indices):
            self._need(value, last)
        made = replace(last, function=function, args=args, kwargs={}, result=self._result(last.result), row=None)
        self._computed += 1
        self._steps.append(made)
        self._notes.append(note("channels last", last, [made], len(one.steps) - 1))
        self._saved += last.result.nbytes
        return True


_CONVOLUTIONS = ("conv2d", "convolution")

_RULES: dict[str, Callable[[_Layout, ProgramStep], bool]] = {
    **dict.fromkeys(_CONVOLUTIONS, _Layout._convolution),
    **dict.fromkeys(_POOLS, _Layout._pool),
    **dict.fromkeys(_COPIES, _Layout._copy),
    "convolution_backward": _Layout._convolution_backward,
    "native_batch_norm": _Layout._batch_norm,
    "native_batch_norm_backward": _Layout._batch_norm_backward,
}


def _is_either(value: Value) -> bool:
    """Whether contiguous images lie with channels last too: there is one channel, or one place."""
    _, channels, height, width = value.shape
    contiguous = (channels * height * width, height * width, width, 1)
    return value.stride == contiguous and (channels == 1 or height * width == 1)


def _has_channels_last(value: Value) -> bool:
    """Whether images have channels last by their strides."""
    return value.stride == strides_of(value.shape)


def _lies_one_way(value: Value) -> bool:
    """Whether images have several channels and places, so that torch tells by the strides how they lie."""
    _, channels, height, width = value.shape
    return channels > 1 and height * width > 1


def _skips_places(step: ProgramStep) -> bool:
    """Whether a convolution or its backward reads some places alone: one place at a time, with a stride.

    With channels last, oneDNN's gradient for the weight of such a convolution writes outside of its memory if there are
    fewer than 8 channels.
    """
    backward = step.name == "convolution_backward"
    weight = step.args[2 if backward else 1]
    strides = leaves(step.args[4 if backward else 3 : 5 if backward else 4])
    return bool(set(weight.shape[2:]) == {1} and set(strides) != {1})

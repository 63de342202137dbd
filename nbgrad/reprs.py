"""The display of a tensor, a module or a reduction as the last expression of a cell: HTML with pictures in it.

The HTML needs no script, loads nothing, takes its colours from the page, and is the same for the same numbers. In
terminals, and wherever no HTML is shown, the object appears as the text of ``repr``.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

from nbgrad.core.engine.broadcast import Reduction
from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.graph.stats import summarise
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.core.translation import translate
from nbgrad.nn.module.module import Module, children_of
from nbgrad.nn.parameter import Parameter, Uninitialized
from nbgrad.widgets.description.format import counted, shape_text
from nbgrad.widgets.description.schema import Look
from nbgrad.widgets.description.tensor_summary import look
from nbgrad.widgets.description.text_metrics import clip, text_width

_LARGE = 1 << 22
"""Tensors with more elements than this are not read to be displayed."""

_OPEN = 40
"""In a module with more modules than this, only the first level is unfolded."""

_LEVELS = 12  # steps of the heat map on each side of zero
_ABOVE, _BELOW, _SUMMED = "#d55e00", "#0072b2", "#e69f00"  # told apart in colour blindness, on light and on dark
_FAINT = {"stroke": "currentColor", "stroke-opacity": "0.25"}


# Tensors.


def tensor_html(tensor: Tensor) -> str:
    """Shape, element type and statistics, with a heat map of a small tensor or a histogram of a larger one."""
    if isinstance(tensor, Uninitialized):
        return _html(_card("tensor", type(tensor).__name__, translate("its shape is not known yet")))
    words = [dtype_name(tensor.dtype), *([] if tensor.device.type == "cpu" else [str(tensor.device)])]
    if tensor.grad_fn is not None:
        words.append(translate("result of {name}", name=clip(tensor.grad_fn.op.name, 60)))
    elif tensor.requires_grad:
        words.append("requires_grad")
    title = [type(tensor).__name__, *([clip(str(tensor.name), 60)] if tensor.name else []), shape_text(tensor.shape)]
    card = _card("tensor", " ".join(title), ", ".join(words))
    if tensor.numel() == 0 or tensor.data.is_meta:
        return _html(card)
    if tensor.numel() > _LARGE:
        SubElement(card, "div").text = translate(
            "{numel:,} elements, too many to look at each of them here", numel=tensor.numel()
        )
        return _html(card)
    shown = look(summarise(tensor.data, exact=True))
    if shown["levels"]:
        card.append(_heat_map(shown))
    elif shown["bars"]:
        card.append(_histogram(shown))
    SubElement(card, "div", style="white-space:pre-line;opacity:0.8").text = shown["facts"]
    return _html(card)


def _heat_map(shown: Look) -> Element:
    """A cell for each element: orange above zero, blue below, stronger further from it; the numbers where they fit."""
    columns, cells = shown["columns"], shown["cells"]
    rows = len(shown["levels"]) // columns
    width = max(text_width(cell, 11) + 8 for cell in cells) if cells else max(2.0, min(12.0, 480 / columns))
    height = 20.0 if cells else width
    drawing = _svg(columns * width, rows * height, translate("heat map, {shown}", shown=shown["facts"]))
    for at, level in enumerate(shown["levels"]):
        x, y = at % columns * width, at // columns * height
        SubElement(drawing, "rect", {"x": _n(x), "y": _n(y), "width": _n(width), "height": _n(height), **_shade(level)})
        if cells:
            words = SubElement(drawing, "text", {"x": _n(x + width / 2), "y": _n(y + 14), **_LETTERS})
            # An untrusted notebook shows the text alone, where two numbers side by side would read as one.
            words.text, words.tail = cells[at], " "
    return drawing


_LETTERS = {"font-size": "11", "fill": "currentColor", "text-anchor": "middle"}


def _shade(level: str) -> dict[str, str]:
    """The look of a cell. NaN and Inf have a dashed outline, which readers see without colour too."""
    if level in "ni":
        return {"fill": "none", "stroke": "currentColor", "stroke-dasharray": "2 2"}
    step = ord(level) - ord("A") - _LEVELS
    return {"fill": _ABOVE if step > 0 else _BELOW, "fill-opacity": _n(0.7 * abs(step) / _LEVELS), **_FAINT}


def _histogram(shown: Look) -> Element:
    bars = shown["bars"]
    drawing = _svg(len(bars) * 12.0, 66.0, translate("histogram, {shown}", shown=shown["facts"]))
    for at, percent in enumerate(bars):
        place = {"x": _n(at * 12), "y": _n(50 - percent / 2), "width": "11", "height": _n(percent / 2)}
        SubElement(drawing, "rect", {**place, "fill": "currentColor", "fill-opacity": "0.6"})
    for x, anchor, text in ((0.0, "start", shown["low"]), (len(bars) * 12.0, "end", shown["high"])):
        SubElement(drawing, "text", {**_LETTERS, "x": _n(x), "y": "63", "text-anchor": anchor}).text = text
    return drawing


# Modules.


def module_html(module: Module) -> str:
    """The tree of modules, each with its settings, the shapes of its tensors and how many numbers it learns."""
    inside = _Inside(module)
    card = Element("div", {"class": "nbgrad-module", "style": _STYLE})
    places: dict[Module, Element] = {}
    for name, one, above in inside.rows:
        parent = card if above is None else places[above]
        places[one] = SubElement(parent, "details", {"style": "margin-left:1.2em"} if above is not None else {})
        if len(inside.rows) <= _OPEN or above is None:
            places[one].set("open", "")
        _describe(places[one], name, one, inside.count(one))
        if more := inside.left_out.get(one):
            row = SubElement(places[one], "div", style="margin-left:2.2em;opacity:0.9")
            row.text = translate(
                "… {modules} more inside, nested deeper than {NESTED} levels",
                modules=counted(more, "module"),
                NESTED=_NESTED,
            )
    return _html(card)


_NESTED = 128
"""Modules nested deeper are counted: no browser shows more boxes in boxes than a few hundred."""


class _Inside:
    """The modules inside a module. A shared module comes once, at its first place.

    Attributes:
        rows: those that are shown: the name of each, itself, and the one that it is in.
        left_out: by the deepest modules that are shown, how many modules below them are not shown.
    """

    def __init__(self, module: Module) -> None:
        self.rows: list[tuple[str, Module, Module | None]] = []
        self.left_out: Counter[Module] = Counter()
        self._counts: dict[Module, int] = {}
        order, seen = list[tuple[Module, Module | None]](), set[Module]()
        met, tensors = 0, Counter[Parameter]()
        waiting: list[tuple[str, Module, Module | None, int, Module | None]] = [("", module, None, 1, None)]
        while waiting:
            name, one, above, depth, shown = waiting.pop()
            met += 1
            if one in seen:
                continue
            seen.add(one)
            order.append((one, above))
            tensors.update(one.parameters(recurse=False))
            if shown is None:
                self.rows.append((name, one, above))
            else:
                self.left_out[shown] += 1
            deepest = one if shown is None and depth == _NESTED else shown
            children = children_of(one)
            waiting += [(called, child, one, depth + 1, deepest) for called, child in reversed(children)]
        if met == len(order) and max(tensors.values(), default=1) == 1:  # nothing is shared: each is counted once
            for one, above in reversed(order):
                own = sum(_sizes(one.parameters(recurse=False)))
                self._counts[one] = self._counts.get(one, 0) + own
                if above is not None:
                    self._counts[above] = self._counts.get(above, 0) + self._counts[one]

    def count(self, module: Module) -> int:
        """How many numbers it learns."""
        known = self._counts.get(module)
        return sum(_sizes(module.parameters())) if known is None else known


def _sizes(parameters: Iterable[Parameter]) -> Iterator[int]:
    return (one.numel() for one in parameters if not isinstance(one, Uninitialized))


def _describe(place: Element, name: str, module: Module, count: int) -> None:
    """The line of a module that learns ``count`` numbers, and one for each tensor of its own."""
    kind = type(module).__name__
    line = SubElement(place, "summary")
    SubElement(line, "b").text = clip(f"{name} ({kind})" if name else kind, 120)
    if settings := clip(module.extra_repr(), 160):
        SubElement(line, "span", style="opacity:0.75").text = f" {settings}"
    SubElement(line, "span").text = f" {counted(count, 'parameter')}" if count else ""
    for called, tensor in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
        row = SubElement(place, "div", style="margin-left:2.2em;opacity:0.9")
        row.text = f"{clip(called, 60)} {_tensor_line(tensor)}"


def _tensor_line(tensor: Tensor) -> str:
    if isinstance(tensor, Uninitialized):
        return translate("of a shape that the first call makes known")
    kind = "" if tensor.requires_grad else translate(", frozen" if isinstance(tensor, Parameter) else ", buffer")
    return f"{shape_text(tensor.shape)} {dtype_name(tensor.dtype)}, {tensor.numel():,}{kind}"


# Reductions.


def reduction_html(reduction: Reduction) -> str:
    """The dimensions of the summed tensor, with the summed ones filled, and the shape that is left."""
    card = _card(
        "reduction",
        str(reduction),
        translate("adds {numbers} for each one that is kept", numbers=counted(reduction.terms, "number")),
    )
    lead = len(reduction.source) - len(reduction.target)
    widths = [max(28.0, text_width(str(size), 11) + 14) for size in reduction.source]
    drawing = _svg(sum(widths) + 1, 66.0, str(reduction))
    x = 0.5
    for dim, (size, width) in enumerate(zip(reduction.source, widths, strict=True)):
        summed = dim in reduction.dims
        fill = {"fill": _SUMMED, "fill-opacity": "0.6"} if summed else {"fill": "none"}
        left = reduction.target[dim - lead] if dim >= lead else None
        _dim(drawing, (x, 0.5, width), str(size), fill)
        sign = SubElement(drawing, "text", {**_LETTERS, "x": _n(x + width / 2), "y": "38"})
        sign.text, sign.tail = "Σ" if summed else "↓", " "
        if left is not None:
            _dim(drawing, (x, 45.5, width), str(left), {"fill": "none"})
        x += width
    card.append(drawing)
    return _html(card)


def _dim(drawing: Element, place: tuple[float, float, float], text: str, fill: dict[str, str]) -> None:
    x, y, width = place
    size = {"x": _n(x), "y": _n(y), "width": _n(width), "height": "20", "stroke": "currentColor"}
    SubElement(drawing, "rect", {**size, **fill})
    words = SubElement(drawing, "text", {**_LETTERS, "x": _n(x + width / 2), "y": _n(y + 14)})
    words.text, words.tail = text, " "


# Shared parts. Every text goes into an element, which is where it is escaped.

_STYLE = "display:inline-block;max-width:100%;overflow:auto;font-family:sans-serif;font-size:12px;line-height:1.5"


def _card(kind: str, title: str, words: str) -> Element:
    card = Element("div", {"class": f"nbgrad-{kind}", "style": _STYLE})
    line = SubElement(card, "div")
    SubElement(line, "b").text = title
    SubElement(line, "span", style="opacity:0.8").text = f" {words}"
    return card


def _svg(width: float, height: float, label: str) -> Element:
    size = {"width": _n(width), "height": _n(height), "viewBox": f"0 0 {_n(width)} {_n(height)}"}
    return Element("svg", {**size, "role": "img", "aria-label": " ".join(label.split()), "style": "display:block"})


def _n(value: float) -> str:
    return f"{value:.3g}" if value < 1 else f"{value:.1f}".removesuffix(".0")


def _html(element: Element) -> str:
    return tostring(element, encoding="unicode", method="html")


RICH: dict[type, Callable[[Any], str]] = {Tensor: tensor_html, Module: module_html, Reduction: reduction_html}
"""The types that IPython shows as HTML."""

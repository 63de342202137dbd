"""A program as a page that runs it: ``kernels.ts`` is the interpreter, this module writes what it interprets."""

import json
import os
from collections.abc import Sequence
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import fx

from nbgrad.core.files import replace_file
from nbgrad.core.symbolic.exports.core_operators import (
    Lowered,
    captured_data,
    drawn,
    in_order,
    lowered,
    output_names,
    raw_tensors,
    untranslated,
)
from nbgrad.core.symbolic.ir import Listing, ProgramStep


def kernels() -> str:
    """The script that runs a described program in a browser."""
    return Path(__file__).with_name("kernels.js").read_text(encoding="utf-8")


OPERATORS = frozenset(kernels().partition("\n")[0].removeprefix("// ").split())
"""The operators that ``kernels.js`` knows: its first line names them."""

_DTYPES = {torch.float32, torch.float64, torch.int64, torch.int32, torch.bool}

LIMIT = 1_000_000
"""How many numbers inputs and captured tensors may have: all of them stand in the page."""

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }}
h3 {{ font: inherit; margin: .8rem 0 .2rem; }}
pre, textarea, summary {{ font: 13px/1.4 ui-monospace, monospace; margin: 0; overflow: auto; white-space: pre; }}
textarea {{ box-sizing: border-box; height: 6rem; width: 100%; }}
.trouble {{ color: #b00020; min-height: 1.4em; }}
</style>
<main></main>
<script type="application/json" id="program">{program}</script>
<script type="module">{script}</script>
</html>
"""


def to_html(listing: Listing, path: str | os.PathLike[str], examples: Sequence[Any]) -> None:
    """Write a program as a page: see ``Program.to_html``."""
    text = json.dumps(described_program(listing, examples), allow_nan=False).replace("<", "\\u003c")
    script = f"{kernels()}\n{Path(__file__).with_name('page.js').read_text(encoding='utf-8')}"
    page = _PAGE.format(title=escape(listing.name), program=text, script=script)

    def write(file: Path) -> None:
        file.write_text(page, encoding="utf-8")

    replace_file(path, write)


def described_program(listing: Listing, examples: Sequence[Any], *, steps: bool = True) -> dict[str, Any]:
    """A program as ``kernels.ts`` takes it; without ``steps`` only what it returns is told."""
    values = [*listing.inputs, *listing.captured]
    count = sum(value.numel for value in values)
    if count > LIMIT:
        raise ValueError(
            f"a page holds {LIMIT} numbers at most, and {listing.name} takes {count}: pages are for small networks"
        )
    form = lowered(listing, every=steps)
    inputs = raw_tensors(examples) if examples else drawn(listing)
    data = [*inputs, *captured_data(listing)]
    given = [{"name": value.name, **_kind(one), "data": _numbers(one)} for value, one in zip(values, data, strict=True)]
    places: dict[fx.Node, int] = {}
    nodes: list[dict[str, Any]] = []
    for node in form.module.graph.nodes:
        if node.op == "output":
            return {"name": listing.name, "given": given, "nodes": nodes, **_outputs(form, node.args[0], places)}
        if node.op == "get_attr":
            constant = getattr(form.module, str(node.target))
            nodes.append({"op": "constant", "kind": {**_kind(constant), "data": _numbers(constant)}})
        if node.op == "call_function":
            nodes.append(_node(form, node, places))
        places[node] = len(places)
    raise AssertionError("a graph ends with its output")


def _node(form: Lowered, node: fx.Node, places: dict[fx.Node, int]) -> dict[str, Any]:
    target: Any = node.target
    step = form.step_of(node)
    if not hasattr(target, "_schema"):
        return {"op": "getitem", "of": [places[node.args[0]], node.args[1]]}  # type: ignore[index]
    name = target.name().partition("::")[2].partition(".")[0]
    name = {"bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_not": "logical_not"}.get(name, name)
    # torch's own decompositions, such as that of linear, have squeeze_.
    if name == "squeeze_" and len(node.args[0].users) == 1:  # type: ignore[union-attr]  # the difference cannot be seen
        name = "squeeze"
    args = in_order(node)
    if name == "arange":
        made = torch.arange(*args[:3], dtype=node.meta["val"].dtype)
        return {"op": "constant", "kind": {**_kind(made), "data": _numbers(made)}}
    reason = _refusal(name, target, node, args)
    if reason:
        raise untranslated(step, reason)
    made = node.meta["val"]
    kinds = [one if one is None else _kind(one) for one in made] if isinstance(made, list | tuple) else _kind(made)
    return {"op": name, "kind": kinds, "args": [_part(one, places) for one in args]}


def _refusal(name: str, target: Any, node: fx.Node, args: list[Any]) -> str | None:
    """Why an operator cannot be written; None if it can."""
    if name not in OPERATORS:
        return f"the operator {target} has no translation"
    made = node.meta["val"]
    for one in made if isinstance(made, list | tuple) else [made]:
        if one is not None and one.dtype not in _DTYPES:
            return f"{one.dtype} cannot be written to a page"
        if (name.startswith("logical") and one.dtype is not torch.bool) or target._overloadname == "dtype":
            return "an op on the bits of numbers has no translation"
    if name in ("index", "index_put"):
        given = [one for one in args[1] if one is not None]
        placed = name == "index" or args[1][0] is not None
        if len(given) != 1 or not placed or given[0].meta["val"].dtype is torch.bool:
            return "an index of several tensors, or of a mask, has no translation"
    if name == "round" and len(args) > 1 and args[1]:
        return "only whole numbers can be rounded to"
    return None


def _outputs(form: Lowered, nodes: Any, places: dict[fx.Node, int]) -> dict[str, Any]:
    names = output_names(form)
    found = [{"v": places[one], "kind": _kind(one.meta["val"])} for one in nodes]
    results = [{"name": name, **one} for name, one in zip(names, found, strict=False)]
    rest = iter(found[len(names) :])
    steps = []
    for step in form.listing.steps if found[len(names) :] else ():
        made = [{"name": value.name, **next(rest)} for value in step.results()]
        steps.append({"code": str(step), "line": _line(step), "made": made})
    return {"results": results, "steps": steps}


def _line(step: ProgramStep) -> str:
    return str(step.place) if step.place else ""


def _kind(one: torch.Tensor) -> dict[str, Any]:
    if one.dtype not in _DTYPES:
        raise untranslated(None, f"{one.dtype} cannot be written to a page")
    return {"shape": list(one.shape), "dtype": str(one.dtype).removeprefix("torch.")}


def _numbers(one: torch.Tensor) -> list[Any]:
    return [_number(each) for each in one.detach().cpu().reshape(-1).tolist()]


def _number(given: Any) -> Any:
    return given if not isinstance(given, float) or isfinite(given) else repr(given)


def _part(given: Any, places: dict[fx.Node, int]) -> Any:
    if isinstance(given, fx.Node):
        return {"v": places[given]}
    if isinstance(given, list | tuple):
        return [_part(one, places) for one in given]
    if isinstance(given, float) and not isfinite(given):
        return {"n": repr(given)}
    return given if given is None or isinstance(given, bool | int | float | str) else str(given)

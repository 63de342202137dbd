"""The pages of the API reference: which public names there are, and where each is described."""

import ast
import inspect
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from tools.site.pages import Site


class Part(NamedTuple):
    """A group of names on a page: its title, its module, and its names. Without names it has all public names."""

    title: str
    module: str
    names: tuple[str, ...] = ()


PAGES: dict[str, tuple[str, tuple[Part, ...]]] = {
    "nbgrad": (
        "nbgrad",
        (
            Part("Tensors", "nbgrad", ("Tensor", "tensor", "from_numpy", "from_dlpack")),
            Part("Gradients", "nbgrad", ("backward", "grad", "jacobian", "hessian", "vjp", "jvp", "hvp", "vhp")),
            Part(
                "What is recorded",
                "nbgrad",
                (
                    "no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "is_grad_enabled",
                    "is_inference_mode_enabled", "checkpoint", "autocast", "scope",
                ),
            ),
            Part(
                "Pictures",
                "nbgrad",
                ("record", "watch", "watched", "load", "compare", "draw", "AutogradGraph", "Finding"),
            ),
            Part(
                "Checks",
                "nbgrad",
                (
                    "gradcheck", "gradgradcheck", "GradcheckError", "detect_anomaly", "AnomalyError",
                    "strict_broadcast", "BroadcastError", "compiled",
                ),
            ),
            Part("Ops of your own", "nbgrad", ("Function", "once_differentiable", "op")),
            Part("Programs", "nbgrad", ("trace", "compile")),
            Part("Models", "nbgrad", ("from_torch", "save_safetensors", "load_safetensors")),
            Part("The notebook", "nbgrad", ("load_ipython_extension", "unload_ipython_extension")),
        ),
    ),
    "nn": (
        "nbgrad.nn",
        (
            Part("Layers", "nbgrad.nn"),
            Part("nbgrad.nn.utils", "nbgrad.nn.utils"),
            Part("nbgrad.nn.parallel", "nbgrad.nn.parallel"),
        ),
    ),
    "optim": (
        "nbgrad.optim",
        (Part("Optimizers", "nbgrad.optim"), Part("nbgrad.optim.swa_utils", "nbgrad.optim.swa_utils")),
    ),
    "graph": (
        "The graph object",
        (
            Part("Records", "nbgrad.core.graph.record", ("Record", "Input", "Failure")),
            Part("The last backward", "nbgrad.core.graph.last_backward", ("Frame",)),
            Part("History", "nbgrad.core.graph.history", ("History", "HistoryFrame")),
            Part("Answers", "nbgrad.core.graph.answers", ("Answer",)),
        ),
    ),
    "drawing": ("nbgrad.drawing", (Part("Graphs of other engines", "nbgrad.drawing"),)),
    "symbolic": ("nbgrad.symbolic", (Part("Programs", "nbgrad.symbolic"),)),
    "lab": ("nbgrad.lab", (Part("Exercises", "nbgrad.lab"), Part("nbgrad.testing", "nbgrad.testing"))),
    "extend": ("nbgrad.extend", (Part("Ops of your own", "nbgrad.extend"),)),
    "autograd": (
        "nbgrad.autograd, func, amp",
        (
            Part("nbgrad.autograd", "nbgrad.autograd", ("set_detect_anomaly", "Variable")),
            Part("nbgrad.func", "nbgrad.func"),
            Part("nbgrad.amp", "nbgrad.amp"),
        ),
    ),
}  # fmt: skip


def public(module: ModuleType) -> list[str]:
    """The public names of a module: those that it defines, lists in ``__all__``, or imports as ``X as X``.

    Modules and op rows are left out.
    """
    names: list[str] = []
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ImportFrom):
            names += [one.name for one in node.names if one.asname == one.name]
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
    names = [*dict.fromkeys(getattr(module, "__all__", None) or names)]
    return [
        name
        for name in names
        if not name.startswith("_")
        and not isinstance(getattr(module, name, module), ModuleType)
        and _ours(module, name)
    ]


def _ours(module: ModuleType, name: str) -> bool:
    return str(getattr(getattr(module, name), "__module__", "")).startswith("nbgrad")


def names_of(part: Part) -> list[str]:
    """The names that a part of a page describes."""
    return list(part.names) or public(import_module(part.module))


def add(site: Site) -> None:
    """Write the pages."""
    described: dict[int, str] = {}
    for file, (title, parts) in PAGES.items():
        text = _headed(title, "=")
        for part in parts:
            text += _headed(part.title, "-")
            module = import_module(part.module)
            for name in names_of(part):
                text += _described(f"{part.module}.{name}", getattr(module, name), described)
        site.write(f"api/{file}.rst", text)


def _headed(title: str, line: str) -> str:
    return f"{title}\n{line * len(title)}\n\n"


def _described(name: str, value: Any, described: dict[int, str]) -> str:
    """The directive that describes a name. A sentence, if the object is torch's or was described by another name."""
    if str(getattr(value, "__module__", "")).startswith("torch"):
        return f"``{name}`` is ``{value.__module__.split('.')[0]}.{value.__qualname__}``.\n\n"
    if id(value) in described:
        return f"``{name}`` is :any:`{described[id(value)]}`.\n\n"
    described[id(value)] = name
    if inspect.isclass(value):
        return f".. autoclass:: {name}\n   :members:\n\n"
    kind = "autofunction" if callable(value) else "autodata"
    return f".. {kind}:: {name}\n\n"

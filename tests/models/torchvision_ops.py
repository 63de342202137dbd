"""Stand-ins for the ops of torchvision that are written in C++.

The torchvision of package registries is built for CUDA, and its C++ part does not load with a torch for CPUs. Then
``import torchvision`` fails, because it registers a rule for a missing op. With these stand-ins the import works, and
so does everything that is written in Python.
"""

import sys
from importlib import import_module
from importlib.util import find_spec

import torch

_library = torch.library.Library("torchvision", "FRAGMENT")


def provide() -> None:
    """Make ``import torchvision`` work, if it is installed: ``torchvision::nms`` is written in Python if need be."""
    if find_spec("torchvision") is None:
        return
    try:
        import_module("torchvision")
    except RuntimeError:  # operator torchvision::nms does not exist
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        for name in ("nms", "qnms"):
            _library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _library.impl("nms", _nms, "CPU")
        import_module("torchvision")


def _nms(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    """The numbers of the boxes ``(N, 4)`` that overlap with no better box by more than ``threshold``, best first."""
    order, kept = scores.argsort(descending=True, stable=True), []
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    while order.numel():
        best, rest = order[0], order[1:]
        kept.append(best)
        low = torch.maximum(boxes[best, :2], boxes[rest, :2])
        high = torch.minimum(boxes[best, 2:], boxes[rest, 2:])
        common = (high - low).clamp(min=0).prod(1)
        order = rest[common / (areas[best] + areas[rest] - common) <= threshold]
    return torch.stack(kept) if kept else torch.empty(0, dtype=torch.long)

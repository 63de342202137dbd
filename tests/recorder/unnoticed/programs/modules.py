"""Every module of torch.nn, on torch's own sample inputs: in train and eval, under grad, no_grad and inference_mode."""

import copy
from functools import cache, partial
from typing import Any

import torch
from torch.nn.utils import rnn
from torch.utils._pytree import tree_leaves, tree_map

from tests.recorder.unnoticed.registry import add

OWN: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "AdaptiveLogSoftmaxWithLoss": ((4, 6, [2, 4]), ((5, 4), [0, 5, 3, 1, 2])),
    "AlphaDropout": ((0.4,), ((4, 3),)),
    "ChannelShuffle": ((2,), ((1, 4, 2, 2),)),
    "CosineSimilarity": ((), ((4, 3), (4, 3))),
    "CrossMapLRN2d": ((2,), ((1, 3, 2, 2),)),
    "Dropout": ((0.4,), ((4, 3),)),
    "Dropout1d": ((0.4,), ((2, 4, 3),)),
    "Dropout2d": ((0.4,), ((2, 4, 3, 3),)),
    "Dropout3d": ((0.4,), ((2, 4, 2, 2, 2),)),
    "EmbeddingBag": ((6, 3), ([[0, 5, 3], [1, 1, 2]],)),
    "FeatureAlphaDropout": ((0.4,), ((2, 4, 3),)),
    "Flatten": ((), ((2, 3, 4),)),
    "Fold": (((3, 3), (2, 2)), ((1, 4, 4),)),
    "Hardsigmoid": ((), ((4, 3),)),
    "Identity": ((), ((4, 3),)),
    "LazyBatchNorm1d": ((), ((4, 3),)),
    "LazyBatchNorm2d": ((), ((2, 3, 2, 2),)),
    "LazyBatchNorm3d": ((), ((2, 3, 2, 2, 2),)),
    "LazyInstanceNorm1d": ((), ((2, 3, 4),)),
    "LazyInstanceNorm2d": ((), ((2, 3, 2, 2),)),
    "LazyInstanceNorm3d": ((), ((2, 3, 2, 2, 2),)),
    "LazyLinear": ((2,), ((4, 3),)),
    "MaxUnpool1d": ((2,), ((1, 1, 2), [[[0, 3]]])),
    "MaxUnpool2d": ((2,), ((1, 1, 1, 2), [[[[0, 3]]]])),
    "MaxUnpool3d": ((2,), ((1, 1, 1, 1, 2), [[[[[0, 3]]]]])),
    "PairwiseDistance": ((), ((4, 3), (4, 3))),
    "PixelShuffle": ((2,), ((1, 4, 2, 2),)),
    "PixelUnshuffle": ((2,), ((1, 1, 4, 4),)),
    "RReLU": ((), ((4, 3),)),
    "SyncBatchNorm": ((3,), ((4, 3),)),
    "TripletMarginLoss": ((), ((4, 3), (4, 3), (4, 3))),
    "TripletMarginWithDistanceLoss": ((), ((4, 3), (4, 3), (4, 3))),
    "Unflatten": ((1, (2, 2)), ((3, 4),)),
    "Unfold": (((2, 2),), ((1, 2, 3, 3),)),
    "Upsample": ((None, 2.0), ((1, 2, 3),)),
    "UpsamplingBilinear2d": ((None, 2.0), ((1, 2, 3, 3),)),
    "UpsamplingNearest2d": ((None, 2.0), ((1, 2, 3, 3),)),
}
"""Modules without sample inputs in torch: the arguments of the constructor, and shapes or indices of the inputs."""

WITHOUT = (
    *("Container", "DataParallel", "Module", "ModuleDict", "ModuleList", "NLLLoss2d", "ParameterDict", "ParameterList"),
    *("RNNBase", "RNNCellBase", "Sequential", "TransformerDecoder"),
)
"""Modules without a forward of their own, or an old name of another one, or a part of nn.Transformer."""

SAMPLES = 6
"""How many inputs of each module are used."""

MODES = {"grad": torch.enable_grad, "no_grad": torch.no_grad, "inference": torch.inference_mode}


@cache
def database() -> list[Any]:
    """Torch's descriptions of its modules."""
    from torch.testing._internal.common_modules import module_db

    return list(module_db)


def names() -> list[str]:
    """The names of torch's modules that have sample inputs."""
    kinds = {name: one for name, one in vars(torch.nn).items() if isinstance(one, type)}
    return sorted(name for name, one in kinds.items() if issubclass(one, torch.nn.Module) and name not in WITHOUT)


def run_module(name: str) -> Any:
    """Make the module and call it in every mode; with gradients, also run its backward."""
    made: dict[str, Any] = {}
    if name in OWN:
        return _run_own(name)
    for info in database():
        if info.module_cls.__name__ != name:
            continue
        for training in (True, False):
            torch.manual_seed(1)
            kept = {"device": "cpu", "dtype": torch.float32, "requires_grad": True, "training": training}
            samples = info.module_inputs_func(info, **kept)
            for place, sample in enumerate(samples[:SAMPLES]):
                for mode, context in MODES.items():
                    made[f"{training} {place} {mode}"] = _outcome(info.module_cls, sample, training, context)
    assert any(not _refused(one) for one in made.values()), f"torch has no sample inputs of {name}"
    return made


def _run_own(name: str) -> Any:
    made = {}
    for training in (True, False):
        for mode, context in MODES.items():
            torch.manual_seed(2)
            module = getattr(torch.nn, name)(*OWN[name][0]).train(training)
            inputs = [
                torch.tensor(one) if isinstance(one, list) else torch.randn(one).requires_grad_()
                for one in OWN[name][1]
            ]
            try:
                with context():
                    out = module(*inputs)
                if mode == "grad":
                    _backward(out)
                made[f"{training} {mode}"] = out, inputs, list(module.parameters()), list(module.buffers())
            except Exception as error:
                made[f"{training} {mode}"] = type(error).__name__, str(error)
    assert any(not _refused(one) for one in made.values()), made
    return made


def _refused(outcome: Any) -> bool:
    """Whether an outcome is an error."""
    return isinstance(outcome, tuple) and len(outcome) == 2 and isinstance(outcome[1], str)


def _outcome(kind: Any, sample: Any, training: bool, context: Any) -> Any:
    torch.manual_seed(2)
    try:
        given = sample.constructor_input
        module = kind(*given.args, **given.kwargs).train(training)
        forward = sample.forward_input or type(given)()
        args, kwargs = copy.deepcopy((forward.args, forward.kwargs))
        with context():
            out = module(*args, **kwargs)
        if context is torch.enable_grad:
            _backward(out)
    except Exception as error:
        return type(error).__name__, str(error)
    leaves = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
    return out, leaves, list(module.parameters()), list(module.buffers())


def _backward(out: Any) -> None:
    sums = [one.abs().sum() for one in tree_leaves(out) if isinstance(one, torch.Tensor) and one.requires_grad]
    if sums:
        sum(sums).backward()


def run_attention(layer: Any, batch_first: bool) -> Any:
    """Call a layer with attention with every kind of mask, in every mode."""
    size, heads = 8, 2
    makers: dict[str, Any] = {
        "attention": lambda **more: torch.nn.MultiheadAttention(size, heads, batch_first=batch_first, **more),
        "layer": lambda **more: torch.nn.TransformerEncoderLayer(size, heads, 12, batch_first=batch_first, **more),
        "encoder": lambda **more: torch.nn.TransformerEncoder(
            torch.nn.TransformerEncoderLayer(size, heads, 12, batch_first=batch_first, **more), 2
        ),
    }
    padding = torch.tensor([[False, False, False], [False, True, True]])
    causal = torch.triu(torch.ones(3, 3, dtype=torch.bool), 1)
    added = torch.zeros(3, 3).masked_fill(causal, float("-inf"))
    masks: list[dict[str, Any]] = [{}, {"padding": padding}, {"mask": causal}, {"mask": added}]
    masks += [{"padding": padding, "mask": causal}, {"padding": torch.zeros(2, 3).masked_fill(padding, float("-inf"))}]
    made: dict[str, Any] = {}
    for more in ({}, {"bias": False}) if layer != "layer" else ({}, {"norm_first": True}, {"activation": "gelu"}):
        for training in (True, False):
            torch.manual_seed(1)
            module = makers[layer](**more).train(training)
            x = torch.randn(2, 3, size) if batch_first else torch.randn(3, 2, size)
            for place, given in enumerate(masks):
                for mode, context in MODES.items():
                    torch.manual_seed(2)
                    key = f"{more} {training} {place} {mode}"
                    made[key] = _attended(layer, module, x, given, context)
    return made


def _attended(layer: str, module: Any, x: Any, given: dict[str, Any], context: Any) -> Any:
    with context():
        if layer == "attention":
            masks = {"key_padding_mask": given.get("padding"), "attn_mask": given.get("mask")}
            return module(x, x, x, **masks), module(x, x, x, need_weights=False, **masks)
        where = "src_mask" if layer == "layer" else "mask"
        return module(x, **{where: given.get("mask"), "src_key_padding_mask": given.get("padding")})


def run_packed(kind: str) -> Any:
    """Call a recurrent layer with packed, padded and single inputs, in every mode."""
    made: dict[str, Any] = {}
    for more in ({}, {"num_layers": 2, "dropout": 0.3}, {"bidirectional": True, "batch_first": True}, {"bias": False}):
        for training in (True, False):
            torch.manual_seed(1)
            module = getattr(torch.nn, kind)(3, 4, **more).train(training)
            first = bool(more.get("batch_first"))
            x = torch.randn(3, 5, 3) if first else torch.randn(5, 3, 3)
            lengths = torch.tensor([5, 2, 3])
            packed = partial(rnn.pack_padded_sequence, batch_first=first, enforce_sorted=False)
            for mode, context in MODES.items():
                torch.manual_seed(2)
                with context():
                    made[f"{more} {training} {mode}"] = module(packed(x, lengths)), module(x), module(x[0])
    return made


def run_nested(layer: str) -> Any:
    """Call a layer with nested inputs: strided and jagged."""
    made: dict[str, Any] = {}
    for layout in (torch.strided, torch.jagged):
        for mode, context in MODES.items():
            torch.manual_seed(1)
            module = {
                "Linear": torch.nn.Linear(4, 4),
                "LayerNorm": torch.nn.LayerNorm(4),
                "ReLU": torch.nn.ReLU(),
                "GELU": torch.nn.GELU(),
                "Dropout": torch.nn.Dropout(0.5),
                "Embedding": torch.nn.Embedding(5, 4),
            }[layer]
            parts: Any = [torch.randn(2, 4), torch.randn(3, 4)]
            if layer == "Embedding":
                parts = [torch.tensor([1, 2]), torch.tensor([3, 4, 0])]
            x = torch.nested.nested_tensor(parts, layout=layout)
            try:
                with context():
                    out = module(x)
                made[f"{layout} {mode}"] = tree_map(torch.Tensor.clone, list(out.unbind()))
            except Exception as error:
                made[f"{layout} {mode}"] = type(error).__name__, str(error)
    return made


WARM = "torch._dynamo torch.testing._internal.common_modules"


def _register() -> None:
    for name in names():
        add(f"modules.{name}", f"{name} in every mode", partial(run_module, name), WARM, cell=False)
    for layer in ("attention", "layer", "encoder"):
        for batch_first in (True, False):
            run = partial(run_attention, layer, batch_first)
            add(f"modules.{layer} {batch_first}", f"{layer} with every mask in every mode", run, WARM, cell=False)
    for kind in ("RNN", "GRU", "LSTM"):
        add(f"modules.{kind} packed", f"{kind} with packed inputs", partial(run_packed, kind), WARM, cell=False)
    for layer in ("Linear", "LayerNorm", "ReLU", "GELU", "Dropout", "Embedding"):
        add(f"modules.{layer} nested", f"{layer} of nested tensors", partial(run_nested, layer), WARM, cell=False)


_register()

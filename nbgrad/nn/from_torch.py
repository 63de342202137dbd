"""``from_torch``: a model of torch's becomes one of ours, which shares its memory."""

from collections import OrderedDict, defaultdict, deque
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import torch

from nbgrad.nn.closures import ClosureCopy
from nbgrad.nn.converted_class import UNMODIFIED, check_names, empty, hides
from nbgrad.nn.first_call import await_first_call
from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import Parameter, is_lazy
from nbgrad.nn.shared_parameter import SharedParameter

_BASE = {*vars(torch.nn.Module()), "_compiled_call_impl"}
"""The private attributes of every module of torch, which are not copied."""

_RECURRENT = {"_flat_weights", "_flat_weight_refs"}
"""The additional private attributes of recurrent modules."""


def from_torch(module: torch.nn.Module, *, check: bool = True) -> Module:
    """Convert a torch module: nbgrad records, differentiates and draws the forward of the result.

    If ``nbgrad.nn`` has the class of a module, the module becomes one of ``nbgrad.nn``. Any other module keeps its own
    methods, which run on nbgrad's tensors: torch's functions in them run nbgrad's ops. Each result is an instance of
    torch's class, too. Parameters and buffers have the same memory and the same keys as torch's, and parameters the
    same ``.grad``. Tied parameters stay tied. ``copy.deepcopy`` of the result has memory of its own.

    Args:
        module: a torch module, in training mode or not, on any device. If ``torch.compile`` made it, the inner module
            is converted.
        check: compare the first call of the result, or of a part of it, with torch's own forward, once in training mode
            and once in evaluation. It takes as long as one more forward, and changes nothing that the model or a random
            generator holds. If the results differ, for example because the forward checks ``type(x) is torch.Tensor``,
            the call raises an error that says so.

    Raises:
        TypeError: ``module`` is not a module, or torch.jit compiled it, so that it has no forward in Python.
        RuntimeError: a lazy module was never called.
        NotImplementedError: the module has backward hooks, is spread over devices, is quantized, or overrides a method
            that nbgrad never calls; or its forward needs an op that nbgrad does not have.
    """
    conversion = _Conversion()
    made = conversion.module(module)
    for one in conversion.modules if check else ():
        await_first_call(one)
    return made


class _Conversion:
    """The converted parts, by the id of torch's part, so that shared parts stay shared."""

    def __init__(self) -> None:
        self.modules: list[Module] = []
        self.made: dict[int, Any] = {}
        self.kept: list[Any] = []  # or another object might get the id of one that is gone
        self.function = ClosureCopy((torch.nn.Module, torch.nn.Parameter), self.value)

    def remember(self, theirs: Any, ours: Any) -> None:
        self.made[id(theirs)] = ours
        self.kept.append(theirs)

    def module(self, theirs: Any) -> Module:
        theirs = inside_compiled(theirs)
        if id(theirs) in self.made:
            found: Module = self.made[id(theirs)]
            return found
        _check(theirs)
        ours: Module = empty(theirs)
        vars(ours).update(_roles={}, training=theirs.training)  # as Module.__init__, without a user's __setattr__
        self.remember(theirs, ours)
        self.modules.append(ours)
        for name, parameter in theirs._parameters.items():
            ours._register(name, self.parameter(parameter), "parameter", hidden=hides(theirs, name))
        for name, buffer in theirs._buffers.items():
            role = "transient" if name in theirs._non_persistent_buffers_set else "buffer"
            ours._register(name, buffer, role, hidden=hides(theirs, name))
            if buffer is not None:
                vars(ours.__dict__[name]).update(vars(buffer))
        for name, child in theirs._modules.items():
            made = None if child is None else self.module(child)
            ours._register(name, made, "module", hidden=hides(theirs, name))
        for name, value in vars(theirs).items():
            if name not in _BASE and name not in _RECURRENT:
                vars(ours)[name] = self.value(value)
        self.hooks(theirs, ours)
        return ours

    def hooks(self, theirs: torch.nn.Module, ours: Module) -> None:
        for number, before in theirs._forward_pre_hooks.items():
            with_kwargs = number in theirs._forward_pre_hooks_with_kwargs
            Module.register_forward_pre_hook(ours, self.value(before), with_kwargs=with_kwargs)
        for number, after in theirs._forward_hooks.items():
            with_kwargs = number in theirs._forward_hooks_with_kwargs
            always = number in theirs._forward_hooks_always_called
            Module.register_forward_hook(ours, self.value(after), with_kwargs=with_kwargs, always_call=always)

    def parameter(self, theirs: Any) -> Parameter | None:
        if theirs is None:
            return None
        if id(theirs) not in self.made:
            ours = SharedParameter(theirs)
            vars(ours).update(vars(theirs))
            self.remember(theirs, ours)
        found: Parameter = self.made[id(theirs)]
        return found

    def value(self, theirs: Any) -> Any:
        """An attribute in which modules, parameters, methods of modules and functions that hold them become ours."""
        if isinstance(theirs, torch.nn.Module):
            return self.module(theirs)
        if isinstance(theirs, torch.nn.Parameter):
            return self.parameter(theirs)
        if isinstance(theirs, MethodType) and isinstance(theirs.__self__, torch.nn.Module):
            return MethodType(theirs.__func__, self.module(theirs.__self__))
        if type(theirs) is FunctionType:
            return self.function(theirs)
        if type(theirs) is partial:
            return partial(self.value(theirs.func), *map(self.value, theirs.args), **self.several(theirs.keywords))
        return self.several(theirs)

    def several(self, theirs: Any) -> Any:
        """A container of the converted contents. One that is held twice, or holds itself, is converted once."""
        if id(theirs) in self.made:
            return self.made[id(theirs)]
        kind = type(theirs)
        if kind in {dict, OrderedDict, defaultdict}:
            mapping: Any = defaultdict(theirs.default_factory) if kind is defaultdict else kind()
            self.remember(theirs, mapping)
            mapping.update({key: self.value(one) for key, one in theirs.items()})
            return mapping
        if kind in {list, deque}:
            sequence: Any = deque(maxlen=theirs.maxlen) if kind is deque else []
            self.remember(theirs, sequence)
            sequence.extend(map(self.value, theirs))
            return sequence
        if kind in {tuple, set, frozenset}:
            return kind(map(self.value, theirs))
        if isinstance(theirs, tuple) and hasattr(theirs, "_make"):
            return theirs._make(map(self.value, theirs))
        return theirs


def inside_compiled(module: Any) -> Any:
    """The module that ``torch.compile`` was given; any other one as it is."""
    while _COMPILED in _names(module):
        module = module._orig_mod
    return module


def _names(module: Any) -> set[str]:
    """The names of the module's classes. They are compared by name: to import torch's is slow, or may fail."""
    return {f"{base.__module__}.{base.__name__}" for base in type(module).__mro__}


def _check(theirs: Any) -> None:
    """Raise an error for an object that is no torch module, and for a module that cannot be converted."""
    name = type(theirs).__name__
    if isinstance(theirs, Module):
        raise TypeError(f"from_torch takes a torch.nn.Module, not {torch.typename(theirs)}, which is nbgrad's already")
    if "torch.export.exported_program.ExportedProgram" in _names(theirs):
        raise TypeError("from_torch takes a torch.nn.Module, not an ExportedProgram: pass program.module()")
    if not isinstance(theirs, torch.nn.Module):
        raise TypeError(f"from_torch takes a torch.nn.Module, not {torch.typename(theirs)}")
    if isinstance(theirs, torch.jit.ScriptModule):
        raise TypeError(
            f"from_torch(): {name} was compiled by torch.jit and has no forward in Python: pass the module it came from"
        )
    if any(is_lazy(one) for one in (*theirs._parameters.values(), *theirs._buffers.values())):
        raise RuntimeError(f"{name} does not know its shapes yet: call it once on an input before from_torch")
    if theirs._backward_hooks or theirs._backward_pre_hooks:
        raise NotImplementedError(
            f"from_torch(): {name} has backward hooks of torch's engine: register them on the result instead, or "
            f"{UNMODIFIED}"
        )
    _check_place(theirs, name)
    if isinstance(theirs, torch.fx.GraphModule) and any(_is_kernel(node.target) for node in theirs.graph.nodes):
        raise NotImplementedError(
            f"from_torch(): {name} is a graph of torch's kernels, as torch.export makes them: convert the module that "
            f"was exported, or {UNMODIFIED}"
        )
    check_names(type(theirs), vars(theirs))
    for key, value in (*theirs._parameters.items(), *theirs._buffers.items()):
        if value is not None:
            _check_tensor(f"{key} of {name}", value)


def _is_kernel(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload)


def _check_place(theirs: torch.nn.Module, name: str) -> None:
    """Raise for the wrappers that spread a module over devices or processes, and for quantized blocks."""
    kinds = _names(theirs)
    for kind in _SPREAD & kinds:
        what = kind.rpartition(".")[2]
        wrapped = "wrap it in nbgrad.nn.parallel.DistributedDataParallel, " if what == "DistributedDataParallel" else ""
        raise NotImplementedError(
            f"from_torch(): a {what} of torch's spreads a module over devices or processes, and nbgrad cannot take it "
            f"apart: convert the module that it was made of, {wrapped}or {UNMODIFIED}"
        )
    if any(".quantized" in kind and kind.startswith("torch.ao.") for kind in kinds):
        raise NotImplementedError(
            f"from_torch(): {name} is quantized, and nbgrad differentiates no quantized numbers: convert the module "
            f"before it is quantized, or {UNMODIFIED}"
        )


_COMPILED = "torch._dynamo.eval_frame.OptimizedModule"
_SPREAD = {
    "torch.nn.parallel.data_parallel.DataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel",
    "torch.distributed.fsdp.FSDPModule",
    "torch.distributed.fsdp._fully_shard._fully_shard.FSDPModule",
}


def _check_tensor(what: str, theirs: torch.Tensor) -> None:
    """Raise for a parameter or buffer that is more than its numbers: hooks, a class of its own, another layout."""
    if theirs._backward_hooks or getattr(theirs, "_post_accumulate_grad_hooks", None):
        raise NotImplementedError(
            f"from_torch(): {what} has hooks of torch's engine on its gradient: register them on the result instead"
        )
    data = theirs.detach()
    if type(data) is not torch.Tensor or data.is_quantized or data.layout is not torch.strided:
        kind = type(data).__name__ if type(data) is not torch.Tensor else "quantized or sparse tensor"
        raise NotImplementedError(
            f"from_torch(): {what} is a {kind}, and nbgrad takes ordinary dense tensors of one device: convert the "
            f"module before it is sharded, quantized or wrapped, or {UNMODIFIED}"
        )

"""The part of ``torch.func`` that works on modules: a call of a module with other tensors in place of its own.

For derivatives, use ``nbgrad.grad``, ``jacobian``, ``hessian``, ``vjp`` and ``jvp``.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbgrad.core.suggestions import kind_of, suggesting
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.nn.module.module import Module


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: "Mapping[str, Any] | Sequence[Mapping[str, Any]]",
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call ``module`` with the tensors given in the place of its parameters and buffers; it keeps its own.

    The tensors may have a history: gradients then flow to the tensors that they were computed from, as meta-learning
    needs (Finn et al. 2017, https://arxiv.org/abs/1703.03400).

    Args:
        module: the module to call.
        parameter_and_buffer_dicts: tensors by the paths that ``named_parameters`` and ``named_buffers`` give; one dict
            or several.
        args: the argument of the call, or a tuple of several.
        kwargs: its named arguments.
        tie_weights: a parameter that has several paths is replaced at all of them.
        strict: raise unless every parameter and buffer is given.

    Raises:
        TypeError: ``module`` is no module of nbgrad.
        ValueError: a path is in two of the dicts.
        RuntimeError: there is no such parameter or buffer, one is missing with ``strict``, or two paths of one
            parameter are given different tensors.
    """
    if not isinstance(module, Module):
        raise TypeError(
            f"functional_call() takes a module of nbgrad, not {kind_of(module)}: torch.func.functional_call takes "
            "torch's modules, and nbgrad.from_torch(module) makes a module of nbgrad from one of torch's"
        )
    given = _together(parameter_and_buffer_dicts)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    places = _places(module, _everywhere(module, given, tie_weights=tie_weights, strict=strict))
    own = [(attributes, name, attributes[name]) for attributes, name, _ in places]
    try:
        try:
            _put(places)
            return module(*args, **(kwargs or {}))
        finally:
            _put(own)
    except BaseException:
        _put(own)  # an interrupt may hit the very ``finally``
        raise


def _together(dicts: "Mapping[str, Any] | Sequence[Mapping[str, Any]]") -> dict[str, Tensor]:
    """The tensors of all dicts together."""
    given: dict[str, Tensor] = {}
    for one in [dicts] if isinstance(dicts, Mapping) else dicts:
        if twice := sorted(given.keys() & one.keys()):
            raise ValueError(f"functional_call(): {twice[0]!r} is in two of the dicts: give each parameter once")
        given.update({path: value if isinstance(value, Tensor) else tensor(value) for path, value in one.items()})
    return given


def _everywhere(module: Module, given: dict[str, Tensor], *, tie_weights: bool, strict: bool) -> dict[str, Tensor]:
    """The tensors ``given``, by every path at which they are to stand."""
    held = dict([*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)])
    if unknown := sorted(given.keys() - held.keys()):
        raise RuntimeError(
            f"functional_call(): {type(module).__name__} has no parameter or buffer {unknown[0]!r}: it has "
            f"{', '.join(list(held)[:8])}{', ...' if len(held) > 8 else ''}"
        )
    found = dict(given)
    new = {id(held[path]): value for path, value in given.items()} if tie_weights else {}
    for path, own in held.items():
        value = new.get(id(own))
        if value is not None and found.setdefault(path, value) is not value:
            raise RuntimeError(
                f"functional_call(): {path!r} and another path lead to the same parameter, but different tensors are "
                "given for them: give one tensor, or pass tie_weights=False"
            )
    if strict and (missing := sorted(held.keys() - found.keys())):
        raise RuntimeError(
            f"functional_call(strict=True): {missing[0]!r} is not given (number of missing tensors: {len(missing)})"
        )
    return found


_Places = list[tuple[dict[str, Any], str, Any]]


def _places(module: Module, tensors: dict[str, Tensor]) -> _Places:
    """Where each of the tensors is to stand: the attributes of a module, its name in there, and the tensor."""
    places = []
    for path, value in tensors.items():
        owner, _, name = path.rpartition(".")
        places.append((vars(module.get_submodule(owner)), name, value))
    return places


def _put(places: _Places) -> None:
    for attributes, name, value in places:
        attributes[name] = value


if not TYPE_CHECKING:  # with __getattr__, a type checker would believe that every name exists
    __getattr__ = suggesting(globals())

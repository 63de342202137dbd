"""The checks of the student's own engine: each file of ``mygrad`` is compared with torch, op by op.

A trial calls an op of the file with random tensors, and goes backward from a weighted sum of the result. Its value and
the gradient of each input have to be torch's. A message names the op, the shapes, and both numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from pathlib import Path
from textwrap import shorten
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from nbgrad.core.tensor.comparison import Deviation, difference, numbers_of
from nbgrad.core.translation import translate
from nbgrad.lab import lesson_03, lesson_04, lesson_09
from nbgrad.lab.engine import PACKAGE, empty_functions, load
from nbgrad.lab.engine_slips import (
    WRONG_POWER,
    WRONG_RESIDUAL,
    normal,
    wrong_conv_rules,
    wrong_normal,
    wrong_normal_rules,
)
from nbgrad.lab.engine_trials import (
    ATOL,
    RTOL,
    Trial,
    compared,
    kind_text,
    of_gradients,
    of_slope,
    shapes_text,
    tensor_class,
    with_cause,
)
from nbgrad.lab.engine_walks import SHARED, shared, walk_slip
from nbgrad.lab.judges import slip
from nbgrad.lab.mygrad import optim as reference
from nbgrad.lab.running import answering


@dataclass(frozen=True)
class PartJudge:
    """Judges a file of the student's engine: its path, or its module.

    Attributes:
        part: the name of the file, without its ending.
        trials: are tried in this order; the first one that fails is reported.
    """

    part: str
    trials: Sequence[Callable[[ModuleType], Deviation | None]]

    def __call__(self, answer: Any) -> Deviation | None:
        module = answer if isinstance(answer, ModuleType) else self._loaded(answer)
        if isinstance(module, Deviation):
            return module
        for trial in self.trials:
            with answering(f"{self.part}.py"):
                found = trial(module)
            if found is not None:
                return found
        return None

    def _loaded(self, answer: Any) -> "ModuleType | Deviation":
        path = f"{PACKAGE}/{self.part}.py"
        if not isinstance(answer, str | Path):
            return Deviation("type", 'the path of your file is expected: "{path}"', path=path)
        file = Path(answer)
        if file.name != f"{self.part}.py" or not file.is_file():
            return Deviation(
                "type",
                'there is no file "{given}": write the cell into "{path}", and run it',
                given=shorten(str(answer), 80),
                path=path,
            )
        with answering(translate('the import of "{answer}"', answer=answer)):
            empty = empty_functions(file.read_text("utf-8"))
            loaded = None if empty else load(file)
        if loaded is None:
            return Deviation("unanswered", "{empty} is empty: write it in the place of the ...", empty=empty[0])
        return loaded


def _call(name: str) -> Callable[..., Any]:
    """Calls the function of this name, of the module of a part."""
    return lambda module, *inputs: getattr(module, name)(*inputs)


def _op(said: str, op: Callable[..., Any], *shapes: tuple[int, ...]) -> Trial:
    """An op that is written alike for the student's tensors and for torch's."""
    return Trial(said, shapes, lambda _, *inputs: op(*inputs), op, names=tuple(signature(op).parameters))


def _one_op(said: str, op: Callable[[ModuleType, Any], Any], shape: tuple[int, ...]) -> Callable[..., Any]:
    """Whether the result of an op has its input as its parent, and not the result of another op."""

    def judged(module: ModuleType) -> Deviation | None:
        x = tensor_class(module)(np.random.default_rng(0).standard_normal(shape))
        with answering(said):
            parents = getattr(op(module, x), "parents", ())
        if any(one is x for one in parents):
            return None
        text = "{said} is right, but made of several ops: write it as one op with one rule, Tensor(value, (x,), rule)"
        return Deviation("type", text, said=said)

    return judged


# scalars.py


_NOTEBOOK = {one.number: one.judge for one in lesson_03.EXERCISES}
_RELU: tuple[tuple[str, Callable[..., Any], tuple[float, ...]], ...] = (
    ("a.relu()", lambda a: a.relu(), (0.7,)),
    ("a.relu()", lambda a: a.relu(), (-0.7,)),
)
_FORMULAS: tuple[tuple[str, Callable[..., Any], tuple[float, ...]], ...] = (
    *_RELU,
    ("t * t * t + t", lambda t: t * t * t + t, (1.5,)),
    ("(a * b + a).tanh() * (a + b.relu())", lambda a, b: (a * b + a).tanh() * (a + b.relu()), (0.5, -0.8)),
    ("(a * b + a).tanh() * (a + b.relu())", lambda a, b: (a * b + a).tanh() * (a + b.relu()), (0.5, 0.8)),
    (SHARED, shared, (0.5, -0.8)),
)


def _of_walk(module: ModuleType) -> Deviation | None:
    for said, formula, at in _FORMULAS:
        yours = [module.Value(one) for one in at]
        theirs = [torch.tensor(one, dtype=torch.float64, requires_grad=True) for one in at]
        wanted = formula(*theirs)
        wanted.backward()
        with answering(said):
            value = formula(*yours)
            module.backward(value)
        if not isinstance(value, module.Value):
            return Deviation("type", "{said} gives {kind}, where a Value is expected", said=said, kind=kind_text(value))
        if (found := compared(value.data, wanted)) is not None:
            found = with_cause(found, value)
            return Deviation(found.kind, "{said}: the value: {found}", said=said, found=found)
        if not value.op:
            return Deviation("type", '{said}: its op is "": give each op its name, for the picture', said=said)
        names = tuple(signature(formula).parameters)
        places = ", ".join(f"{name} = {one:g}" for name, one in zip(names, at, strict=True))
        named = translate("{said} at {at}", said=said, at=places)
        if (found := of_gradients(named, yours, theirs, names)) is not None:
            told = (of_slope(one.op, one, 0.5) for one in module.topological(value))
            return next(filter(None, told), None) or _of_backward(found, module)
    return None


def _of_backward(found: Deviation, module: ModuleType) -> Deviation:
    """``found``, with the fault of the walk: the rules of all ops were found right before."""
    with answering("backward"):
        cause = walk_slip(module.Value, module.backward)
    return found if cause is None else Deviation(found.kind, "{found}. {cause}", found=found, cause=cause)


def _of_names(module: ModuleType) -> Deviation | None:
    """Each op has a name of its own."""
    a, b = module.Value(0.5), module.Value(2.0)
    return _alike((("a + b", a + b), ("a * b", a * b), ("a.tanh()", a.tanh()), ("a.relu()", a.relu())))


def _alike(ops: Sequence[tuple[str, Any]]) -> Deviation | None:
    """Two results whose ops have one name, although they are different ops."""
    known: dict[str, str] = {}
    for said, value in ops:
        other = known.setdefault(value.op, said) if value.op else said
        if other != said:
            text = '{said} and {other} have the same op "{op}": give each op its own name, for the picture'
            return Deviation("type", text, said=said, other=other, op=value.op)
    return None


# tensor.py and ops.py


def _of_tensor_names(module: ModuleType) -> Deviation | None:
    x = module.Tensor([1.0, 3.0])
    return _alike((("x + x", x + x), ("x - x", x - x), ("x * x", x * x), ("x ** 2", x**2), ("x.sum()", x.sum())))


def _of_op_names(module: ModuleType) -> Deviation | None:
    x = tensor_class(module)([[1.0, 3.0], [2.0, 5.0]])
    return _alike((("matmul", module.matmul(x, x)), *((name, getattr(module, name)(x)) for name in _FUNCTIONS)))


_FUNCTIONS = ("relu", "tanh", "exp", "log")


def _of_numbers(module: ModuleType) -> Deviation | None:
    """A number beside a tensor becomes a tensor."""
    ops: tuple[tuple[str, Callable[[Any], Any]], ...] = (("x + 2", lambda x: x + 2.0), ("x * 2", lambda x: x * 2.0))
    for said, op in ops:
        with answering(said):
            parents = getattr(op(module.Tensor([1.0, 3.0])), "parents", ())
        if not all(isinstance(one, module.Tensor) for one in parents):
            text = "{said}: one of its parents is no Tensor: as_tensor makes one of a number or an array"
            return Deviation("type", text, said=said)
    return None


def _of_vectors(module: ModuleType) -> Deviation | None:
    """A vector is refused by matmul."""
    of_array = tensor_class(module)
    for shapes in (((3,), (3, 4)), ((2, 3), (3,))):
        named = translate("{said} with {shapes}", said="matmul", shapes=shapes_text(shapes))
        try:
            given = module.matmul(*(of_array(np.ones(shape)) for shape in shapes))
        except ValueError:
            continue
        except Exception as error:
            kind = type(error).__name__
            text = "{named} raises {kind}, where a ValueError is expected"
            return Deviation("raised", text, named=named, kind=kind)
        text = (
            "{named} returns the ValueError: write raise in the place of return"
            if isinstance(given, ValueError)
            else "{named} gives a result, where a ValueError is expected"
        )
        return Deviation("type", text, named=named)
    return None


def _of_unbroadcast(module: ModuleType) -> Deviation | None:
    """``unbroadcast`` alone: where it is wrong, each op would seem to be."""
    return lesson_04.UNBROADCAST(lambda gradient, shape: module.unbroadcast(numbers_of(gradient).numpy(), shape))


def _again_and_again(x: Any, y: Any) -> Any:
    """A result that is used by ops at different distances from the loss."""
    h = x * y
    return (h * h + y) * h


_TENSOR = (
    *(_op("x * y", lambda x, y: x * y, *shapes) for shapes in (((), ()), ((3,), (3,)), ((2, 3), (2, 3)))),
    *(
        _op(said, op, *shapes)
        for said, op in (("x + y", lambda x, y: x + y), ("x * y", lambda x, y: x * y), ("x - y", lambda x, y: x - y))
        for shapes in (((4, 3), (3,)), ((3, 1), (1, 4)), ((), (2, 2)), ((2, 1, 3), (4, 1)), ((1, 1), (2, 3)))
    ),
    _op("x * x", lambda x: x * x, (2, 3)),
    replace(_op("x ** 5", lambda x: x**5, (2, 5)), rules=WRONG_POWER),
    _op("x ** 2.0 + 3 * x - 1", lambda x: x**2.0 + 3 * x - 1, (4,)),
    Trial("x / y", ((3, 2), (2,)), lambda _, x, y: x / y, lambda x, y: x / y, names=("x", "y"),
          domain=lambda one: np.abs(one) + 0.5),
    *(
        Trial(f"x.sum({dim}, keepdim={keep})", ((2, 3, 4),), partial(lambda d, k, _, x: x.sum(d, keepdim=k), dim, keep),
              partial(lambda d, k, x: x.sum(d, keepdim=k), dim, keep))
        for dim, keep in ((0, False), (1, True), (-1, False))
    ),
    *(_op(said, op, (2, 3)) for said, op in (("-x", lambda x: -x), ("2 - x", lambda x: 2 - x))),
    _op("x.sum() * x", lambda x: x.sum() * x, (2, 3)),
    _op("h = x * y; (h * h + y) * h", _again_and_again, (2, 3), (3,)),
    _op("x.mean()", lambda x: x.mean(), (2, 3)),
)  # fmt: skip

_OPS = (
    *(
        Trial("matmul", shapes, _call("matmul"), torch.matmul, names=("a", "b"))
        for shapes in (((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 1, 3, 2), (4, 2, 5)))
    ),
    _op("x @ w", lambda x, w: x @ w, (2, 3), (3, 4)),
    *(Trial(name, ((3, 4),), _call(name), getattr(torch, name)) for name in ("relu", "tanh", "exp")),
    *(
        Trial(name, (shape,), _call(name), getattr(torch, name))
        for name in ("relu", "tanh")
        for shape in ((5,), (2, 3, 2))
    ),
    Trial("log", ((3, 4),), _call("log"), torch.log, domain=lambda one: np.abs(one) + 0.1),
    Trial("reshape", ((3, 4),), lambda module, x: module.reshape(x, 2, 6), lambda x: x.reshape(2, 6)),
    Trial("transpose", ((2, 3, 4),), _call("transpose"), lambda x: x.transpose(-1, -2)),
)

# losses.py


def _loss(shape: tuple[int, ...], scale: float = 1.0) -> Trial:
    classes = shape[-1]
    labels = np.random.default_rng(1).integers(0, classes, shape[:-1])
    return Trial(
        "cross_entropy" if scale == 1 else "cross_entropy of scores of size {scale:g}",
        (shape,),
        lambda module, scores: module.cross_entropy(scores, labels),
        lambda scores: functional.cross_entropy(scores.reshape(-1, classes), torch.tensor(labels).reshape(-1)),
        domain=lambda one: one * scale,
        settings={"scale": scale},
    )


_LOSSES: tuple[Callable[[ModuleType], Deviation | None], ...] = (
    Trial("mse", ((4, 2),), lambda m, x: m.mse(x, np.ones((4, 2))), lambda x: ((x - 1) ** 2).mean()),
    Trial("softmax", ((3, 4),), _call("softmax"), lambda x: x.softmax(-1)),
    _loss((4, 3)),
    _loss((1, 5)),
    _loss((2, 3, 4)),
    _loss((4, 3), 1000.0),
    _one_op("cross_entropy", lambda module, x: module.cross_entropy(x, np.array([0, 2, 1, 1])), (4, 3)),
)

# modules.py


def _linear(module: ModuleType, shape: tuple[int, ...]) -> Deviation | None:
    rng = np.random.default_rng(0)
    layer, of_array = module.Linear(3, 2, rng), tensor_class(module)
    x, bias = rng.standard_normal(shape), rng.standard_normal(2)
    layer.bias.data = bias
    theirs = [torch.tensor(one, requires_grad=True) for one in (x, layer.weight.data, bias)]
    wanted = functional.linear(theirs[0], theirs[1].T, theirs[2])
    wanted.square().sum().backward()  # type: ignore[no-untyped-call]
    named = translate("Linear(3, 2) of shape {shape}", shape=shape)
    mine = of_array(x)
    with answering(named):
        value = layer(mine)
        if not isinstance(value, of_array):
            return Deviation(
                "type", "{named} gives {kind}, where a Tensor is expected", named=named, kind=kind_text(value)
            )
        if (found := compared(value.data, wanted)) is not None:
            slips = (
                (wanted - theirs[2], "offset", "the bias is missing"),
                (wanted.relu(), "numbers", "that is relu of it: a Linear has none"),
            )
            found = slip(value.data, slips) or found
            return Deviation(found.kind, "{named}: the value: {found}", named=named, found=found)
        (value * value).sum().backward()
    return of_gradients(named, (mine, layer.weight, layer.bias), theirs, ("x", "weight", "bias"))


def _parameters(module: ModuleType) -> Deviation | None:
    rng, of_array = np.random.default_rng(0), tensor_class(module)
    first, second, third = module.Linear(3, 2, rng), module.Linear(2, 2, rng), module.Linear(2, 1, rng)
    used, own, grown = module.Linear(3, 2, rng), module.Module(), module.Sequential(first)
    used(of_array(np.ones((1, 3))))
    own.scale, own.mean, own.count = of_array(1.0), np.ones(2), 3
    own.rows, own.layers = [of_array([1.0]), of_array([1.0])], (first, second)
    grown.parameters()
    grown.modules = (first, third)
    cases: tuple[tuple[str, Any, list[Any]], ...] = (
        ("a Linear", first, []),
        ("a ReLU", module.ReLU(), []),
        ("a Sequential", module.Sequential(first, third), [first, third]),
        ("a Sequential inside another", module.Sequential(first, module.Sequential(third, module.ReLU())),
         [first, third]),
        ("a network that uses a layer twice", module.Sequential(first, first), [first]),
        ("a network with two biases that are alike", module.Sequential(first, second), [first, second]),
        ("a module with a tensor, an array, a number, a list of tensors and a tuple of layers", own, [first, second]),
        ("a Linear that has been called", used, []),
        ("a Sequential that has another layer since the last call", grown, [first, third]),
    )  # fmt: skip
    for text, network, layers in cases:
        said = translate(text)
        linear = [layer for layer in layers or [network] if isinstance(layer, module.Linear)]
        wanted = [one for layer in linear for one in (layer.weight, layer.bias)]
        wanted += [own.scale, *own.rows] if network is own else []
        with answering(translate("parameters() of {said}", said=said)):
            found = _of_list(said, network.parameters(), wanted, of_array)
        if found is not None:
            return found
    return None


def _of_list(said: str, given: Any, wanted: Sequence[Any], of_array: Any) -> Deviation | None:
    if not isinstance(given, list | tuple):
        text = "parameters() of {said} gives {kind}, where a list is expected"
        return Deviation("type", text, said=said, kind=kind_text(given))
    others = [one for one in given if not isinstance(one, of_array)]
    if others:
        text = "parameters() of {said} has {kind} in its list, where tensors are expected"
        return Deviation("type", text, said=said, kind=kind_text(others[0]))
    if len(given) != len(wanted):
        text = "of {said}, parameters() gives a list of {count}, and {total} tensors are in it"
        return Deviation("shape", text, said=said, count=len(given), total=len(wanted))
    if any(all(one is not other for other in given) for one in wanted):
        text = "parameters() of {said} lacks one of its tensors, and has another one twice"
        return Deviation("element", text, said=said)
    return None


# norm.py


def _residual(module: ModuleType, x: Any) -> Any:
    return module.Residual(lambda y: y * y)(x)


def _layer_norm(module: ModuleType, x: Any) -> Any:
    return module.LayerNorm(4)(x)


def _batch_norm(module: ModuleType) -> Deviation | None:
    of_array, rng = tensor_class(module), np.random.default_rng(0)
    mine, theirs = module.BatchNorm(3), torch.nn.BatchNorm1d(3, dtype=torch.float64)
    for training in (True, True, False):
        x = rng.standard_normal((5, 3)) * 2 + 1
        mine.training, theirs.training = training, training
        if (found := compared(mine(of_array(x)).data, theirs(torch.tensor(x)))) is not None:
            return Deviation(
                found.kind,
                "BatchNorm(3), training={training}, of shape (5, 3): {found}",
                training=training,
                found=found,
            )
    return None


_NORM: tuple[Callable[[ModuleType], Deviation | None], ...] = (
    *(
        Trial("normalize along {dim}", (shape,), partial(lambda d, m, x: m.normalize(x, d), dim),
              partial(normal, dim), settings={"dim": dim}, slips=wrong_normal(dim),
              rules=wrong_normal_rules(dim))
        for dim, shape in ((-1, (3, 4)), (0, (5, 2)), (-1, (2, 3, 4)))
    ),
    Trial("normalize along 0, with eps=0.5,", ((3, 4),), lambda m, x: m.normalize(x, 0, 0.5),
          lambda x: normal(0, x, 0.5)),
    _one_op("normalize", lambda module, x: module.normalize(x, -1), (3, 4)),
    Trial("Residual of y * y", ((3, 2),), _residual, lambda x: x + x * x, slips=WRONG_RESIDUAL),
    Trial("LayerNorm(4)", ((2, 3, 4),), _layer_norm, lambda x: functional.layer_norm(x, (4,))),
    _batch_norm,
)  # fmt: skip

# optim.py


def _optimizer(name: str, settings: dict[str, Any], module: ModuleType) -> Deviation | None:
    """Five steps with given gradients; the second parameter gets none in the third step, the first one in the fourth.

    They are compared with the reference part, which is torch's in nbgrad's tests: to import torch's takes seconds.
    """
    rng, of_array = np.random.default_rng(0), tensor_class(module)
    starts = [rng.standard_normal((2, 3)), rng.standard_normal(3)]
    mine, theirs = ([of_array(one.copy()) for one in starts] for _ in range(2))
    said = f"{name}({', '.join(f'{key}={value}' for key, value in settings.items())})"
    yours, references = (getattr(each, name)(one, **settings) for each, one in ((module, mine), (reference, theirs)))
    for step in range(1, 6):
        for at, other in enumerate(theirs):
            other.grad = None if (at, step) in ((1, 3), (0, 4)) else rng.standard_normal(other.data.shape)
        given = [None if other.grad is None else other.grad.copy() for other in theirs]
        for one, gradient in zip(mine, given, strict=True):
            one.grad = gradient
        named = translate("{said}, step {step}", said=said, step=step)
        if step in (3, 4):
            named = translate("{named}, in which a parameter has no gradient,", named=named)
        with answering(named):
            yours.step()
        if any(one.grad is not gradient or not np.array_equal(gradient, other.grad)
               for one, gradient, other in zip(mine, given, theirs, strict=True)):  # fmt: skip
            return Deviation("changed", "{said} changes the gradients: a step only reads them", said=said)
        references.step()
        for one, other in zip(mine, theirs, strict=True):
            if (found := _of_step(one.data, other.data)) is not None:
                found = _about_steps(name, settings, module, step) or found
                at_step = translate(
                    "{said}: a parameter of shape {shape} after step {step}",
                    said=said,
                    shape=other.data.shape,
                    step=step,
                )
                return Deviation(found.kind, f"{at_step}: {found}")
    return None


def _of_step(given: Any, right: Any) -> Deviation | None:
    if np.shape(given) != right.shape:
        return Deviation("shape", "it has the shape {shape} now", shape=np.shape(given))
    return compared(given, right, translate("the right number"))


def _about_steps(name: str, settings: dict[str, Any], module: ModuleType, wrong: int) -> Deviation | None:
    """Which of the usual mistakes of lesson 9 an optimizer makes of one parameter that has a gradient in each step.

    Args:
        name: of its class.
        settings: its arguments.
        module: the student's part.
        wrong: the first step in which two parameters are not right.
    """
    rng, of_array = np.random.default_rng(0), tensor_class(module)
    start, gradients = rng.standard_normal((2, 3)), rng.standard_normal((4, 2, 3))
    yours, right = (
        _places(getattr(each, name)([one := of_array(start.copy())], **settings), one, gradients)
        for each in (module, reference)
    )
    if difference(yours, right, rtol=RTOL, atol=ATOL) is None:
        if wrong < 3:
            text = "a single parameter is right, and two are not: of each the optimizer remembers numbers of its own"
            return Deviation("element", text)
        text = (
            "it is right while each parameter has a gradient. One without stays as it is, and so does all that the "
            "optimizer remembers of it, such as the number of its steps"
        )
        return Deviation("element", text)
    memory, wrongs = _WRONG_STEPS.get((name, *settings.values()), (0, ()))
    for update, kind, text in wrongs:
        w, *kept = start, *(np.zeros_like(start) for _ in range(memory))
        places = []
        for step, gradient in enumerate(gradients, 1):
            with np.errstate(all="ignore"):  # some of them take the root of negative numbers
                w, *kept = update(w, gradient, *kept, *([step] if name == "Adam" else []))
            places.append(w)
        if difference(yours, np.stack(places), rtol=RTOL, atol=ATOL) is None:
            return Deviation(kind, text)
    return None


def _places(optimizer: Any, parameter: Any, gradients: Any) -> Any:
    """The numbers of a parameter after each step."""
    places = []
    for gradient in gradients:
        parameter.grad = gradient.copy()
        with answering(f"{type(optimizer).__name__}.step"):
            optimizer.step()
        places.append(np.array(parameter.data))
    return np.stack(places)


_WRONG_STEPS: dict[tuple[Any, ...], tuple[int, Any]] = {
    ("SGD", lesson_09.LR, lesson_09.BETA): (1, lesson_09.WRONG_MOMENTUM),
    ("Adam", lesson_09.LR): (2, lesson_09.WRONG_ADAM),
}
"""The usual mistakes, with their settings: how many arrays they remember, and the updates of lesson 9."""

_OPTIM = (
    partial(_optimizer, "SGD", {"lr": 0.1}),
    partial(_optimizer, "SGD", {"lr": 0.1, "momentum": 0.9}),
    partial(_optimizer, "Adam", {"lr": 0.1}),
    partial(_optimizer, "Adam", {"lr": 0.01, "betas": (0.8, 0.99), "eps": 0.1}),
)

# conv.py, sequence.py, attention.py

_CONV = (
    *(
        Trial("conv2d with padding={padding}", shapes, partial(lambda p, m, x, w: m.conv2d(x, w, p), padding),
              partial(lambda p, x, w: functional.conv2d(x, w, padding=p), padding), settings={"padding": padding},
              names=("x", "weight"), rules=wrong_conv_rules(padding))
        for padding, shapes in (
            (0, ((1, 1, 3, 3), (1, 1, 2, 2))),
            (0, ((3, 2, 5, 4), (4, 2, 3, 2))),
            (1, ((3, 2, 5, 4), (4, 2, 3, 3))),
        )
    ),
    Trial("max_pool2d by 2", ((2, 3, 4, 6),), lambda m, x: m.max_pool2d(x, 2), lambda x: functional.max_pool2d(x, 2)),
    Trial("max_pool2d by 2 of ones", ((1, 1, 4, 4),), lambda m, x: m.max_pool2d(x, 2),
          lambda x: functional.max_pool2d(x, 2), domain=np.ones_like),
    Trial("Flatten", ((2, 3, 4, 6),), lambda m, x: m.Flatten()(x), lambda x: x.flatten(1)),
)  # fmt: skip

_SEQUENCE = tuple(
    Trial("take with the index {index}", (shape,), partial(lambda i, m, x: m.take(x, np.array(i)), index),
          partial(lambda i, x: x[torch.tensor(i)], index), settings={"index": index})
    for index, shape in (([2, 0], (3, 2)), ([1, 1, 1, 0], (3, 2)), ([[0, 1], [2, 2]], (4, 3)), ([1, 1], (3, 2, 2)))
)  # fmt: skip


def _repeated(module: ModuleType) -> Deviation | None:
    """Whether a row that is looked up several times gets all of its gradients, and not one of them."""
    table, index = tensor_class(module)(np.ones((3, 2))), np.array([1, 1, 1, 0])
    g = np.random.default_rng(0).standard_normal((4, 2))
    with answering(translate("take with the index {index}", index=index.tolist())):
        value = module.take(table, index)
        rule = getattr(value, "rule", None)
        given = rule(g.copy()) if rule else ()
    last = np.stack([g[3], g[2], np.zeros(2)])
    if not isinstance(given, tuple | list) or len(given) != 1 or not np.array_equal(np.asarray(given[0]), last):
        return None
    text = "take with the index {index}: a row that comes several times gets the sum of its gradients, and not the last"
    return Deviation("row", text, index=index.tolist())


def _rnn(module: ModuleType) -> Deviation | None:
    """A later code moves no earlier score, and an earlier one moves the later ones."""
    network = module.RNN(5, 4, np.random.default_rng(0))
    codes = np.array([[1, 2, 3, 4]])
    base, again = network(codes), network(codes)
    if not isinstance(base, list | tuple):
        return Deviation("type", "an RNN gives {kind}, where a list is expected", kind=kind_text(base))
    if len(base) != 4 or base[0].data.shape != (1, 5):
        return Deviation("shape", "an RNN(5, 4) has to give 4 scores of shape (1, 5) for codes of shape (1, 4)")
    if not all(np.array_equal(one.data, other.data) for one, other in zip(base, again, strict=True)):
        return Deviation("changed", "an RNN that reads the same codes again gives other scores: h begins with zeros")
    changed = network(np.array([[1, 0, 3, 4]]))
    moved = [not np.allclose(one.data, other.data) for one, other in zip(base, changed, strict=True)]
    if moved != [False, True, True, True]:
        return Deviation(
            "order", "code 1 was changed: the scores of the steps 1 to 3 have to change, and no other ones"
        )
    return None


def _rnn_with_torch(module: ModuleType) -> Deviation | None:
    rng = np.random.default_rng(0)
    network, codes = module.RNN(5, 4, rng), np.array([[1, 2, 3], [1, 1, 0]])
    mine = [
        network.letter.weight,
        *(one for layer in (network.memory, network.head) for one in (layer.weight, layer.bias)),
    ]
    for one in mine:
        one.data = rng.standard_normal(one.data.shape)
    theirs, right = _read(mine, codes)
    named, total = "RNN(5, 4)", tensor_class(module)(0.0)
    with answering(named):
        for step, (one, wanted) in enumerate(zip(network(codes), right, strict=True)):
            if (found := compared(one.data, wanted)) is not None:
                text = "{named}: the scores of step {step}: {found}"
                return Deviation(found.kind, text, named=named, step=step, found=found)
            total = total + (one * one).sum()
        total.backward()
    names = ("letter.weight", "memory.weight", "memory.bias", "head.weight", "head.bias")
    found = of_gradients(named, mine, theirs, names)
    if found is not None and of_gradients(named, mine, _read(mine, codes, cut=True)[0], names) is None:
        text = "{named}: the gradients go through the last step only: h is a new Tensor of numbers in each step"
        return Deviation("numbers", text, named=named)
    return found


def _read(parts: list[Any], codes: Any, *, cut: bool = False) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The parts of an RNN as tensors of torch's, with their gradients, and the scores that it gives for ``codes``.

    ``cut``: no gradient goes from one step to the step before it.
    """
    theirs = [torch.tensor(one.data, requires_grad=True) for one in parts]
    letter, inner, inner_bias, head, head_bias = theirs
    h, scores = torch.zeros(len(codes), len(inner), dtype=torch.float64), list[torch.Tensor]()
    for column in torch.tensor(codes).T:
        h = ((h.detach() if cut else h) @ inner + inner_bias + letter[column]).tanh()
        scores.append(h @ head + head_bias)
    torch.stack(scores).square().sum().backward()  # type: ignore[no-untyped-call]
    return theirs, scores


def _attention(shape: tuple[int, ...]) -> Trial:
    right = partial(functional.scaled_dot_product_attention, is_causal=True)
    names = ("q", "k", "v")
    return Trial("attention", (shape, shape, shape), _call("attention"), right, names=names, slips=_WRONG_ATTENTION)


def _masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, shift: int, past: bool = False) -> torch.Tensor:
    """Attention with -1e9 where ``shift`` and more right of the diagonal, or left of it."""
    mask = torch.full((q.shape[-2], q.shape[-2]), -1e9, dtype=q.dtype)
    mask = mask.tril(-shift) if past else mask.triu(shift)
    found: torch.Tensor = (q @ k.mT / q.shape[-1] ** 0.5 + mask).softmax(-1) @ v
    return found


_WRONG_ATTENTION = (
    (partial(functional.scaled_dot_product_attention, is_causal=True, scale=1.0), "factor",
     "the scores are not divided by the root of the width"),
    (functional.scaled_dot_product_attention, "element", "nothing is masked: each place looks at those after it, too"),
    (partial(_masked, shift=0), "element", "the diagonal is masked, too: a place may look at itself"),
    (partial(_masked, shift=1, past=True), "transposed", "the past is masked: forbid what lies right of the diagonal"),
    (lambda q, k, v: (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1).tril() @ v, "factor",
     "it masks after softmax: the rows no longer have the sum 1"),
)  # fmt: skip


def _gpt(module: ModuleType) -> Deviation | None:
    network = module.GPT(5, 4, 8, np.random.default_rng(0))
    with answering("GPT(5, 4, 8) with codes of shape (1, 4)"):
        scores = network(np.array([[1, 2, 3, 4]])).data
    if scores.shape != (1, 4, 5):
        return Deviation(
            "shape", "GPT(5, 4, 8) gives {shape} for codes of shape (1, 4), and not (1, 4, 5)", shape=scores.shape
        )
    changed = network(np.array([[1, 2, 0, 4]])).data
    if not np.allclose(scores[:, :2], changed[:, :2]):
        return Deviation(
            "order", "code 2 of a GPT was changed, and the scores of an earlier place changed: a look ahead"
        )
    same = network(np.array([[1, 1, 1, 1]])).data
    if np.allclose(same[:, 1], same[:, 3]):
        text = "four equal codes get equal scores: the vectors of the places are missing, or all of one place"
        return Deviation("zero", text)
    return None


def _gpt_in_order(module: ModuleType) -> Deviation | None:
    """Values and gradients of a GPT are those of its parts, called one after the other as the task says."""
    network, codes = module.GPT(5, 4, 8, np.random.default_rng(0), layers=2), np.array([[1, 2, 1], [4, 0, 3]])
    parameters, named = network.parameters(), translate("GPT(5, 4, 8, layers=2) with codes of shape (2, 3)")
    with answering(named):
        scores = network(codes)
        (scores * scores).sum().backward()
    given = [one.grad for one in parameters]
    network.zero_grad()
    start = network.letter(codes) + network.place(np.arange(3))
    right = _through(start, (*network.blocks, network.last, network.head))
    (right * right).sum().backward()
    if (found := compared(scores.data, right.data, translate("the right number"))) is not None:
        found = _about_order(scores.data, network, start) or found
        return Deviation(found.kind, "{named}: the value: {found}", named=named, found=found)
    for one, gradient in zip(parameters, given, strict=True):
        if gradient is None:
            text = "{named}: no gradient arrives at a parameter of shape {shape}"
            return Deviation("zero", text, named=named, shape=one.data.shape)
        if (found := compared(gradient, one.grad, translate("the right number"))) is not None:
            text = "{named}: the gradient of a parameter of shape {shape}: {found}"
            return Deviation(found.kind, text, named=named, shape=one.data.shape, found=found)
    return None


def _through(x: Any, parts: Sequence[Callable[[Any], Any]]) -> Any:
    for part in parts:
        x = part(x)
    return x


def _about_order(scores: Any, network: Any, start: Any) -> Deviation | None:
    """Which part of a GPT is missing, or is there twice."""
    blocks, ends = network.blocks, (network.last, network.head)
    around = [partial(lambda block, x: x + block(x), block) for block in blocks]
    slips = (
        (_through(start, (*blocks, network.head)), "element", "the last normalization is missing"),
        (_through(start, (blocks[0], *ends)), "element", "only the first block was called"),
        (_through(start, ends), "element", "no block was called"),
        (_through(start, (*around, *ends)), "factor", "x is added to each block: a block does that itself"),
    )  # fmt: skip
    found = slip(scores, [(right.data, kind, text) for right, kind, text in slips])
    if found is None and (scores > 0).all() and np.allclose(scores.sum(-1), 1):
        return Deviation("numbers", "these are probabilities: the scores are what head gives, without a softmax")
    return found


_TRIALS: dict[str, Sequence[Callable[[ModuleType], Deviation | None]]] = {
    "scalars": (
        lambda module: _NOTEBOOK["3.1"](module.Value),
        lambda module: _NOTEBOOK["3.2"](module.topological),
        lambda module: lesson_03.of_ops(module.Value, _RELU),
        _of_walk,
        _of_names,
    ),
    "tensor": (_of_numbers, _of_unbroadcast, *_TENSOR, _of_tensor_names),
    "ops": (*_OPS, _of_vectors, _of_op_names),
    "losses": _LOSSES,
    "modules": (partial(_linear, shape=(4, 3)), partial(_linear, shape=(2, 4, 3)), _parameters),
    "norm": _NORM,
    "optim": _OPTIM,
    "conv": _CONV,
    "sequence": (_SEQUENCE[0], _repeated, *_SEQUENCE[1:], _rnn, _rnn_with_torch),
    "attention": (_attention((4, 3)), _attention((2, 2, 5, 4)), _gpt, _gpt_in_order),
}

JUDGES = {part: PartJudge(part, trials) for part, trials in _TRIALS.items()}
"""The judge of each part of the engine."""

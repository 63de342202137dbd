"""New tensors, made by torch's own functions. They are leaves."""

from ast import literal_eval
from functools import partial
from inspect import Parameter, Signature

import torch

from nbgrad.core.backend.below_autograd import inferring
from nbgrad.core.dispatch.arguments import NO_OUT
from nbgrad.core.dispatch.exports import PLACES
from nbgrad.core.dispatch.op import install, named
from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.state import current
from nbgrad.core.engine.tensor_data import check_device
from nbgrad.core.ops.create import random
from nbgrad.core.suggestions import nearest
from nbgrad.core.tensor.construct import no_number, numbers, raw_from
from nbgrad.core.tensor.tensor import Tensor, tensor

_MADE = {
    "arange": ("*ends", "The numbers from ``start`` (0) up to ``end``, without it, ``step`` (1) apart"),
    "bartlett_window": (
        "window_length, periodic=True",
        "Bartlett's window: it rises and falls in straight lines",
    ),
    "blackman_window": ("window_length, periodic=True", "Blackman's window: the sum of three cosines"),
    "empty": ("*size", "A tensor of a shape with whatever is in its memory"),
    "empty_permuted": ("size, physical_layout", "A tensor of a shape laid out in that order of dimensions, unfilled"),
    "empty_strided": ("size, stride", "A tensor of a shape with the strides given and whatever is in its memory"),
    "eye": ("n, m=None", "A matrix with ones on its diagonal and zeros elsewhere"),
    "fft_fftfreq": ("n, d=1.0", "The frequencies that the results of fft stand for"),
    "fft_rfftfreq": ("n, d=1.0", "The frequencies that the results of rfft stand for"),
    "full": ("size, fill_value", "A tensor of a shape filled with one value"),
    "hamming_window": ("window_length, periodic=True, alpha=0.54, beta=0.46", "Hamming's window: a raised cosine"),
    "hann_window": ("window_length, periodic=True", "Hann's window: it rises and falls as a cosine"),
    "kaiser_window": (
        "window_length, periodic=True, beta=12.0",
        "Kaiser's window: the narrower, the larger ``beta``",
    ),
    "linspace": (
        "start, end, steps",
        "``steps`` numbers from ``start`` to ``end``, with both, equally far apart",
    ),
    "logspace": ("start, end, steps, base=10.0", "Powers of ``base`` whose exponents are equally far apart"),
    "ones": ("*size", "A tensor of ones of a shape"),
    "rand": ("*size", "Random numbers, uniform from 0 up to 1, without it"),
    "randint": ("*limits_and_size", "Random integers from ``low`` (0) up to ``high``, without it"),
    "randn": ("*size", "Normal random numbers, of mean 0 and variance 1"),
    "randperm": ("n", "The integers from 0 up to ``n``, without it, in random order"),
    "scalar_tensor": ("s", "A tensor of rank 0 of one number"),
    "tril_indices": ("row, col, offset=0", "The rows and columns of the elements on and below a diagonal"),
    "triu_indices": ("row, col, offset=0", "The rows and columns of the elements on and above a diagonal"),
    "zeros": ("*size", "A tensor of zeros of a shape"),
}
"""torch's functions that make a tensor of numbers: what they take, and what they give."""

_LIKE = {
    "empty_like": ("", "A tensor with whatever is in its memory"),
    "full_like": ("fill_value", "A tensor filled with one value"),
    "ones_like": ("", "A tensor of ones"),
    "rand_like": ("", "Random numbers, uniform from 0 up to 1, without it"),
    "randint_like": ("low=0, high=None", "Random integers from ``low`` (0) up to ``high``, without it"),
    "randn_like": ("", "Normal random numbers, of mean 0 and variance 1"),
    "zeros_like": ("", "A tensor of zeros"),
}
"""torch's functions that make a tensor of the shape of another one: what they take, and what they give."""

_NEW = {
    "new": "A tensor of a shape with whatever is in its memory, or of the numbers in a list",
    "new_empty": "A tensor of a shape with whatever is in its memory",
    "new_full": "A tensor of a shape filled with one value",
    "new_ones": "A tensor of ones of a shape",
    "new_tensor": "A tensor of the numbers given, copied",
    "new_zeros": "A tensor of zeros of a shape",
}
"""Methods of a tensor that make another one of its element type."""

_SETTINGS = ("generator", "dtype", "layout", "device", "requires_grad", "memory_format", "pin_memory")


def _signature(inputs, takes):
    """The signature of a function: ``inputs``, the arguments in the text ``takes``, and torch's settings by name."""
    parts = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in inputs]
    for text in filter(None, takes.split(", ")):
        name, _, default = text.partition("=")
        if name.startswith("*"):
            parts.append(Parameter(name[1:], Parameter.VAR_POSITIONAL))
        else:
            usual = literal_eval(default) if default else Parameter.empty
            parts.append(Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=usual))
    return Signature([*parts, *(Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in _SETTINGS)])


def _leaf(name, torchs, args, settings):
    """The result of torch's function, as a leaf."""
    if settings.pop("out", None) is not None:
        raise NotImplementedError(NO_OUT.format(called=name))
    needs = settings.pop("requires_grad", False)
    settings = {key: numbers(value) if isinstance(value, Tensor) else value for key, value in settings.items()}
    if settings.get("device") is not None:
        settings["device"] = check_device(settings["device"])
    make = partial(inferring, torchs) if current().inference else torchs
    raw = make(*numbers(args), **settings)
    if raw.layout is not torch.strided:
        raise NotImplementedError(f"{name}() with layout={raw.layout}: nbgrad's tensors are dense")
    made = Tensor(raw)
    made.requires_grad = bool(needs)
    return made


def _maker(name, takes, says):
    """The function of that name: on the device of the active graph, unless told otherwise."""
    place, _, rest = name.partition("_")
    torchs = getattr(PLACES[place], rest) if place in PLACES else getattr(torch, name)
    called = f"nbgrad.{place}.{rest}" if place in PLACES else f"nbgrad.{name}"

    def make(*args, **settings):
        if settings.get("device") is None:
            settings["device"] = current().device
        try:
            return _leaf(name, torchs, args, settings)
        except TypeError as error:
            raise TypeError(_told(called, takes, args, settings, error)) from None

    doc = f"""{says}; a leaf, with torch's arguments.

    It lives on the device of the active graph, else on torch's default device, unless ``device`` says otherwise.
    """
    return named(make, name, _signature((), takes), doc)


def _told(called, takes, args, settings, error):
    """The reason why torch refuses the arguments, and the arguments that exist."""
    flat = [one for arg in args for one in (arg if isinstance(arg, list | tuple) else [arg])]
    wrong = next((wrong for one in flat if (wrong := no_number(one)) is not None), None)
    if wrong is None and takes == "*size":
        float_ = next((one for one in flat if isinstance(one, float)), None)
        wrong = None if float_ is None else f"{float_} for a size: a // b divides to a whole number, a / b to a float"
    known = {*_SETTINGS, *(part.partition("=")[0].lstrip("*") for part in takes.split(", ")), "out", "names"}
    unknown = next((name for name in settings if name not in known), None)
    if wrong is None and unknown is not None:
        meant = nearest(unknown, known) or f". It is written {called}({takes})"
        return f"{called}(): there is no argument {unknown}{meant}"
    said = str(error).partition(", but expected one of")[0] if wrong is None else f"it got {wrong}"
    return f"{called}(): {said}. It is written {called}({takes})"


def _maker_like(name, takes, says):
    """The function of that name. Its result is like its first argument in shape and, by default, in the rest."""
    torchs = getattr(torch, name)

    def make(input, *args, **settings):
        like = raw_of(input)
        return _leaf(name, lambda *rest, **named: torchs(like, *rest, **named), args, settings)

    doc = f"{says}, with the shape, element type and device of input as defaults; a leaf, no gradient flows to input."
    return named(make, name, _signature(("input",), takes), doc)


def _new(name, says):
    """The method of that name, by torch's own."""

    def new(self, *args, **settings):
        return _leaf(name, getattr(self.data, name), args, settings)

    doc = f"{says}, with the element type and on the device of this one unless told otherwise."
    return named(new, name, _signature(("self",), "*args"), doc)


def as_tensor(data, dtype=None, device=None):
    """Data as a tensor without a copy where that can be: a tensor is itself, an array of numpy shares its memory.

    Data of another element type or device is converted to the requested one; gradients flow through this conversion.

    Raises:
        RuntimeError: a CUDA device where there is none.
    """
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    if isinstance(data, torch.Tensor):
        return tensor(data, dtype=dtype, device=device)
    place = current().device if device is None else check_device(device)
    return Tensor(raw_from(torch.as_tensor, data, dtype=dtype, device=place))


def normal(mean, std=1.0, size=None, *, generator=None, dtype=None, device=None, requires_grad=False):
    """Normal random numbers: with the means and standard deviations of tensors, or two numbers and a ``size``.

    With a size it is a leaf of that shape, with torch's settings by name; it lives on the device of the active graph
    unless ``device`` says otherwise.

    Shapes: mean and std broadcast to the output, or it is ``size``. Raises RuntimeError for a negative standard
    deviation.
    """
    if size is None:
        return random.normal(mean, std, generator=generator)
    place = current().device if device is None else device
    settings = {"generator": generator, "dtype": dtype, "device": place, "requires_grad": requires_grad}
    return _leaf("normal", torch.normal, (mean, std, size), settings)


globals().update({name: _maker(name, *texts) for name, texts in _MADE.items()})
globals().update({name: _maker_like(name, *texts) for name, texts in _LIKE.items()})
for _name, _says in _NEW.items():
    install(_name, _new(_name, _says))

"""Warnings and errors: their texts, their lines and their tracebacks."""

import logging
import sys
import traceback
import warnings

import torch
from torch import nn
from torch.nn import functional

from tests.recorder.unnoticed.registry import program


@program("mse_loss with shapes that do not fit, at two lines: torch warns at both")
def mismatched_losses():
    a, b = torch.randn(4, 1, requires_grad=True), torch.randn(4)
    first = functional.mse_loss(a, b)
    second = functional.mse_loss(a * 2, b)
    third = nn.MSELoss()(a, b)
    for _ in range(2):
        fourth = functional.l1_loss(a, b)
    fifth = functional.smooth_l1_loss(a, b) + functional.huber_loss(a, b)
    (first + second + third + fourth + fifth).backward()
    return a.grad, first


@program("warnings collected by catch_warnings, with always and with once")
def collected_warnings():
    a, b = torch.randn(4, 1), torch.randn(4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            functional.mse_loss(a, b)
        functional.softmax(a)
        nn.Softmax()(a)
        functional.interpolate(torch.rand(1, 1, 4, 4), scale_factor=2.0, mode="bilinear", recompute_scale_factor=True)
        functional.tanh(a)
        torch.range(0, 3)
        functional.upsample(torch.rand(1, 1, 2, 2), scale_factor=2)
    return [(str(one.message), one.category.__name__, one.filename, one.lineno) for one in caught]


@program("a warning that is made an error, and caught")
def warning_as_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            functional.mse_loss(torch.ones(3, 1, requires_grad=True), torch.ones(3)).backward()
        except UserWarning as error:
            return str(error), traceback.format_exc()


@program("functions whose implicit dimension torch warns of")
def implicit_dimensions():
    x = torch.randn(3, 4, requires_grad=True)
    a = functional.softmax(x)
    b = functional.log_softmax(x)
    c = functional.softmin(x)
    d = nn.Softmax()(x)
    (a + b + c + d).sum().backward()
    return x.grad


@program("deprecated names that warn: sigmoid, tanh, dropout of other ranks, uint8 masks, .T of three dimensions")
def deprecated():
    x = torch.randn(2, 3, 4, requires_grad=True)
    y = functional.sigmoid(x) + functional.tanh(x)
    z = functional.dropout2d(x[0], 0.5)
    t = x.T
    mask = torch.tensor([1, 0, 1], dtype=torch.uint8)
    picked = x[0, mask]
    (y.sum() + z.sum() + t.sum() + picked.sum()).backward()
    return y, z, t, x.grad


@program("reading .grad of a tensor that is no leaf: torch warns at the line")
def grad_of_no_leaf():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.sum().backward()
    first = y.grad
    second = y.grad
    return first, second, x.grad


@program("an error of cross_entropy that is caught and printed with its traceback")
def printed_traceback():
    try:
        functional.cross_entropy(torch.randn(3, 4), torch.tensor([0, 1]))
    except ValueError:
        text = traceback.format_exc()
        print(text)
    return text, len(text.splitlines())


@program("an error in a module's forward: the frames of all modules")
def error_in_modules():
    net = nn.Sequential(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), nn.Linear(5, 1))
    try:
        net(torch.randn(2, 3))
    except RuntimeError as error:
        found = [(one.name, one.lineno) for one in traceback.extract_tb(error.__traceback__)]
        return found, str(error), error.args, getattr(error, "__notes__", None), error.__context__


@program("an error in a module that ends the program")
def error_that_ends_the_program():
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(5, 1))
    print("begins")
    out = net(torch.randn(2, 3))
    print("never", out)


@program("an error of a function of torch that ends the program")
def error_of_torch():
    a, b = torch.randn(2, 3), torch.randn(2, 3)
    torch.matmul(a, b)


@program("an error of nll_loss that ends the program: it lies in torch's Python code")
def error_of_a_loss():
    logits = torch.randn(2, 3, requires_grad=True)
    functional.nll_loss(logits, torch.tensor([7, 1]))


@program("a user's own exception in a training loop")
def own_exception():
    class Diverged(Exception):
        pass

    def check(loss, step):
        if step == 2:
            raise Diverged(f"step {step}") from ValueError("inner")
        return loss

    w = torch.ones(1, requires_grad=True)
    for step in range(3):
        check((w * step).sum(), step).backward()


@program("backward a second time: the error is printed")
def second_backward():
    x = torch.ones(3, requires_grad=True)
    loss = (x * x).sum()
    loss.backward()
    try:
        loss.backward()
    except RuntimeError as error:
        print(error)
        text = traceback.format_exc()
    return text, x.grad


@program("backward without a gradient function, and of a vector: the texts are printed")
def refused_backwards():
    texts = []
    x = torch.ones(3, requires_grad=True)
    tries = [
        lambda: torch.ones(3).sum().backward(),
        lambda: (x * 2).backward(),  # noqa: PLW0108
        lambda: torch.autograd.grad(x.sum(), torch.ones(2, requires_grad=True)),
        lambda: x.detach().sum().backward(),
        lambda: torch.autograd.grad((x * 2).sum(), x, torch.ones(2)),
        lambda: (x.int() * 1.0).sum().backward(),
    ]
    for one in tries:
        try:
            one()
        except RuntimeError as error:
            # The note is all that recording may add to an error.
            error.__notes__ = [note for note in getattr(error, "__notes__", []) if not note.startswith("nbgrad: ")]
            texts.append(traceback.format_exc())
    print(*texts, sep="\n")
    return texts


@program("an in-place change that breaks a backward: the error and its hint")
def broken_by_in_place():
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    loss = y.sum()
    y.add_(1)
    try:
        loss.backward()
    except RuntimeError as error:
        return str(error), traceback.format_exc(), x.grad


@program("in-place changes that torch refuses: a leaf, a view of a leaf, an expanded tensor")
def refused_in_place():
    texts = []
    x = torch.ones(3, requires_grad=True)
    tries = [
        lambda: x.add_(1),
        lambda: x[0].add_(1),
        lambda: x.__setitem__(0, 1.0),
        lambda: torch.ones(1).expand(3).add_(torch.ones(3)),
        lambda: (x * 2).unbind()[0].mul_(2),
    ]
    for one in tries:
        try:
            texts.append(str(one()))
        except RuntimeError as error:
            texts.append((str(error), len(traceback.extract_tb(error.__traceback__))))
    return texts


# The warning lists every frame of the forward. In a cell that is one of ours too, in which the cell is awaited.
@program("anomaly mode of torch: its warning names the line of the forward", cell=False)
def anomaly():
    x = torch.tensor([-1.0], requires_grad=True)
    with torch.autograd.detect_anomaly():
        y = x.sqrt()
        loss = y.sum()
        try:
            loss.backward()
        except RuntimeError as error:
            print(error)
    return x.grad


@program("arguments of wrong types: torch's TypeErrors")
def type_errors():
    texts = []
    x = torch.ones(3)
    tries = [
        lambda: x + "a",
        lambda: torch.sum(x, dim="a"),
        lambda: functional.relu([1.0]),
        lambda: torch.add(x),
        lambda: nn.Linear(3, 2)(x, x),
        lambda: x.view(2, 2),
        lambda: torch.cat([x, 1]),
        lambda: x.no_such_method(),  # noqa: PLW0108
        lambda: torch.nn.functional.no_such_function(x),
        lambda: functional.conv2d(x, x),
        lambda: x[5],
        lambda: bool(torch.ones(2)),
        lambda: float(torch.ones(2)),
        lambda: functional.one_hot(x),
        lambda: functional.gelu(x, approximate="none", more=1),
        lambda: functional.dropout(x, p=2.0),
        lambda: nn.Linear(3, 2).no_such_attribute,
        lambda: torch.stack([]),
    ]
    for one in tries:
        try:
            one()
        except Exception as error:
            frames = [(one.name, one.lineno) for one in traceback.extract_tb(error.__traceback__)]
            texts.append((type(error).__name__, str(error), frames))
    return texts


@program("an error inside a hook, a backward of the user, and a closure")
def errors_inside():
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise ArithmeticError("in backward")

    texts = []
    x = torch.ones(2, requires_grad=True)
    y = torch.ones(2, requires_grad=True)
    y.register_hook(lambda grad: 1 / 0)
    net = nn.Linear(2, 1)
    net.register_forward_hook(lambda *args: [][0])  # noqa: PLE0643
    optimizer = torch.optim.SGD([x], lr=0.1)
    tries = [
        lambda: Bad.apply(x).sum().backward(),
        lambda: (y * 2).sum().backward(),
        lambda: net(x),
        lambda: optimizer.step(lambda: {}["loss"]),
    ]
    for one in tries:
        try:
            one()
        except Exception as error:
            frames = [(one.name, one.lineno) for one in traceback.extract_tb(error.__traceback__)]
            texts.append((type(error).__name__, str(error), frames))
    return texts, x.grad


@program("warnings.warn in a module's forward with a stack level")
def own_warning():
    class Old(nn.Module):
        def forward(self, x):
            warnings.warn("this layer is old", DeprecationWarning, stacklevel=2)
            warnings.warn("called so", stacklevel=3)
            return x * 2

    net = nn.Sequential(Old(), Old())
    for _ in range(2):
        net(torch.ones(2))
    return Old()(torch.ones(1, requires_grad=True))


@program("logging, sys._getframe and the stack inside a forward")
def stack_inside():
    class Where(nn.Module):
        def forward(self, x):
            self.stack = [one.name for one in traceback.extract_stack()]
            self.caller = sys._getframe(1).f_code.co_name
            logging.getLogger("model").warning("forward of %s", type(self).__name__)
            return x

    net = nn.Sequential(Where())
    net(torch.ones(1))
    return net[0].stack[-1], net[0].stack.count("forward"), net[0].caller


@program("NaN checks with assert, isfinite, and a warning of the user's")
def checks():
    x = torch.tensor([1.0, float("nan"), float("inf")], requires_grad=True)
    if not torch.isfinite(x).all():
        warnings.warn(f"{(~torch.isfinite(x)).sum().item()} values are not finite", RuntimeWarning, stacklevel=1)
    torch.nan_to_num(x).sum().backward()
    try:
        torch.testing.assert_close(x, x + 1)
    except AssertionError as error:
        return str(error), x.grad


@program("a lr_scheduler, a requires_grad of integers, a negative size: errors of constructors")
def constructor_errors():
    texts = []
    tries = [
        lambda: torch.ones(2, dtype=torch.int64, requires_grad=True),
        lambda: nn.Linear(-1, 2),
        lambda: nn.Conv2d(3, 4, 3, padding="some"),
        lambda: torch.optim.SGD([], lr=0.1),
        lambda: torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=-1),
        lambda: torch.optim.Adam([torch.ones(1, requires_grad=True) * 2]),
        lambda: nn.MultiheadAttention(5, 2),
        lambda: nn.Parameter("a"),
        lambda: nn.Sequential(1),
        lambda: torch.tensor("a"),
        lambda: torch.zeros(2).to("nowhere"),
    ]
    for one in tries:
        try:
            one()
        except Exception as error:
            texts.append(traceback.format_exc())
            texts.append(repr(error))
    return texts


@program("KeyboardInterrupt and SystemExit raised by the program and caught")
def interrupts():
    seen = []
    w = torch.ones(1, requires_grad=True)
    for kind in (KeyboardInterrupt, SystemExit):
        try:
            loss = (w * 2).sum()
            raise kind
        except (KeyboardInterrupt, SystemExit) as error:
            loss.backward()
            seen.append(repr(error))
    return seen, w.grad


@program("sys.exit ends the program")
def exits():
    w = torch.ones(1, requires_grad=True)
    (w * 2).sum().backward()
    print("done")
    sys.exit(3)


@program("an exception in no_grad, in enable_grad, in a mode: the state is restored")
def states_after_errors():
    seen = []
    for manager in (torch.no_grad(), torch.enable_grad(), torch.inference_mode(), torch.autograd.detect_anomaly(False)):
        try:
            with manager:
                torch.ones(2) @ torch.ones(3)
        except RuntimeError:
            seen.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_anomaly_enabled()))
    return seen

"""Habits of notebooks around a model: progress bars, plots as arrays, helpers, parametrizations, odd ends."""

import asyncio
import contextlib
import dataclasses
import functools
import gc
import inspect
import io
import itertools
import json
import sys
import time
import weakref
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from tests.recorder.unnoticed.registry import program


@program("tqdm around a loop, with set_postfix, written to the standard error")
def progress_bar():
    from tqdm import tqdm

    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    bar = tqdm(range(3), bar_format="{desc} {n_fmt}/{total_fmt} {postfix}", file=sys.stderr, mininterval=0, miniters=1)
    for epoch in bar:
        optimizer.zero_grad()
        loss = net(torch.randn(4, 2)).pow(2).mean()
        loss.backward()
        optimizer.step()
        bar.set_description(f"epoch {epoch}")
        bar.set_postfix(loss=f"{loss.item():.3f}")
    return net


@program("progress with carriage returns and end='', flushed")
def carriage_returns():
    w = torch.ones(1, requires_grad=True)
    for step in range(3):
        (w * step).sum().backward()
        print(f"\rstep {step} grad {w.grad.item():.1f}", end="", flush=True)
    print()
    sys.stderr.write("to the standard error\n")
    return w.grad


@program("a decision boundary as an array: meshgrid, no_grad, reshape, argmax")
def boundary():
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))
    xx, yy = np.meshgrid(np.linspace(-1, 1, 5), np.linspace(-1, 1, 4))
    grid = torch.tensor(np.c_[xx.ravel(), yy.ravel()], dtype=torch.float32)
    with torch.no_grad():
        zz = net(grid).argmax(1).reshape(xx.shape).numpy()
    return xx, zz, np.bincount(zz.ravel(), minlength=3)


@program("loss curves as lists, histograms of weights and of gradients, the ratio of updates")
def curves():
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
    history, ratios = defaultdict(list), []
    for _ in range(4):
        loss = net(torch.randn(6, 3)).square().mean()
        for one in net.parameters():
            one.grad = None
        loss.backward()
        history["loss"].append(loss.log10().item())
        with torch.no_grad():
            ratios.append(
                [(0.1 * one.grad.std() / one.data.std()).log10().item() for one in net.parameters() if one.ndim > 1]
            )
            for one in net.parameters():
                one -= 0.1 * one.grad
    counts, edges = np.histogram(net[0].weight.detach().numpy(), bins=4)
    hist = torch.histogram(net[0].weight.grad.flatten(), bins=4)
    return dict(history), ratios, counts, edges, hist.hist


@program("a class that counts the forward calls by replacing forward, and puts it back")
def replaced_forward():
    net = nn.Linear(2, 2)
    calls = []
    original = net.forward

    @functools.wraps(original)
    def counted(*args, **kwargs):
        calls.append(len(args))
        return original(*args, **kwargs)

    net.forward = counted
    net(torch.ones(1, 2)).sum().backward()
    del net.forward
    net(torch.ones(1, 2)).sum().backward()
    return calls, net


@program("Module.__call__ taken and called, and a class that defines __call__")
def module_call_taken():
    class Direct(nn.Module):
        def forward(self, x):
            return x * 2

        __call__ = nn.Module.__call__

    class Own(nn.Module):
        def __call__(self, x):
            return super().__call__(x) + 1

        def forward(self, x):
            return x * 3

    x = torch.ones(2, requires_grad=True)
    call = nn.Linear(2, 2).__call__
    out = Direct()(x) + Own()(x) + nn.Module.__call__(Own(), x) + call(x)
    out.sum().backward()
    return x.grad, Direct, callable(call), Direct()(x)


@program("functions of torch patched by the program for a while")
def patched():
    original = functional.relu
    calls = []

    def watched(x, inplace=False):
        calls.append(tuple(x.shape))
        return original(x, inplace)

    functional.relu = watched
    try:
        net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        net(torch.ones(1, 2)).sum().backward()
    finally:
        functional.relu = original
    return calls, functional.relu is original, net


@program("Tensor.backward and Module.__call__ patched by a library that puts back what it found")
def patched_and_put_back():
    backward, call, step = torch.Tensor.backward, nn.Module.__call__, torch.optim.SGD.step
    seen = []

    def logged(self, *args, **kwargs):
        seen.append("backward")
        return backward(self, *args, **kwargs)

    torch.Tensor.backward = logged
    nn.Module.__call__ = lambda self, *args, **kwargs: seen.append(type(self).__name__) or call(self, *args, **kwargs)
    net = nn.Linear(2, 1)
    net(torch.ones(1, 2)).sum().backward()
    torch.Tensor.backward, nn.Module.__call__ = backward, call
    net(torch.ones(1, 2)).sum().backward()
    return seen, torch.Tensor.backward is backward, nn.Module.__call__ is call, torch.optim.SGD.step is step, net


@program("inspect: signatures, sources and module names of torch's functions and of the user's forward")
def inspected():
    class Net(nn.Module):
        def forward(self, x, scale=2.0):
            return x * scale

    # Two things tell that a graph is open: torch's stack has a mode, and nn.Module.__call__ is no function of Python's.
    return (
        str(inspect.signature(Net().forward)),
        str(inspect.signature(nn.Module.__call__)),
        str(inspect.signature(functional.mse_loss)),
        nn.Module.__call__.__qualname__,
        functional.relu.__module__,
        torch.Tensor.backward.__qualname__,
        len(inspect.getsource(nn.Linear.forward)),
        torch.autograd.Function.apply.__name__,
        torch.overrides.has_torch_function((torch.ones(1),)),
        torch.overrides.has_torch_function_unary(torch.ones(1)),
        torch.overrides.is_tensor_method_or_property(torch.Tensor.add),
    )


@program("weight norm, spectral norm and orthogonal parametrizations")
def parametrized():
    from torch.nn.utils import parametrizations

    made = []
    for wrap in (parametrizations.weight_norm, parametrizations.spectral_norm, parametrizations.orthogonal):
        net = wrap(nn.Linear(3, 3))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.randn(4, 3)).pow(2).sum().backward()
            optimizer.step()
        nn.utils.parametrize.remove_parametrizations(net, "weight")
        made.append(net)
    return made


@program("the old weight_norm, of which torch warns, and spectral_norm")
def old_norms():
    first, second = nn.utils.weight_norm(nn.Linear(3, 2)), nn.utils.spectral_norm(nn.Linear(3, 2))
    (first(torch.randn(4, 3)) + second(torch.randn(4, 3))).sum().backward()
    nn.utils.remove_weight_norm(first)
    return first, second, repr(first)


@program("a parametrization of the user's, cached")
def own_parametrization():
    from torch.nn.utils import parametrize

    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).mT

        def right_inverse(self, a):
            return a.triu()

    net = nn.Linear(3, 3)
    parametrize.register_parametrization(net, "weight", Symmetric())
    with parametrize.cached():
        first, second = net.weight, net.weight
        (net(torch.ones(1, 3)) + net(torch.ones(1, 3))).sum().backward()
    net.weight = torch.eye(3)
    return first is second, net.weight, net.parametrizations.weight.original.grad, type(net).__name__


@program("LoRA: a low-rank layer around a frozen one, merged at the end")
def low_rank():
    class LoRA(nn.Module):
        def __init__(self, base, rank=2):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.a = nn.Parameter(torch.randn(rank, base.in_features) * 0.1)
            self.b = nn.Parameter(torch.zeros(base.out_features, rank))

        def forward(self, x):
            return self.base(x) + x @ self.a.T @ self.b.T

        @torch.no_grad()
        def merge(self):
            self.base.weight += self.b @ self.a
            return self.base

    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2))
    for name, child in list(net.named_children()):
        if isinstance(child, nn.Linear):
            setattr(net, name, LoRA(child))
    optimizer = torch.optim.AdamW([one for one in net.parameters() if one.requires_grad], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        net(torch.randn(4, 3)).square().mean().backward()
        optimizer.step()
    return net, net[0].merge(), sum(one.numel() for one in net.parameters() if one.requires_grad)


@program("pruning: masks as buffers and a forward pre-hook")
def pruned():
    from torch.nn.utils import prune

    net = nn.Linear(4, 3)
    prune.l1_unstructured(net, "weight", amount=0.5)
    net(torch.randn(2, 4)).sum().backward()
    kept = net.weight_orig.grad.clone(), list(dict(net.named_buffers()))
    prune.remove(net, "weight")
    return net, kept


@program("lazy modules that get their shapes at the first call")
def lazy():
    net = nn.Sequential(nn.LazyConv2d(3, 2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
    before = type(net[0]).__name__, repr(net[3])
    net(torch.randn(2, 1, 4, 4)).sum().backward()
    return before, type(net[0]).__name__, net


@program("a summary of a model: hooks that collect shapes, counts of parameters, a printed table")
def summary():
    net = nn.Sequential(
        OrderedDict(conv=nn.Conv2d(1, 2, 3), act=nn.ReLU(), pool=nn.AdaptiveAvgPool2d(1), flat=nn.Flatten())
    )
    rows, handles = [], []
    for name, module in net.named_modules():
        handles.append(
            module.register_forward_hook(
                lambda m, args, out, name=name: rows.append((name, tuple(args[0].shape), tuple(out.shape)))
            )
        )
    net.eval()
    with torch.no_grad():
        net(torch.zeros(1, 1, 8, 8))
    for one in handles:
        one.remove()
    for name, a, b in rows:
        print(f"{name:10} {a!s:20} {b!s:20}")
    return rows, len(net._forward_hooks), net


@program("a Trainer class with callbacks, a dataclass of options and a context manager")
def trainer():
    @dataclasses.dataclass
    class Options:
        rate: float = 0.1
        steps: int = 3

    class Trainer:
        def __init__(self, net, options):
            self.net, self.options, self.callbacks = net, options, []
            self.optimizer = torch.optim.SGD(net.parameters(), lr=options.rate)

        @contextlib.contextmanager
        def evaluating(self):
            training = self.net.training
            self.net.eval()
            with torch.no_grad():
                yield self
            self.net.train(training)

        def fit(self):
            for step in range(self.options.steps):
                loss = self.net(torch.randn(4, 2)).square().mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                for one in self.callbacks:
                    one(step, loss.detach())

    one = Trainer(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.2)), Options())
    log = []
    one.callbacks.append(lambda step, loss: log.append((step, loss)))
    one.fit()
    with one.evaluating():
        out = one.net(torch.ones(1, 2))
    return one.net, log, out, one.net.training, one.options


@program("a generator that trains and yields losses, closed before its end")
def generator():
    net = nn.Linear(2, 1)

    def train():
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        try:
            while True:
                optimizer.zero_grad()
                loss = net(torch.randn(3, 2)).pow(2).sum()
                loss.backward()
                optimizer.step()
                yield loss.item()
        finally:
            print("closed")

    losses = train()
    first = list(itertools.islice(losses, 3))
    losses.close()
    return first, net


@program("asyncio: two tasks that train in turn")
def tasks():
    async def work(seed):
        torch.manual_seed(seed)
        w = torch.randn(2, requires_grad=True)
        for _ in range(2):
            await asyncio.sleep(0)
            (w * seed).sum().backward()
        return w.grad

    async def both():
        return await asyncio.gather(work(1), work(2))

    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(both())
    finally:
        loop.close()


@program("redirected output, print to a string, print options, and numpy's")
def redirected():
    stream = io.StringIO()
    x = torch.tensor([1.123456, 2.0], requires_grad=True)
    with contextlib.redirect_stdout(stream):
        print(x, x * 2, (x * 2).sum().backward())
    torch.set_printoptions(precision=2, sci_mode=False)
    print(x)
    torch.set_printoptions(profile="default")
    with np.printoptions(precision=1):
        print(x.detach().numpy())
    return stream.getvalue(), x.grad


@program("results as JSON, CSV and npz, a log file and a folder of checkpoints")
def files():
    net = nn.Linear(2, 1)
    folder = Path("runs/first")
    folder.mkdir(parents=True)
    with (folder / "log.csv").open("w", encoding="utf-8") as log:
        for step in range(3):
            loss = net(torch.ones(1, 2)).sum()
            loss.backward()
            log.write(f"{step},{loss.item():.6f}\n")
            torch.save(net.state_dict(), folder / f"{step}.pt")
    (folder / "result.json").write_text(json.dumps({"grad": net.weight.grad.tolist()}), encoding="utf-8")
    np.savez(folder / "weights.npz", **{key: one.numpy() for key, one in net.state_dict().items()})
    return sorted(one.name for one in folder.iterdir()), np.load(folder / "weights.npz")["weight"]


@program("k-fold cross validation with a fresh model and optimizer for each fold")
def folds():
    x, y = torch.randn(9, 2), torch.randn(9, 1)
    scores = []
    for fold in range(3):
        held = torch.arange(9) % 3 == fold
        net = nn.Linear(2, 1)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            functional.mse_loss(net(x[~held]), y[~held]).backward()
            optimizer.step()
        with torch.no_grad():
            scores.append(functional.mse_loss(net(x[held]), y[held]).item())
    return scores, np.mean(scores)


@program("weights set by hand, init functions, apply, state dicts edited")
def initialised():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))

    def start(module):
        if type(module) is nn.Linear:
            nn.init.xavier_uniform_(module.weight)
            nn.init.constant_(module.bias, 0.1)

    net.apply(start)
    with torch.no_grad():
        net[0].weight.copy_(torch.ones(3, 2))
        net[2].bias[:] = 5
    net[0].bias = nn.Parameter(torch.zeros(3))
    net[2].weight.data.fill_(0.5)
    state = net.state_dict()
    state["2.bias"] = torch.tensor([7.0])
    net.load_state_dict(state)
    net(torch.randn(4, 2)).sum().backward()
    return net


@program("micrograd by hand next to torch: a user's class with operators, checked against torch")
def by_own_engine():  # the text of a notebook  # noqa: C901
    class Value:
        def __init__(self, data, parents=()):
            self.data, self.grad, self.parents, self.step = data, 0.0, parents, lambda: None

        def __mul__(self, other):
            other = other if isinstance(other, Value) else Value(other)
            out = Value(self.data * other.data, (self, other))

            def step():
                self.grad += other.data * out.grad
                other.grad += self.data * out.grad

            out.step = step
            return out

        def __add__(self, other):
            out = Value(self.data + other.data, (self, other))

            def step():
                self.grad += out.grad
                other.grad += out.grad

            out.step = step
            return out

        def backward(self):
            order, known = [], set()

            def visit(one):
                if one not in known:
                    known.add(one)
                    for before in one.parents:
                        visit(before)
                    order.append(one)

            visit(self)
            self.grad = 1.0
            for one in reversed(order):
                one.step()

    a, b = Value(2.0), Value(-3.0)
    (a * b + a * a).backward()
    x, y = torch.tensor(2.0, requires_grad=True), torch.tensor(-3.0, requires_grad=True)
    (x * y + x * x).backward()
    return a.grad == x.grad.item(), b.grad == y.grad.item(), x.grad


@program("backprop by hand: all gradients computed and compared with autograd")
def manual_backprop():
    w1, w2 = torch.randn(3, 4, requires_grad=True), torch.randn(4, 2, requires_grad=True)
    x, y = torch.randn(5, 3), torch.tensor([0, 1, 1, 0, 1])
    h = torch.tanh(x @ w1)
    logits = h @ w2
    shifted = logits - logits.max(1, keepdim=True).values
    probabilities = shifted.exp() / shifted.exp().sum(1, keepdim=True)
    loss = -probabilities[range(5), y].log().mean()
    for one in (h, logits, probabilities):
        one.retain_grad()
    loss.backward()
    d = functional.softmax(logits, 1)
    d[range(5), y] -= 1
    d /= 5
    dw2 = h.T @ d
    dw1 = x.T @ ((1 - h**2) * (d @ w2.T))
    checks = [torch.allclose(a, b, atol=1e-6) for a, b in ((dw1, w1.grad), (dw2, w2.grad), (d, logits.grad))]
    return checks, h.grad, probabilities.grad, loss


@program("numerical gradients: gradcheck, finite differences, torch.gradient")
def checked():
    w = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)
    good = torch.autograd.gradcheck(lambda a: (a @ a).tanh(), (w,))
    twice = torch.autograd.gradgradcheck(torch.sin, (w,))
    step = 1e-6
    with torch.no_grad():
        slope = ((w + step).pow(3).sum() - w.pow(3).sum()) / step
    return good, twice, slope, torch.gradient(torch.arange(5.0) ** 2)


@program("timing and memory: perf_counter, gc, sys.getrefcount, weak sets of tensors")
def measured():
    begun = time.perf_counter()
    net = nn.Linear(2, 2)
    x = torch.randn(2, 2)
    out = net(x)
    # The graph holds x until it closes: then it reads the numbers of constants.
    counts = sys.getrefcount(net.weight), sys.getrefcount(out)
    alive = weakref.WeakSet([out])
    out.sum().backward()
    del out
    gc.collect()
    return counts, len(alive), time.perf_counter() > begun


@program("a NamedTuple, a dict and a dataclass as the output of a module")
def outputs():
    class Result(NamedTuple):
        logits: torch.Tensor
        hidden: torch.Tensor

    @dataclasses.dataclass
    class Output:
        loss: torch.Tensor
        parts: dict

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x, *, kind="tuple", **more):
            hidden = self.linear(x)
            if kind == "tuple":
                return Result(hidden.softmax(-1), hidden)
            return Output(hidden.sum(), {"hidden": hidden, **more})

    net = Net()
    a = net(torch.ones(1, 2))
    b = net(torch.ones(1, 2), kind="data", extra=1)
    (a.logits[0, 0] + b.loss).backward()
    return a, b.loss, sorted(b.parts), net


@program("ParameterList, ParameterDict, buffers, tied weights, shared modules, register_parameter(None)")
def containers():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.list = nn.ParameterList([torch.ones(2), torch.zeros(2)])
            self.dict = nn.ParameterDict({"a": torch.full((2,), 2.0)})
            self.register_buffer("count", torch.zeros((), dtype=torch.long))
            self.register_buffer("hidden", torch.ones(2), persistent=False)
            self.register_parameter("none", None)
            self.first = nn.Linear(2, 2, bias=False)
            self.second = nn.Linear(2, 2, bias=False)
            self.second.weight = self.first.weight

        def forward(self, x):
            self.count += 1
            return self.second(self.first(x)) * self.list[0] + self.dict["a"] * self.hidden

    net = Net()
    net(net(torch.ones(1, 2))).sum().backward()
    return net, sorted(net.state_dict()), len(list(net.parameters())), net.first.weight.grad is net.second.weight.grad


@program("graph networks: scatter_add, index_add, sparse adjacency, message passing")
def graph_network():
    edges = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 1]])
    x = torch.randn(3, 4, requires_grad=True)
    message = x[edges[0]]
    summed = torch.zeros(3, 4).index_add(0, edges[1], message)
    largest = torch.zeros(3, 4).scatter_reduce(0, edges[1][:, None].expand(-1, 4), message, "amax", include_self=False)
    degree = torch.zeros(3).scatter_add_(0, edges[1], torch.ones(4))
    adjacency = torch.sparse_coo_tensor(edges, torch.ones(4), (3, 3), check_invariants=True).coalesce()
    out = (summed + largest) / degree.clamp(min=1)[:, None] + torch.sparse.mm(adjacency, x)
    out.pow(2).mean().backward()
    return out, x.grad, degree


@program("boxes and images: grid_sample, interpolate, roll, flip, unfold, IoU by broadcasting")
def images():
    image = torch.rand(1, 2, 5, 5, requires_grad=True)
    theta = torch.tensor([[[0.9, 0.1, 0.0], [0.0, 0.8, 0.1]]], requires_grad=True)
    warped = functional.grid_sample(image, functional.affine_grid(theta, [1, 2, 4, 4], align_corners=False))
    larger = functional.interpolate(warped, scale_factor=2, mode="bilinear")
    a, b = torch.rand(3, 4), torch.rand(2, 4)
    low, high = torch.max(a[:, None, :2], b[:, :2]), torch.min(a[:, None, 2:], b[:, 2:])
    area = (high - low).clamp(min=0).prod(-1)
    (larger.sum() + image.roll(1, 2).flip(3).unfold(2, 2, 1).pow(2).sum()).backward()
    return warped, larger, area, image.grad, theta.grad


@program("contrastive learning: normalize, a temperature, cross entropy over similarities, momentum encoder")
def contrastive():
    net = nn.Linear(4, 3)
    scale = nn.Parameter(torch.tensor(2.0))
    a, b = functional.normalize(net(torch.randn(5, 4)), dim=-1), functional.normalize(net(torch.randn(5, 4)), dim=-1)
    logits = scale.exp() * a @ b.t()
    labels = torch.arange(5)
    loss = (
        functional.cross_entropy(logits, labels) + functional.cross_entropy(logits.t(), labels, label_smoothing=0.1)
    ) / 2
    loss.backward()
    return net, scale.grad, loss, nn.TripletMarginLoss()(a, b, a.roll(1, 0))


@program("meta-learning: inner steps by autograd.grad with create_graph, functional_call, outer backward")
def meta_learning():
    from torch.func import functional_call

    net = nn.Sequential(nn.Linear(1, 6), nn.Tanh(), nn.Linear(6, 1))
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(2):
        total = 0
        for _ in range(2):
            x = torch.rand(5, 1)
            y = torch.sin(x * 3)
            fast = dict(net.named_parameters())
            loss = functional.mse_loss(functional_call(net, fast, (x,)), y)
            grads = torch.autograd.grad(loss, fast.values(), create_graph=True)
            fast = {key: one - 0.1 * grad for (key, one), grad in zip(fast.items(), grads, strict=True)}
            total = total + functional.mse_loss(functional_call(net, fast, (x,)), y)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
    return net, total


@program("an ODE by Euler steps with an adjoint as a custom Function")
def neural_ode():
    class Step(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y, net, *params):
            ctx.net = net
            with torch.no_grad():
                states = [y]
                for _ in range(3):
                    states.append(states[-1] + 0.1 * net(states[-1]))
            ctx.save_for_backward(*states)
            return states[-1]

        @staticmethod
        def backward(ctx, grad):
            params = list(ctx.net.parameters())
            total = [torch.zeros_like(one) for one in params]
            for state in reversed(ctx.saved_tensors[:-1]):
                with torch.enable_grad():
                    y = state.detach().requires_grad_()
                    out = y + 0.1 * ctx.net(y)
                grad, *more = torch.autograd.grad(out, [y, *params], grad)
                total = [a + b for a, b in zip(total, more, strict=True)]
            return grad, None, *total

    net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))
    y = torch.randn(3, 2, requires_grad=True)
    out = Step.apply(y, net, *net.parameters())
    out.pow(2).sum().backward()
    return out, y.grad, net


@program("straight-through estimators, gumbel_softmax, a codebook with detach")
def straight_through():
    x = torch.randn(4, 3, requires_grad=True)
    hard = (x > 0).float()
    y = x + (hard - x).detach()
    book = nn.Embedding(5, 3)
    near = torch.cdist(x, book.weight).argmin(1)
    quantised = book(near)
    loss = functional.mse_loss(quantised, x.detach()) + 0.25 * functional.mse_loss(x, quantised.detach())
    picked = functional.gumbel_softmax(x, tau=0.5, hard=True)
    (y.sum() + loss + (picked * torch.arange(3.0)).sum()).backward()
    return y, near, picked, x.grad, book


@program("mixture of experts: topk routing, a loop over experts, a balance loss")
def experts():
    gate, nets = nn.Linear(3, 4), nn.ModuleList(nn.Linear(3, 2) for _ in range(4))
    x = torch.randn(6, 3)
    weights, chosen = gate(x).softmax(-1).topk(2)
    out = torch.zeros(6, 2)
    for number, net in enumerate(nets):
        rows, place = torch.where(chosen == number)
        if len(rows):
            out[rows] += weights[rows, place, None] * net(x[rows])
    balance = gate(x).softmax(-1).mean(0).pow(2).sum()
    (out.pow(2).mean() + balance).backward()
    return gate, nets, out, chosen


@program("in-place activations, += on results, out= arguments, and relu_ on a module's output")
def in_place_style():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))
    y = net(torch.randn(2, 3))
    y += 1
    y *= 2
    functional.dropout(y, 0.2, inplace=True)
    total = torch.empty(2)
    torch.sum(y.detach(), 0, out=total)
    y.relu_().sum().backward()
    with torch.no_grad():
        torch.add(total, 1, out=total)
    return net, y, total


@program("variables of old notebooks: Variable, volatile habits, torch.Tensor(...), .data[0], new()")
def old_style():
    from torch.autograd import Variable

    x = Variable(torch.Tensor([[1, 2], [3, 4]]), requires_grad=True)
    y = Variable(torch.FloatTensor(2, 2).zero_() + 1)
    z = (x * y).mean()
    z.backward()
    made = x.data.new(2).fill_(3), x.new_zeros(1), torch.Tensor(3).zero_(), z.data.item()
    return made, x.grad, type(y).__name__, isinstance(x, Variable)


@program("device and dtype moves: net.to(device), .cpu(), .double(), .half(), cuda.is_available()")
def moves():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = nn.Linear(2, 2).to(device)
    x = torch.ones(1, 2).to(device, non_blocking=True)
    net(x).sum().backward()
    net.double()
    net.zero_grad()
    net(x.double()).sum().backward()
    moved = net.to(torch.bfloat16)
    return moved is net, net, next(net.parameters()).grad, x.cpu() is x, torch.get_device_module("cpu").__name__, device


@program("bits of Python: lambda layers, partial, map, reduce, comprehension, recursion, closures over a loss")
def functional_style():
    layers = [functools.partial(functional.leaky_relu, negative_slope=0.1), torch.tanh, lambda x: x**2]
    w = torch.randn(3, requires_grad=True)
    out = functools.reduce(lambda x, f: f(x), layers, w * 2)

    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    total = sum(map(torch.sum, [out, power(w, 3), torch.stack([one * 2 for one in w])]))
    total.backward()
    return total, w.grad


@program("torch.library: a custom op with a backward, and a call of aten directly")
def library_ops():
    @torch.library.custom_op("unnoticed::scaled", mutates_args=())
    def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * factor

    scaled.register_fake(lambda x, factor: torch.empty_like(x))

    def setup(ctx, inputs, output):
        ctx.factor = inputs[1]

    scaled.register_autograd(lambda ctx, grad: (grad * ctx.factor, None), setup_context=setup)
    x = torch.randn(3, requires_grad=True)
    y = scaled(x, 3.0) + torch.ops.aten.sin.default(x) + torch.ops.unnoticed.scaled(x, 2.0)
    y.sum().backward()
    return y, x.grad


@program("flex attention and block masks in eager mode")
def flex():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v = (torch.randn(1, 1, 16, 8) for _ in range(3))
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device="cpu")
    with torch.no_grad():
        return flex_attention(q, k, v), flex_attention(
            q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j), block_mask=mask
        )


@program("a pipeline of datasets and transforms with the random module's state saved and restored")
def transforms():
    import random

    state = random.getstate()
    images = [torch.full((1, 4, 4), float(one)) for one in range(3)]
    augment = [lambda x: x.flip(-1) if random.random() < 0.5 else x, lambda x: x + 0.1 * torch.randn_like(x)]
    first = [functools.reduce(lambda x, f: f(x), augment, one) for one in images]
    random.setstate(state)
    again = random.random()
    mean, std = torch.stack(first).mean((0, 2, 3)), torch.stack(first).std((0, 2, 3))
    return first, again, mean, std


@program("metrics: confusion matrix, topk accuracy, precision from counts, one_hot, unique")
def metrics():
    logits, labels = torch.randn(8, 4), torch.randint(0, 4, (8,))
    guess = logits.argmax(1)
    matrix = torch.zeros(4, 4, dtype=torch.long)
    for a, b in zip(labels, guess, strict=True):
        matrix[a, b] += 1
    counted = torch.bincount(labels * 4 + guess, minlength=16).view(4, 4)
    top = (logits.topk(2).indices == labels[:, None]).any(1).float().mean().item()
    names, counts = labels.unique(return_counts=True)
    hot = functional.one_hot(labels, 4)
    precision = matrix.diag().float() / matrix.sum(0).clamp(min=1)
    print(f"accuracy {(guess == labels).float().mean():.3f} top-2 {top:.2f}")
    return matrix, counted, names, counts, hot, precision


@program("a loss with weights, ignore_index, pos_weight, reduction='none', masks and label smoothing")
def losses():
    logits = torch.randn(4, 3, requires_grad=True)
    labels = torch.tensor([0, 2, -100, 1])
    each = functional.cross_entropy(logits, labels, reduction="none")
    weighted = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]), label_smoothing=0.1)(logits, labels)
    soft = functional.cross_entropy(logits, torch.softmax(torch.randn(4, 3), 1))
    binary = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([2.0, 1.0, 1.0]))(logits, torch.rand(4, 3).round())
    focal = ((1 - (-each).exp()) ** 2 * each)[labels >= 0].mean()
    kl = functional.kl_div(logits.log_softmax(1), torch.softmax(torch.randn(4, 3), 1), reduction="batchmean")
    total = (
        weighted
        + soft
        + binary
        + focal
        + kl
        + functional.gaussian_nll_loss(logits, torch.zeros(4, 3), torch.ones(4, 3))
    )
    total.backward()
    return each, total, logits.grad


@program("kl_div with its default reduction, of which torch warns, and other losses that warn")
def losses_that_warn():
    p, q = torch.randn(2, 3).log_softmax(1), torch.softmax(torch.randn(2, 3), 1)
    first = functional.kl_div(p, q)
    second = nn.KLDivLoss()(p, q)
    third = nn.MSELoss(size_average=False)(p, q)
    fourth = functional.binary_cross_entropy(torch.rand(2), torch.rand(2), reduce=False)
    return first, second, third, fourth


@program("nested modules called with keyword arguments, hooks with kwargs, forward with defaults and star arguments")
def keyword_calls():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x, *rest, scale=1.0, **more):
            return self.linear(input=x) * scale + sum(rest) + more.get("shift", 0)

    net = Block()
    seen = []
    net.register_forward_pre_hook(lambda m, args, kwargs: seen.append((len(args), sorted(kwargs))), with_kwargs=True)
    net.register_forward_hook(lambda m, args, kwargs, out: out + 1, with_kwargs=True)
    out = net(torch.ones(1, 2), 1, 2.0, scale=torch.tensor(2.0), shift=3)
    out.sum().backward()
    return seen, out, net, functional.linear(weight=net.linear.weight, input=torch.ones(2))


@program("retained graphs over steps: truncated backprop with retain_graph, losses summed over a list")
def retained():
    w = torch.randn(2, 2, requires_grad=True)
    state, losses = torch.ones(2), []
    for _ in range(3):
        state = torch.tanh(w @ state)
        losses.append(state.pow(2).sum())
        losses[-1].backward(retain_graph=True)
    torch.stack(losses).sum().backward()
    return w.grad, losses


@program("a module moved through pickle, jit and deepcopy in the middle of its training")
def moved_in_training():
    import copy
    import pickle

    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        net(torch.randn(4, 2)).pow(2).mean().backward()
        optimizer.step()
        if step == 1:
            net, state = copy.deepcopy(pickle.loads(pickle.dumps(net))), optimizer.state_dict()
            optimizer = torch.optim.Adam(net.parameters())
            optimizer.load_state_dict(state)
    return net, optimizer

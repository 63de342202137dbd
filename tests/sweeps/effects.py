"""Random training steps that do more than train: compiled as plain over ten calls, or refused with all as before."""

import array
import contextvars
import functools
import heapq
import io
import itertools
import logging
import os
import queue
import random as python_random
import sys
import threading
import time
import warnings
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from contextlib import ExitStack, redirect_stdout
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.optim.optimizer as every_optimizer
from torch.overrides import TorchFunctionMode

import nbgrad
from nbgrad import nn
from nbgrad.core.symbolic.errors import TraceError

CASES = 30
WIDTH = 3

TOTAL = 0
"""A global variable that a step may change."""

VARIABLE: contextvars.ContextVar[int] = contextvars.ContextVar("effects", default=0)
BACKENDS: Any = torch.backends
LOGGER = logging.getLogger("tests.sweeps.effects")


class Net(nn.Module):
    """A small network with a setting, a buffer and a mode."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)
        self.drop = nn.Dropout(0.25)
        self.power, self.calls, self.mask = 1.0, 0, None
        self.register_buffer("average", nbgrad.zeros(WIDTH))

    def forward(self, x: Any) -> Any:
        return self.last(self.drop(nn.functional.tanh(self.first(x)) * self.power))


class Doubled(Net):
    """Another class for the same network."""

    def forward(self, x: Any) -> Any:
        return super().forward(x) * 2


class Slots:
    """An object without a ``__dict__``."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class World:
    """All that a step uses."""

    shared = 0

    def __init__(self, case: dict[str, Any]) -> None:
        torch.manual_seed(case["seed"])
        self.net: Any = Net()
        made = getattr(nbgrad.optim, case["optimizer"])
        self.opt = made(self.net.parameters(), **case["settings"])
        self.schedule = nbgrad.optim.lr_scheduler.StepLR(self.opt, 2, gamma=0.5) if case["schedule"] else None
        self.late = nbgrad.optim.lr_scheduler.LambdaLR(self.opt, lambda epoch: 1.0 if epoch < 4 else 0.5)
        self.count, self.flag, self.scale = 0, False, 1.0
        self.cache: Any = None
        self.memo: dict[Any, Any] = {}
        self.items: list[Any] = [1.0, 2.0, 3.0]
        self.names: set[Any] = {"a"}
        self.ring: deque[Any] = deque([1, 2, 3], maxlen=3)
        self.table: dict[str, float] = {"scale": 1.0}
        self.ordered = OrderedDict(a=1, b=2)
        self.tally: Counter[str] = Counter()
        self.numbers = np.ones(WIDTH, dtype=np.float32)
        self.bytes, self.array = bytearray(b"ab"), array.array("d", [1.0])
        self.slots, self.inner = Slots(), SimpleNamespace(deep=SimpleNamespace(count=0), call=lambda x: x * 1)
        self.heap = [5, 7]
        self.queue: queue.Queue[int] = queue.Queue()
        self.iterator, self.counter = iter([float(one) for one in range(99)]), itertools.count()
        self.generator = (float(one) for one in range(99))
        self.pairs = zip(range(99), [float(one) for one in range(99)], strict=True)
        self.mapped, self.numbered = map(float, range(99)), enumerate(range(99))
        self.random, self.draws = python_random.Random(3), np.random.default_rng(3)
        self.stream, self.pair = io.StringIO(), (1, 2)
        self.handles: list[Any] = []
        self.keywords = functools.partial(torch.mul, other=1.0)
        self.seen: list[str] = []
        self.local, self.more = closure()

    @functools.cached_property
    def factor(self) -> float:
        return 1.0

    def scaled(self, x: Any, by: float = 1.0) -> Any:
        return x * by * self.scale

    def told(self) -> list[Any]:
        """All that a user can see of it."""
        opt = [{key: value for key, value in group.items() if key != "params"} for group in self.opt.param_groups]
        plain = (
            *(self.count, self.flag, self.scale, self.items, sorted(self.names), list(self.ring), self.table),
            *(list(self.ordered.items()), dict(self.tally), self.numbers.tolist(), bytes(self.bytes), list(self.array)),
            *(self.slots.count, self.inner.deep.count, self.heap, self.queue.qsize(), self.pair, self.local()),
            *(self.net.training, self.net.power, self.net.calls, self.late.last_epoch, self.late.get_last_lr(), opt),
            *(TOTAL, World.shared, VARIABLE.get(), self.random.getstate(), repr(self.draws.bit_generator.state)),
            *(os.environ.get("NBGRAD_SWEEP"), torch.get_num_threads(), torch.is_grad_enabled(), self.stream.getvalue()),
            *(python_random.getstate(), self.cache is None, self.net.mask is None, sorted(map(str, self.memo))),
            *(sorted(vars(self)), sorted(vars(self.net)), World.scaled.__defaults__, len(self.seen)),
            *([group["lr"] for group in self.opt.param_groups], len(self.opt.param_groups), np.random.get_state()[2]),  # type: ignore[index]
            None if self.schedule is None else self.schedule.last_epoch,
        )
        tensors = [one.data.tolist() for one in (*self.net.parameters(), self.net.average)]
        grads = [None if one.grad is None else one.grad.tolist() for one in self.net.parameters()]
        hooks = [len(self.net.first._forward_hooks), len(self.opt._optimizer_step_pre_hooks)]
        return [repr(one) for one in (*plain, *tensors, *grads, *hooks, torch.get_rng_state().tolist())]


def closure() -> tuple[Callable[[], int], Callable[[], None]]:
    local = 0

    def more() -> None:
        nonlocal local
        local += 1

    return lambda: local, more


EFFECTS: dict[str, Callable[[World, Any], Any]] = {}
"""The acts of a step beside training. Each takes the batch, and may give another one."""

CHANGES: dict[str, Callable[[World], Any]] = {}
"""Changes between two calls."""


def effect(function: Callable[[World, Any], Any]) -> Callable[[World, Any], Any]:
    EFFECTS[function.__name__] = function
    return function


def change(function: Callable[[World], Any]) -> Callable[[World], Any]:
    CHANGES[function.__name__] = function
    return function


@effect
def counts(w: World, x: Any) -> Any:
    w.count += 1


@effect
def counts_and_uses(w: World, x: Any) -> Any:
    w.count += 1
    return x * w.count


@effect
def sets_a_flag(w: World, x: Any) -> Any:
    w.flag = True


@effect
def does_it_once(w: World, x: Any) -> Any:
    if not w.flag:
        w.flag = True
        return x * 2
    return x


@effect
def swaps(w: World, x: Any) -> Any:
    w.pair = w.pair[::-1]
    return x * w.pair[0]


@effect
def sets_the_same(w: World, x: Any) -> Any:
    w.scale = 1.0


@effect
def keeps_the_shape(w: World, x: Any) -> Any:
    w.count = x.shape[0]


@effect
def makes_a_cache(w: World, x: Any) -> Any:
    if w.cache is None:
        w.cache = nbgrad.ones(WIDTH) * 2
    return x * w.cache


@effect
def makes_a_cache_for_each_shape(w: World, x: Any) -> Any:
    if x.shape not in w.memo:
        w.memo[x.shape] = float(len(w.memo) + 1)
    return x * w.memo[x.shape]


@effect
def makes_a_mask_in_the_network(w: World, x: Any) -> Any:
    if w.net.mask is None:
        w.net.mask = 0.5
    return x * w.net.mask


@effect
def uses_a_cached_property(w: World, x: Any) -> Any:
    return x * w.factor


@effect
def appends(w: World, x: Any) -> Any:
    w.items.append(x.shape[0])


@effect
def rotates_a_list(w: World, x: Any) -> Any:
    w.items.insert(0, w.items.pop())
    return x * w.items[0]


@effect
def pushes_to_a_heap(w: World, x: Any) -> Any:
    heapq.heappush(w.heap, 1)


@effect
def adds_to_a_set(w: World, x: Any) -> Any:
    w.names.add("b")


@effect
def turns_a_deque(w: World, x: Any) -> Any:
    w.ring.rotate()
    return x * w.ring[0]


@effect
def sets_an_entry(w: World, x: Any) -> Any:
    w.table["scale"] *= 1.5
    return x * w.table["scale"]


@effect
def grows_a_dict(w: World, x: Any) -> Any:
    w.table[f"step {len(w.table)}"] = 1.0


@effect
def moves_an_entry(w: World, x: Any) -> Any:
    w.ordered.move_to_end(next(iter(w.ordered)))


@effect
def tallies(w: World, x: Any) -> Any:
    w.tally["steps"] += 1


@effect
def calls_a_closure(w: World, x: Any) -> Any:
    w.more()


@effect
def reads_a_closure(w: World, x: Any) -> Any:
    return x + w.local()


@effect
def counts_in_a_global(w: World, x: Any) -> Any:
    global TOTAL  # noqa: PLW0603  # as users do
    TOTAL += 1


@effect
def counts_in_the_class(w: World, x: Any) -> Any:
    World.shared += 1


@effect
def counts_in_slots(w: World, x: Any) -> Any:
    w.slots.count += 1


@effect
def counts_deep_inside(w: World, x: Any) -> Any:
    w.inner.deep.count += 1


@effect
def counts_by_name(w: World, x: Any) -> Any:
    setattr(w, "co" + "unt", getattr(w, "co" + "unt") + 1)


@effect
def counts_in_vars(w: World, x: Any) -> Any:
    vars(w)["count"] += 1


@effect
def counts_in_the_network(w: World, x: Any) -> Any:
    w.net.calls += 1


@effect
def makes_an_attribute(w: World, x: Any) -> Any:
    w.last_size = x.shape[0]  # type: ignore[attr-defined]


@effect
def writes_an_array(w: World, x: Any) -> Any:
    w.numbers[0] += 1


@effect
def fills_an_array(w: World, x: Any) -> Any:
    w.numbers.fill(2.0)
    return x * nbgrad.tensor(w.numbers)


@effect
def extends_bytes(w: World, x: Any) -> Any:
    w.bytes += b"c"


@effect
def extends_an_array(w: World, x: Any) -> Any:
    w.array.append(2.0)


@effect
def takes_the_next(w: World, x: Any) -> Any:
    return x + next(w.iterator) * 0


@effect
def counts_with_itertools(w: World, x: Any) -> Any:
    return x + next(w.counter) * 0


@effect
def takes_from_a_generator(w: World, x: Any) -> Any:
    return x + next(w.generator) * 0


@effect
def takes_a_pair(w: World, x: Any) -> Any:
    return x + next(w.pairs)[1] * 0


@effect
def takes_what_is_mapped(w: World, x: Any) -> Any:
    return next(x + one * 0 for one, _ in zip(w.mapped, range(1), strict=False))


@effect
def takes_a_number(w: World, x: Any) -> Any:
    return x + next(w.numbered)[0] * 0


@effect
def computes_with_other_kernels(w: World, x: Any) -> Any:
    with torch.backends.mkldnn.flags(enabled=False):
        return x * w.net.first.weight.sum()


@effect
def flushes_small_numbers(w: World, x: Any) -> Any:
    torch.set_flush_denormal(True)
    try:
        return x + x * 1e-39
    finally:
        torch.set_flush_denormal(False)


@effect
def sets_the_default_type_for_a_while(w: World, x: Any) -> Any:
    torch.set_default_dtype(torch.float64)
    try:
        return x + nbgrad.zeros(WIDTH).sum().float()
    finally:
        torch.set_default_dtype(torch.float32)


@effect
def computes_in_bfloat16(w: World, x: Any) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return x + (x @ w.net.first.weight.detach()).float() * 0.1


@effect
def computes_in_bfloat16_with_torch(w: World, x: Any) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return x + nbgrad.tensor(x.data @ w.net.first.weight.data).float() * 0.1


@effect
def looks_for_anomalies(w: World, x: Any) -> Any:
    with nbgrad.detect_anomaly():
        return x * 1


@effect
def divides_with_numpy(w: World, x: Any) -> Any:
    return x * float(np.exp(np.float32(1) / (np.float32(w.items[0]) - 1) * -1))


@effect
def puts_into_a_queue(w: World, x: Any) -> Any:
    w.queue.put(1)


@effect
def draws_with_python(w: World, x: Any) -> Any:
    return x * python_random.random()


@effect
def draws_with_its_own(w: World, x: Any) -> Any:
    return x * w.random.random()


@effect
def draws_with_numpy(w: World, x: Any) -> Any:
    return x * float(w.draws.random())


@effect
def draws_with_torch(w: World, x: Any) -> Any:
    return x + torch.rand(WIDTH)


@effect
def steps_a_scheduler(w: World, x: Any) -> Any:
    if w.schedule is not None:
        w.schedule.step()


@effect
def steps_a_late_scheduler(w: World, x: Any) -> Any:
    w.late.step()


@effect
def sets_the_rate(w: World, x: Any) -> Any:
    w.opt.param_groups[0]["lr"] = 0.02


@effect
def lowers_the_rate(w: World, x: Any) -> Any:
    for group in w.opt.param_groups:
        group["lr"] *= 0.9


@effect
def sets_the_decay(w: World, x: Any) -> Any:
    w.opt.param_groups[0]["weight_decay"] = 0.1


@effect
def adds_a_group(w: World, x: Any) -> Any:
    w.opt.add_param_group({"params": [nbgrad.ones(2, requires_grad=True)]})


@effect
def evaluates(w: World, x: Any) -> Any:
    w.net.eval()


@effect
def trains(w: World, x: Any) -> Any:
    w.net.train()


@effect
def hooks_a_weight(w: World, x: Any) -> Any:
    w.net.first.weight.register_hook(lambda g: g * 1.5)


@effect
def hooks_a_module(w: World, x: Any) -> Any:
    w.net.first.register_forward_hook(lambda *_: None)


@effect
def hooks_the_optimizer(w: World, x: Any) -> Any:
    w.opt.register_step_pre_hook(lambda *_: None)


@effect
def hooks_what_it_makes(w: World, x: Any) -> Any:
    made = w.net.first.weight * 2
    made.register_hook(lambda g: g * 1.5)
    return x * made.sum()


@effect
def notes_gradients(w: World, x: Any) -> Any:
    made = w.net.first.weight * 2
    made.register_hook(lambda g: w.seen.append("gradient"))
    return x * made.sum()


@effect
def prints(w: World, x: Any) -> Any:
    print("a step")


@effect
def writes_to_the_output(w: World, x: Any) -> Any:
    sys.stdout.write("a step\n")


@effect
def writes_to_a_stream(w: World, x: Any) -> Any:
    w.stream.write("a step\n")


@effect
def logs(w: World, x: Any) -> Any:
    LOGGER.warning("a step")


@effect
def logs_what_no_one_hears(w: World, x: Any) -> Any:
    LOGGER.debug("a step")


@effect
def warns(w: World, x: Any) -> Any:
    warnings.warn("a step", stacklevel=1)


@effect
def sets_the_environment(w: World, x: Any) -> Any:
    os.environ["NBGRAD_SWEEP"] = os.environ.get("NBGRAD_SWEEP", "") + "1"


@effect
def sets_the_threads(w: World, x: Any) -> Any:
    torch.set_num_threads(3 - torch.get_num_threads())


@effect
def leaves_gradients_off(w: World, x: Any) -> Any:
    if w.count > 2:
        torch.set_grad_enabled(False)


@effect
def sets_a_context_variable(w: World, x: Any) -> Any:
    VARIABLE.set(VARIABLE.get() + 1)


@effect
def starts_a_thread(w: World, x: Any) -> Any:
    thread = threading.Thread(target=w.seen.append, args=("thread",))
    thread.start()
    thread.join()


@effect
def waits(w: World, x: Any) -> Any:
    time.sleep(0)


@effect
def averages_in_place(w: World, x: Any) -> Any:
    with nbgrad.no_grad():
        w.net.average.mul_(0.9).add_(x.mean(0) * 0.1)
    return x * w.net.average


@effect
def replaces_a_buffer(w: World, x: Any) -> Any:
    w.net.average = w.net.average * 0.9


@effect
def clips(w: World, x: Any) -> Any:
    for one in w.net.parameters():
        if one.grad is not None:
            one.grad.data.clamp_(-0.01, 0.01)


@effect
def changes_a_default(w: World, x: Any) -> Any:
    World.scaled.__defaults__ = (World.scaled.__defaults__[0] * 1.1,)  # type: ignore[index]
    return w.scaled(x)


@effect
def changes_a_keyword(w: World, x: Any) -> Any:
    w.keywords.keywords["other"] *= 1.1
    return w.keywords(x)


@effect
def replaces_a_function(w: World, x: Any) -> Any:
    w.inner.call = lambda x, old=w.inner.call: old(x) * 1.1
    return w.inner.call(x)


@effect
def raises_sometimes(w: World, x: Any) -> Any:
    if w.count == 3:
        w.count += 1
        raise ValueError("the third step")


@effect
def counts_what_it_can(w: World, x: Any) -> Any:
    try:
        w.items.append(1)
        raise KeyError("caught")
    except KeyError:
        w.items.pop()


@effect
def uses_what_changes(w: World, x: Any) -> Any:
    return w.scaled(w.inner.call(x)) * w.table["scale"] * w.items[0] * w.net.power * TOTAL_SCALE


TOTAL_SCALE = 1.0


@change
def another_rate(w: World) -> None:
    w.opt.param_groups[0]["lr"] = 0.03


@change
def another_decay(w: World) -> None:
    w.opt.param_groups[0]["weight_decay"] = 0.2


@change
def steps_the_scheduler(w: World) -> None:
    w.late.step()


@change
def other_numbers(w: World) -> None:
    with nbgrad.no_grad():
        w.net.first.weight.mul_(0.5)


@change
def another_parameter(w: World) -> None:
    w.net.first.bias = nn.Parameter(nbgrad.ones(WIDTH))


@change
def another_layer(w: World) -> None:
    w.net.last = nn.Linear(WIDTH, 1)


@change
def evaluation(w: World) -> None:
    w.net.eval()


@change
def training(w: World) -> None:
    w.net.train()


@change
def another_dropout(w: World) -> None:
    w.net.drop.p = 0.5


@change
def a_hook_on_a_weight(w: World) -> None:
    w.handles.append(w.net.first.weight.register_hook(lambda g: g * 2))


@change
def a_hook_after_a_gradient(w: World) -> None:
    def double(p: Any) -> None:
        p.grad.data.mul_(2)

    w.handles.append(w.net.first.weight.register_post_accumulate_grad_hook(double))


@change
def a_hook_that_is_gone(w: World) -> None:
    if w.handles:
        w.handles.pop().remove()


@change
def a_hook_before_a_step(w: World) -> None:
    def double(opt: Any, *_: Any) -> None:
        if w.net.last.bias.grad is not None:
            w.net.last.bias.grad.data.mul_(2)

    w.handles.append(w.opt.register_step_pre_hook(double))


@change
def a_hook_after_a_step(w: World) -> None:
    def halve(opt: Any, *_: Any) -> None:
        w.net.last.bias.data.mul_(0.5)

    w.handles.append(w.opt.register_step_post_hook(halve))


@change
def a_hook_of_all_optimizers(w: World) -> None:
    def halve(opt: Any, *_: Any) -> None:
        w.net.last.bias.data.mul_(0.5)

    w.handles.append(every_optimizer.register_optimizer_step_post_hook(halve))


@change
def a_hook_on_a_module(w: World) -> None:
    w.handles.append(w.net.first.register_forward_hook(lambda _, __, out: out * 2))


@change
def a_hook_that_counts(w: World) -> None:
    w.handles.append(w.net.first.weight.register_hook(lambda g: w.seen.append("gradient")))


@change
def a_hook_of_all_modules(w: World) -> None:
    made = torch.nn.modules.module.register_module_forward_hook(lambda m, _, out: out * 1.5)
    w.handles.append(made)


@change
def another_step(w: World) -> None:
    old = w.opt.step

    def step() -> None:
        old()
        w.net.last.bias.data.mul_(0.5)

    w.opt.step = step


@change
def another_forward(w: World) -> None:
    w.net.forward = lambda x, old=w.net.forward: old(x) * 2


@change
def another_forward_of_the_class(w: World) -> None:
    PATCHED.append((Net, "forward", Net.forward))
    setattr(Net, "forward", lambda self, x, old=Net.forward: old(self, x) * 2)  # noqa: B010


@change
def another_forward_of_a_library(w: World) -> None:
    PATCHED.append((nn.Linear, "forward", nn.Linear.forward))
    setattr(nn.Linear, "forward", lambda self, x, old=nn.Linear.forward: old(self, x) * 2)  # noqa: B010


@change
def another_function_of_a_library(w: World) -> None:
    PATCHED.append((nn.functional, "tanh", nn.functional.tanh))
    nn.functional.tanh = nn.functional.relu


@change
def another_method_of_a_library(w: World) -> None:
    kind = type(w.opt)
    PATCHED.append((kind, "zero_grad", kind.__dict__.get("zero_grad")))

    def zero_grad(self: Any, old: Any = kind.zero_grad) -> None:
        old(self)
        w.net.last.bias.data.mul_(0.5)

    kind.zero_grad = zero_grad


@change
def another_class(w: World) -> None:
    w.net.__class__ = Doubled


@change
def another_code(w: World) -> None:
    PATCHED.append((World.scaled, "__code__", World.scaled.__code__))
    World.scaled.__code__ = _other.__code__


def _other(self: Any, x: Any, by: float = 1.0) -> Any:
    return x * by * self.scale * 3


@change
def another_default(w: World) -> None:
    World.scaled.__defaults__ = (1.5,)


@change
def another_setting(w: World) -> None:
    w.scale = 1.25


@change
def another_setting_of_the_network(w: World) -> None:
    w.net.power = 1.25


@change
def another_entry(w: World) -> None:
    w.items[0] = 1.75


@change
def another_value(w: World) -> None:
    w.table["scale"] = 1.25


@change
def other_numbers_of_an_array(w: World) -> None:
    w.numbers += 1


@change
def another_global(w: World) -> None:
    global TOTAL_SCALE  # noqa: PLW0603  # as users do
    TOTAL_SCALE *= 1.25


@change
def another_closure(w: World) -> None:
    w.more()


@change
def another_count(w: World) -> None:
    w.count += 1


@change
def another_function(w: World) -> None:
    w.inner.call = lambda x: x * 1.5


@change
def no_cache(w: World) -> None:
    w.cache, w.flag, w.net.mask = None, False, None
    w.memo.clear()


@change
def frozen(w: World) -> None:
    w.net.first.weight.requires_grad_(not w.net.first.weight.requires_grad)


@change
def no_gradients(w: World) -> None:
    for one in w.net.parameters():
        one.grad = None


@change
def other_gradients(w: World) -> None:
    for one in w.net.parameters():
        one.grad = nbgrad.ones(*one.shape)


@change
def no_state(w: World) -> None:
    w.opt.state.clear()


@change
def another_optimizer(w: World) -> None:
    w.opt = nbgrad.optim.SGD(w.net.parameters(), lr=0.01)


@change
def another_group(w: World) -> None:
    w.opt.add_param_group({"params": [nbgrad.ones(2, requires_grad=True)], "lr": 0.1})


@change
def deterministic(w: World) -> None:
    torch.use_deterministic_algorithms(True)


@change
def other_kernels(w: World) -> None:
    BACKENDS.mkldnn.enabled = not BACKENDS.mkldnn.enabled


@change
def another_precision(w: World) -> None:
    torch.set_float32_matmul_precision("high")


@change
def cudnn_deterministic(w: World) -> None:
    torch.backends.cudnn.deterministic = not torch.backends.cudnn.deterministic


@change
def plain_attention(w: World) -> None:
    torch.backends.cuda.enable_flash_sdp(not BACKENDS.cuda.flash_sdp_enabled())


@change
def flushed_numbers(w: World) -> None:
    torch.set_flush_denormal(True)


@change
def other_threads(w: World) -> None:
    torch.set_num_threads(3 - torch.get_num_threads())


@change
def errors_of_numpy(w: World) -> None:
    np.seterr(all="raise")


@change
def anomalies(w: World) -> None:
    w.handles.append(SimpleNamespace(remove=functools.partial(nbgrad.autograd.set_detect_anomaly, False)))
    nbgrad.autograd.set_detect_anomaly(True)


@change
def a_mode(w: World) -> None:
    mode: Any = Doubling()
    MODES.append(mode)
    mode.__enter__()


@change
def no_mode(w: World) -> None:
    while MODES:
        MODES.pop().__exit__(None, None, None)


class Doubling(TorchFunctionMode):
    """Doubles what torch.tanh gives."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        return made * 2 if func in (torch.tanh, torch.Tensor.tanh) else made


MODES: list[Any] = []
PATCHED: list[tuple[Any, str, Any]] = []


def drawn(random: Random) -> dict[str, Any]:
    """A step, and what happens between its calls."""
    names = random.sample(list(EFFECTS), random.choice([0, 1, 1, 1, 2, 3]))
    if random.random() < 0.5:
        names.append("uses_what_changes")
    optimizer = random.choice(["SGD", "SGD", "Adam", "RMSprop"])
    settings = {"lr": 0.05}
    if optimizer == "Adam":
        settings["fused"] = True
    if optimizer == "SGD" and random.random() < 0.5:
        settings["momentum"] = 0.9
    changes = {random.randrange(1, 10): random.sample(list(CHANGES), random.choice([1, 1, 2])) for _ in range(3)}
    return {
        "before": [one for one in names if random.random() < 0.6],
        "after": [one for one in names if random.random() < 0.4],
        "optimizer": optimizer,
        "settings": settings,
        "schedule": random.random() < 0.4,
        "changes": changes if random.random() < 0.8 else {},
        "sizes": [random.choice([4, 4, 4, 5]) if random.random() < 0.2 else 4 for _ in range(10)],
        "zero": random.random() < 0.5,
        "seed": random.randrange(1000),
    }


def step_of(world: World, case: dict[str, Any]) -> Callable[[Any], Any]:
    """The training step of a case."""
    before, after = [[EFFECTS[name] for name in case[key]] for key in ("before", "after")]

    def step(x: Any) -> Any:
        for one in before:
            given = one(world, x)
            x = x if given is None else given
        if case["zero"]:
            world.opt.zero_grad()
        loss = world.net(x).square().mean()
        loss.backward()
        world.opt.step()
        for one in after:
            one(world, x)
        if not case["zero"]:
            world.opt.zero_grad()
        return loss.detach() * 1

    return step


def outcome(case: dict[str, Any], compiled: bool) -> tuple[list[Any], str | None]:
    """The results of each call and all that it left; and how the calls ended."""
    world = World(case)
    run = nbgrad.compile(step_of(world, case)) if compiled else step_of(world, case)
    torch.manual_seed(1)
    found: list[Any] = []
    output = io.StringIO()
    with redirect_stdout(output), warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for number in range(10):
            try:
                for name in case["changes"].get(number, ()):
                    CHANGES[name](world)
            except (ValueError, RuntimeError):  # as a scheduler of an optimizer that has got another group
                return found, "changed"
            x = nbgrad.tensor(torch.randn(case["sizes"][number], WIDTH))
            before = world.told(), output.getvalue()
            try:
                loss = run(x).tolist()
            except TraceError as error:
                after = world.told(), output.getvalue()
                if compiled and same(after, before):
                    return found, "refused"
                raise AssertionError(f"{case}: after `{error}`: {difference(before[0], after[0])}") from error
            except Exception as error:
                return [*found, (type(error).__name__, world.told(), output.getvalue())], "raised"
            ours = [one for one in heard if "a step" in str(one.message)]
            found.append((loss, world.told(), output.getvalue(), len(ours)))
    return found, None


def same(one: Any, other: Any) -> bool:
    """Whether both are the same, down to the types and signs of numbers."""
    return repr(one) == repr(other)


def difference(one: list[Any], other: list[Any]) -> str:
    return "; ".join(
        f"{place}: {a!r:.200} and {b!r:.200}"
        for place, (a, b) in enumerate(zip(one, other, strict=True))
        if not same(a, b)
    )


def clean() -> None:
    """Put back what belongs to the process."""
    global TOTAL, TOTAL_SCALE
    TOTAL, TOTAL_SCALE, World.shared, World.scaled.__defaults__ = 0, 1.0, 0, (1.0,)
    while PATCHED:
        owner, name, value = PATCHED.pop()
        delattr(owner, name) if value is None else setattr(owner, name, value)
    for table in (every_optimizer._global_optimizer_pre_hooks, every_optimizer._global_optimizer_post_hooks):
        table.clear()
    torch.nn.modules.module._global_forward_hooks.clear()
    os.environ.pop("NBGRAD_SWEEP", None)
    VARIABLE.set(0)
    torch.set_num_threads(1)
    torch.set_grad_enabled(True)
    torch.use_deterministic_algorithms(False)
    torch.set_default_dtype(torch.float32)
    torch.set_flush_denormal(False)
    torch.set_float32_matmul_precision("highest")
    BACKENDS.mkldnn.enabled = True
    torch.backends.cudnn.deterministic = False
    torch.backends.cuda.enable_flash_sdp(True)
    nbgrad.autograd.set_detect_anomaly(False)
    np.seterr(divide="warn", over="warn", under="ignore", invalid="warn")
    no_mode(None)  # type: ignore[arg-type]
    python_random.seed(0)
    np.random.seed(0)


def check(random: Random) -> None:
    """Run a step plain and compiled, and compare."""
    case = drawn(random)
    threads = torch.get_num_threads()
    with ExitStack() as after:
        after.enter_context(torch.backends.__allow_nonbracketed_mutation())
        after.callback(torch.set_num_threads, threads)
        after.callback(clean)
        clean()
        plain, _ = outcome(case, False)
        clean()
        found, _ = outcome(case, True)
    for number, (one, other) in enumerate(zip(plain, found, strict=False)):  # one may end before
        for place, (a, b) in enumerate(zip(one, other, strict=True)):
            told = difference(a, b) if isinstance(a, list) and isinstance(b, list) else f"{a!r:.300} and {b!r:.300}"
            assert same(a, b), f"{case}: call {number}, part {place}: {told}"

"""KeyboardInterrupt at any instant: what runs, where it can be hit, and what is switched on before and after."""

import gc
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Iterator
from dis import get_instructions
from functools import cache
from importlib import import_module
from pathlib import Path
from time import monotonic, sleep
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np
import torch

import nbgrad
from nbgrad.core.backend import below_autograd
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Sample
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.engine import pacing
from nbgrad.core.engine.state import current
from nbgrad.core.recorder import switches
from nbgrad.core.recorder.python_functions import RUNNING
from nbgrad.core.symbolic.fake import _Postponed
from nbgrad.core.tensor import tensor as tensors
from nbgrad.nn.utils import parametrize
from nbgrad.widgets.describe import describe, outline
from nbgrad.widgets.pipeline import lay_out
from nbgrad.widgets.render.svg import svg
from nbgrad.widgets.render.text import text
from nbgrad.widgets.tensor_lookup import Holdings
from nbgrad.widgets.view import GraphView
from tools.unpacking import unpacked

_FOLDER = nbgrad.__path__[0]
_KINDS = ("cpu", "cuda")

ENDING = 5.0
"""How many seconds a thread may go on after its caller was interrupted. A layout takes three at most."""


def switched() -> dict[str, Any]:
    """All switches of this thread and process, by name."""
    torch.autocast_increment_nesting()
    state, core = current(), torch._C
    return {
        "include": core._dispatch_tls_local_include_set().raw_repr(),
        "exclude": core._dispatch_tls_local_exclude_set().raw_repr(),
        "torch's gradients": torch.is_grad_enabled(),
        "torch's forward gradients": core._is_fwd_grad_enabled(),
        "torch's inference": torch.is_inference_mode_enabled(),
        "autocast": [(torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in _KINDS],
        "autocast's cache": torch.is_autocast_cache_enabled(),
        "autocasts around": torch.autocast_decrement_nesting(),
        "torch's modes": (core._len_torch_dispatch_stack(), core._len_torch_function_stack()),
        "torch's overrides": core._get_torch_function_state(),
        "torch's defaults": (torch.get_default_dtype(), torch.get_default_device()),
        "replaced in torch": (
            torch.autograd._engine_run_backward,  # type: ignore[attr-defined]
            torch.nn.Module.__call__,
            torch.compile,
            list(import_module("torch.optim.optimizer")._global_optimizer_pre_hooks),
        ),
        "paced": pacing.pacers(),
        "replacing": switches._torch.lock._is_owned(),  # type: ignore[attr-defined]  # as threading.Condition asks
        "backward of torch": (switches._thread.runs, switches._thread.walk, dict(RUNNING)),
        "steps of optimizers": dict(getattr(switches, "_stepping", {})),  # compiled code hides it
        "attention": (
            core._get_math_sdp_enabled(),
            core._get_flash_sdp_enabled(),
            core._get_mem_efficient_sdp_enabled(),
        ),
        "anomaly of torch": torch.is_anomaly_enabled(),
        "state": state.fields(),
        "scope": state.scope,
        "walks": len(below_autograd._around.excluded),
        "writing": tensors.GRADIENT_LOCK._is_owned(),  # type: ignore[attr-defined]  # as threading.Condition asks
        "garbage collector": gc.isenabled(),
        "warnings": list(warnings.filters),
        "numpy's errors": np.geterr(),
        "threads": threading.active_count(),
        "tracer": sys.gettrace(),
        "Ctrl-C": signal.getsignal(signal.SIGINT),
    }


def check_untouched(before: dict[str, Any], where: str) -> None:
    """Raise AssertionError with their names if any switches differ from ``before``."""
    end = monotonic() + ENDING
    while threading.active_count() > before["threads"] and monotonic() < end:
        sleep(0.001)  # the layout of an interrupted caller ends by itself
    after = switched()
    changed = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    assert not changed, f"{where}: {changed}"
    x = torch.ones(2, requires_grad=True)
    assert (x * x).requires_grad, f"{where}: torch's autograd is off"


def apart(run: Callable[[], Any]) -> Iterator[Any]:
    """The result of ``run``, with its own record of the exceptions that are being handled.

    A tracer may raise at a place where Python expects no exception, such as the end of an ``except`` block. Python then
    believes that this exception is still being handled, in everything that the thread does later.
    """
    yield run()


class Instants:
    """A tracer that raises KeyboardInterrupt before one of the instructions of nbgrad's own code.

    Args:
        number: the instruction to raise before, counted from 0; a later one if Ctrl-C waits there. None
            records all instants and never raises.
        modules: only instructions of these files count; None for all files.
    """

    def __init__(self, number: int | None = None, modules: Collection[str] | None = None) -> None:
        self.passed: list[tuple[CodeType, int]] = []
        self.hit: str | None = None
        self._notes, self._left = number is None, number or 0
        self._modules = modules

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            return self._instruction(frame)
        if event == "call":
            path = frame.f_code.co_filename
            if not path.startswith(_FOLDER) or (self._modules is not None and Path(path).stem not in self._modules):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self

    def _instruction(self, frame: FrameType) -> Any:
        if self._notes:
            self.passed.append((frame.f_code, frame.f_lasti))
        elif self._left <= 0 and not _postponed():
            code = frame.f_code
            self.hit = f"{code.co_filename}:{frame.f_lineno} {code.co_qualname} +{frame.f_lasti}"
            raise KeyboardInterrupt
        self._left -= 1
        return self

    def run(self, run: Callable[[], Any]) -> bool:
        """Call ``run``, and return whether it was interrupted."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            next(apart(run))
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False

    def signalled(self) -> list[int]:
        """The numbers of those instants at which Python looks for signals. Ctrl-C can hit only these."""
        return [number for number, (code, offset) in enumerate(self.passed) if offset in _looking(code)]

    def each(self) -> list[int]:
        """The number of the first recorded instant of each instruction."""
        first: dict[tuple[CodeType, int], int] = {}
        for number, place in enumerate(self.passed):
            first.setdefault(place, number)
        return sorted(first.values())


def _postponed() -> bool:
    """Whether Ctrl-C would wait now: then the interrupt comes where that ends."""
    return isinstance(getattr(signal.getsignal(signal.SIGINT), "__self__", None), _Postponed)


@cache
def _looking(code: CodeType) -> set[int]:
    """Where Python looks for signals: at the start of a function, after a call, and at the next round of a loop."""
    found, looks = set(), True
    for instruction in get_instructions(code):
        if looks:
            found.add(instruction.offset)
        looks = instruction.opname.startswith(("RESUME", "CALL"))
        if instruction.opname.startswith("JUMP_BACKWARD"):
            found.add(instruction.argval)
    return found


class Alarm:
    """Ctrl-C at a random instant: a signal after some seconds. Python sees it where it next looks for signals.

    The alarm makes the signal of Ctrl-C, whose handler a library may have replaced for a while.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._armed = False

    def _ring(self, *_: Any) -> None:
        if self._armed:
            self._armed = False
            raise KeyboardInterrupt

    def run(self, run: Callable[[], Any]) -> bool:
        """Call ``run``, and return whether the signal interrupted it."""
        handlers = {
            signal.SIGALRM: lambda *_: signal.raise_signal(signal.SIGINT),
            signal.SIGINT: self._ring,
        }
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            self._armed = True
            signal.setitimer(signal.ITIMER_REAL, self._seconds)
            next(apart(run))
            self._armed = False
        except KeyboardInterrupt:
            return True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in before.items():
                signal.signal(number, handler)
        return False


# The scenarios. Each makes a function from scratch. The function runs, and must return the same numbers every time.


class Scaled(nbgrad.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 2 + 0 * x


def _rule(g: Any, x: Any) -> Any:
    return g * 3 + 0 * x


@op(formula="3x", samples=lambda make: [Sample.of(make(3))])
def tripled(x: Any) -> Any:
    """Three times x."""
    return 3 * x


tripled.rule("x", "3g")(_rule)
del OPS[tripled.name]  # the tests of the op table must not see this row


def leaf() -> Any:
    return nbgrad.tensor([1.0, 2.0, 3.0], requires_grad=True)


def _numbers(*tensors: Any) -> list[Any]:
    return [one.data.tolist() if isinstance(one, nbgrad.Tensor) else one for one in tensors]


def hooks() -> Callable[[], Any]:
    x = leaf()

    def run() -> Any:
        y = x * x
        y.register_hook(lambda g: g * 2)
        y.retain_grad()
        z = tripled(Scaled.apply(y))
        z.grad_fn.register_hook(lambda given, _: given)
        z.grad_fn.register_prehook(lambda gradients: gradients)
        x.register_post_accumulate_grad_hook(lambda _: None)
        loss = z.sum()
        x.grad = None
        loss.backward()
        return _numbers(x.grad, y.grad)

    return run


def twice() -> Callable[[], Any]:
    x = leaf()

    def run() -> Any:
        y = (tripled(Scaled.apply(x)) * x).exp()
        y.register_hook(lambda g: g * 2)
        (g,) = nbgrad.grad(y.sum(), x, create_graph=True)
        (h,) = nbgrad.grad(g.sum(), x)
        return _numbers(g, h)

    return run


def inside() -> Callable[[], Any]:
    """A backward in a hook of a backward, and in a Function's backward."""
    x = leaf()

    def hook(g: Any) -> Any:
        w = torch.ones(3, requires_grad=True)
        (w * w).sum().backward()
        with nbgrad.enable_grad():
            v = leaf()
            v.register_hook(lambda g: g * 1)
            (v * v).sum().backward()
        return g * w.grad.sum().item()

    def run() -> Any:
        y = x * x
        y.register_hook(hook)
        (g,) = nbgrad.grad(y.sum(), x)
        return _numbers(g)

    return run


def checkpoint() -> Callable[[], Any]:
    x = leaf()

    def inner(x: Any) -> Any:
        return nbgrad.nn.functional.dropout(tripled(x) * x, 0.5)

    def run() -> Any:
        torch.manual_seed(0)
        y = nbgrad.checkpoint(lambda x: nbgrad.checkpoint(inner, x).exp(), x)
        (g,) = nbgrad.grad(y.sum(), x)
        return _numbers(g)

    return run


def autocast() -> Callable[[], Any]:
    x, w = nbgrad.ones(2, 3, requires_grad=True), nbgrad.ones(4, 3, requires_grad=True)

    def run() -> Any:
        nbgrad.core.backend.autocast._known.clear()
        try:  # the exit of torch's own block is a Python function, which a signal may hit
            try:
                torch.set_autocast_enabled("cpu", True)
                y = nbgrad.checkpoint(lambda x: nbgrad.nn.functional.linear(x, w), x).sum()
                y.backward()
            finally:
                torch.set_autocast_enabled("cpu", False)
        except BaseException:
            torch.set_autocast_enabled("cpu", False)
            raise
        return _numbers(y)

    return run


def modules() -> Callable[[], Any]:
    torch.manual_seed(0)
    net = nbgrad.nn.Sequential(nbgrad.nn.Linear(3, 3), nbgrad.nn.ReLU(), nbgrad.nn.Linear(3, 1))
    nbgrad.nn.utils.parametrizations.weight_norm(net[0])
    net[0].register_full_backward_hook(lambda *_: None)
    net[2].register_forward_hook(lambda *_: None)
    optimizer = nbgrad.optim.SGD(net.parameters(), lr=0.0)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = parametrize.cached()(net)(nbgrad.ones(2, 3)).sum()
        loss.backward()
        return loss

    def run() -> Any:
        return _numbers(optimizer.step(closure))

    return run


def inplace() -> Callable[[], Any]:
    x = leaf()

    def run() -> Any:
        y = x * 2
        v = y[:2]
        v.mul_(3)
        v.t_()
        w = nbgrad.inference_mode(lambda: (nbgrad.ones(3) * 2).add_(1))()
        (g,) = nbgrad.grad(v.sum() + y.sum(), x)
        return _numbers(g, w)

    return run


def functional() -> Callable[[], Any]:
    x = leaf()
    net = nbgrad.nn.Linear(3, 2)

    def run() -> Any:
        h = nbgrad.hessian(lambda x: (x**3).sum(), x)
        y = nbgrad.func.functional_call(net, {"weight": nbgrad.ones(2, 3), "bias": nbgrad.zeros(2)}, (x,))
        return _numbers(h, y, nbgrad.gradcheck(tripled, nbgrad.tensor([0.5], requires_grad=True)))

    return run


def anomaly() -> Callable[[], Any]:
    x = leaf()

    def run() -> Any:
        with nbgrad.detect_anomaly(), nbgrad.strict_broadcast(), nbgrad.scope("block"):
            y = (x * x).sum()
            y.backward()
        with nbgrad.no_grad(), nbgrad.detect_anomaly(), parametrize.cached():
            try:
                nbgrad.log(x - 1)
            except nbgrad.AnomalyError as error:
                return [error.op]
        return None

    return run


def recording() -> Callable[[], Any]:
    torch.manual_seed(0)
    net = nbgrad.nn.Sequential(nbgrad.nn.Linear(3, 2), nbgrad.nn.ReLU())
    optimizer = nbgrad.optim.Adam(net.parameters())

    def run() -> Any:
        with nbgrad.record(view="none", anomaly=True, time=True) as graph:
            for _ in range(2):
                optimizer.zero_grad()
                (net(nbgrad.ones(4, 3)) ** 2).mean().backward()
                optimizer.step()
        return [len(graph.records), graph.backwards]

    return run


def torchs() -> Callable[[], Any]:
    """A step of plain torch in a graph."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    x = torch.ones(3, 2)

    def run() -> Any:
        optimizer.zero_grad()
        with nbgrad.AutogradGraph() as graph:
            loss = net(x).square().sum()
            loss.backward()
            optimizer.step()
        return [graph.backwards, *[None if one.grad is None else one.grad.tolist() for one in net.parameters()]]

    return run


def paced() -> Callable[[], Any]:
    """A loop of plain torch of which some steps are recorded, and one of ours."""
    layers = torch.nn.Linear(2, 2), nbgrad.nn.Linear(2, 2)
    optimizers = [torch.optim.SGD(layers[0].parameters(), lr=0.0), nbgrad.optim.SGD(layers[1].parameters(), lr=0.0)]
    inputs = torch.ones(3, 2), nbgrad.ones(3, 2)

    def run() -> Any:
        found = []
        for layer, optimizer, x in zip(layers, optimizers, inputs, strict=True):
            with nbgrad.AutogradGraph(every=3) as graph:
                for _ in range(8):
                    optimizer.zero_grad()
                    (layer(x) ** 2).sum().backward()
                    optimizer.step()
            found.append((graph.backwards, graph.recorded, graph.fault, len(graph.losses)))
        return found

    return run


def _training() -> tuple[Callable[[Any], Any], Any]:
    """A training step, and its input."""
    torch.manual_seed(0)
    net = nbgrad.nn.Sequential(nbgrad.nn.Linear(3, 2), nbgrad.nn.Tanh())
    optimizer = nbgrad.optim.SGD(net.parameters(), lr=0.0)
    x = nbgrad.ones(4, 3)

    def train(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return train, x


@cache
def _traced() -> tuple[Any, Any]:
    train, x = _training()
    step = nbgrad.compile(train)
    step(x)
    return step, x


def compiled() -> Callable[[], Any]:
    """A compiled training step, which was traced before; all interrupts hit the same one."""
    step, x = _traced()
    return lambda: _numbers(step(x), step(x))


def tracing() -> Callable[[], Any]:
    """A training step that is traced, and runs as a program; one that was interrupted is traced again."""
    train, x = _training()
    known = nbgrad.compile(train)
    return lambda: _numbers(known(x), nbgrad.compile(train)(x), known(x))


def closing() -> Callable[[], Any]:
    """A graph that is closed after a backward, and one that is closed before."""
    net = torch.nn.Linear(3, 2)
    w = nbgrad.ones(2, requires_grad=True)
    x = torch.ones(4, 3)

    def run() -> Any:
        graphs = [nbgrad.AutogradGraph("torch"), nbgrad.AutogradGraph("ours")]
        with graphs[0]:
            net(x).square().sum().backward()
        with graphs[1]:
            y = (w * w).exp()
        return [y.tolist(), *[(len(one.records), one.backwards, one.fault) for one in graphs]]

    return run


def _small(*, close: bool) -> nbgrad.AutogradGraph:
    """A graph of one layer, after its block. It is closed only if ``close`` is true."""
    torch.manual_seed(0)
    net = nbgrad.nn.Sequential(nbgrad.nn.Linear(3, 2), nbgrad.nn.ReLU())
    graph = nbgrad.AutogradGraph("small")
    graph.__enter__()
    (net(nbgrad.ones(4, 3)) ** 2).mean().backward()
    graph.leave()
    if close:
        graph.close()
    return graph


def drawing() -> Callable[[], Any]:
    """A closed graph and an open graph: described, laid out and drawn. Both still answer questions afterwards."""
    graphs = [_small(close=True), _small(close=False)]

    def drawn(graph: nbgrad.AutogradGraph) -> Any:
        picture = lay_out(outline(graph))
        return [svg(picture), text(describe(graph)), len(graph.records), str(graph.frame), len(graph.history)]

    return lambda: list(map(drawn, graphs))


def answering() -> Callable[[], Any]:
    """A live view that gets the messages of a page: a module is folded and unfolded, turned, and numbers are read."""
    graph = _small(close=True)
    light = outline(graph)
    scope, node = light.description["scopes"][0]["id"], "n1"
    holdings = Holdings(graph)

    def run() -> Any:
        view, pictures = GraphView(light, None, None, holdings), []
        view.put_away()
        for count, request in enumerate(
            ({"toggle": [scope]}, {"direction": "LR"}, {"node": node, "of": "value"}, {"toggle": [scope]})
        ):
            click(view, {**request, "count": count})
            pictures.append((unpacked(view.picture), view.numbers))
        view.close()
        return pictures

    return run


def click(view: GraphView, request: dict[str, Any]) -> None:
    """Send ``view`` the message that a page sends after a click."""
    update = {"method": "update", "state": {"request": request}, "buffer_paths": []}
    view._handle_msg({"content": {"data": update}, "buffers": []})


Make = Callable[[], Callable[[], Any]]

ENGINE: dict[Make, tuple[str, ...]] = {
    hooks: ("below_autograd", "backward", "function", "node", "state", "tensor"),
    twice: ("below_autograd", "backward", "grad", "state"),
    inside: ("below_autograd", "backward", "state"),
    checkpoint: ("checkpoint", "below_autograd", "state", "randomness"),
    autocast: ("autocast", "below_autograd", "state", "randomness"),
    modules: ("call", "optimizer", "parametrize"),
    inplace: ("views", "below_autograd", "inplace", "state"),
    functional: ("gradcheck", "func", "products", "state"),
    compiled: ("compiled", "reached", "surroundings", "turns", "state"),
}
"""Scenarios whose switches nbgrad restores itself, also after an error. The values are the modules that switch."""

BLOCKS: dict[Make, tuple[str, ...]] = {
    anomaly: ("anomaly", "state", "scope", "broadcast_check"),
    recording: ("no_gc", "graph", "state", "recording", "timing"),
    torchs: ("graph", "switches", "calls", "backwards", "compiled_regions", "function_mode"),
    closing: ("graph", "listener", "facts", "past", "unreached", "no_gc", "switches"),
    paced: ("graph", "pace", "rest", "pacing", "rounds", "losses", "switches", "function_mode"),
}
"""``with`` blocks of the user. Without compiled code a switch may stay on; the end of a cell restores it."""

PICTURES: dict[Make, tuple[str, ...]] = {
    drawing: ("no_gc", "describe", "facts", "last_backward", "positions", "outline", "svg"),
    answering: ("no_gc", "choose", "positions", "wire_format", "outline", "view"),
    tracing: ("compiled", "tracing", "tracer", "effects", "turns", "state"),
}
"""Scenarios that draw an existing graph, or trace a step. After an interrupt the same is done again."""


class Change(NamedTuple):
    """A change in place, and the tensors that it affects.

    Attributes:
        leaf: the leaf that the tensors were computed from.
        tensors: the tensors that share the changed memory.
        change: the function that makes the change.
    """

    leaf: Any
    tensors: list[Any]
    change: Callable[[], Any]

    def outcome(self) -> list[Any]:
        """For each tensor its values, the gradient of the leaf, and its own gradient if it keeps one."""
        found: list[Any] = []
        for tensor in self.tensors:
            weights = torch.arange(1.0, 1.0 + tensor.numel()).reshape(tensor.shape)
            kept = tensor.retains_grad
            self.leaf.grad = tensor.grad = None
            if tensor.requires_grad:
                (tensor * weights).sum().backward(retain_graph=True)
            own = tensor.grad if kept or tensor.is_leaf else None
            found.append([_listed(one) for one in (tensor, self.leaf.grad, own)])
        return found


def _listed(tensor: Any) -> Any:
    return None if tensor is None else tensor.detach().tolist()


def whole() -> Change:
    x = leaf()
    y = x * 2
    y.retain_grad()
    return Change(x, [y], lambda: y.mul_(x))


def constant() -> Change:
    x = leaf()
    y = nbgrad.ones(3)
    return Change(x, [y], lambda: y.mul_(x))


def saved_result() -> Change:
    x = leaf()
    y = x * 2
    return Change(x, [y, y[1:]], y.exp_)


def one_view() -> Change:
    x = leaf()
    y = x * 2
    v, w = y[:2], y[1:]
    return Change(x, [v, w, y], v.exp_)


def kept_view() -> Change:
    x = leaf()
    y = x * 2
    v = y[:2]
    v.retain_grad()
    y.retain_grad()
    return Change(x, [v, y], lambda: v.mul_(3))


def one_base() -> Change:
    x = leaf()
    y = x * 2
    v, w = y[:2], y[1:]
    v.retain_grad()
    return Change(x, [y, v, w], lambda: y.mul_(x))


def twice_changed() -> Change:
    x = leaf()
    y = x * 2
    v, w = y[:2], y[1:]
    v.mul_(3)
    return Change(x, [w, v, y], lambda: w.mul_(5))


def first_history() -> Change:
    x = leaf()
    y = nbgrad.ones(3)
    v = y[:2]
    return Change(x, [y, v], lambda: v.mul_(x[:2]))


def element() -> Change:
    x = leaf()
    y = x * 2

    def change() -> None:
        y[0] = x[2]

    return Change(x, [y], change)


def turned() -> Change:
    x = leaf()
    y = (x * 2).reshape(3, 1).clone()
    v = y[:2]
    y.retain_grad()
    return Change(x, [y, v], y.t_)


def turned_view() -> Change:
    x = leaf()
    y = (x * 2).reshape(3, 1).clone()
    v = y[:2]
    return Change(x, [y, v], v.t_)


def other_data() -> Change:
    x = leaf()
    x.origin.hooks = None  # this makes the leaf node, of three numbers

    def change() -> None:
        x.data = torch.ones(2, 2)

    return Change(x, [x], change)


def frozen() -> Change:
    x = leaf()
    x.requires_grad = False
    x.origin.hooks = None  # this makes the leaf node, of a constant
    return Change(x, [x], x.requires_grad_)


def cut() -> Change:
    x = leaf()
    y = x * 2
    return Change(x, [y], y.detach_)


CHANGES: tuple[Callable[[], Change], ...] = (
    whole,
    constant,
    saved_result,
    one_view,
    kept_view,
    one_base,
    twice_changed,
    first_history,
    element,
    turned,
    turned_view,
    other_data,
    frozen,
    cut,
)
"""Changes in place: each is made as a whole or not at all, whenever Ctrl-C comes."""

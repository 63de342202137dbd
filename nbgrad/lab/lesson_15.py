"""The exercises of lesson 15: data parallel training."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Condition, Thread
from traceback import walk_tb
from typing import Any

import torch

from nbgrad.core.engine.node import raw_of
from nbgrad.core.tensor.comparison import Deviation, difference
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.core.translation import translate
from nbgrad.lab.exercise import Exercise
from nbgrad.lab.judges import Case, FunctionJudge, is_near, needs_function, slip
from nbgrad.lab.running import attempt, in_a_thread, raised
from nbgrad.nn.activation import Tanh
from nbgrad.nn.containers import Sequential
from nbgrad.nn.linear import Linear
from nbgrad.nn.module.module import Module

# 15.1: the gradient of a batch from those of its parts.


def _gradients(count: int) -> list[torch.Tensor]:
    return [torch.arange(6.0, dtype=torch.float64).reshape(2, 3).add(3 * one + 1).sin() for one in range(count)]


def _weighted(gradients: Sequence[torch.Tensor], sizes: Sequence[float]) -> torch.Tensor:
    total = sum((one * size for one, size in zip(gradients, sizes, strict=True)), torch.zeros(2, 3))
    return total / sum(sizes)


def _combinations() -> list[Case]:
    cases = []
    for sizes in ([5, 1, 2], [6, 2], [4, 4]):  # equal parts hide what is wrong, so they come last
        given = _gradients(len(sizes))
        right = _weighted(given, sizes)
        arguments = ([tensor(one.clone()) for one in given], list(sizes))
        cases.append(Case(arguments, right, f"combined(gradients, {sizes})"))
    return cases


def _about_combination(got: Any, case: Case) -> Deviation | None:
    gradients, sizes = [raw_of(one) for one in case.arguments[0]], case.arguments[1]
    ones = [1.0] * len(sizes)
    slips = (
        (_weighted(gradients, ones), "numbers", "that is the mean of the gradients: a part with more rows counts more"),
        (_weighted(gradients, ones) * len(sizes), "factor", "that is the sum: each part is a mean already"),
        (_weighted(gradients, sizes) * sum(sizes), "factor", "it is not divided by the number of all rows"),
        (_weighted(gradients, sizes) * sum(sizes) / len(sizes), "factor", "it is divided by the number of parts, not "
         "of rows"),
        (_weighted(gradients, [1 / one for one in sizes]), "numbers", "it is turned around: small parts count most"),
        (_weighted(gradients, list(reversed(sizes))), "order", "the sizes are in another order than the gradients"),
    )  # fmt: skip
    return slip(got, slips)


# 15.2: a hook that averages.

PROCESSES = 3
"""The number of processes that are imitated, each by a thread."""


class _Apart(Exception):
    """A process sends what another one does not."""


class _Together:
    """An ``all_reduce`` between threads: each waits for the others, as processes do."""

    def __init__(self) -> None:
        self._change = Condition()
        self._met = [0] * PROCESSES
        self._ended: set[int] = set()
        self._given: list[torch.Tensor] = [torch.zeros(())] * PROCESSES
        self.calls = 0

    def of(self, rank: int) -> Callable[[Any], None]:
        """The ``all_reduce`` of one of them."""

        def all_reduce(tensor: Any) -> None:
            if not isinstance(tensor, Tensor | torch.Tensor):
                raise TypeError(f"all_reduce takes a tensor, got {type(tensor).__name__}")
            own = raw_of(tensor) if isinstance(tensor, Tensor) else tensor
            self._given[rank] = own.detach().clone()
            self._meet(rank)
            if len({one.shape for one in self._given}) > 1:
                raise _Apart
            total = torch.stack(self._given).sum(0)
            self._meet(rank)  # no process overwrites what another one still reads
            with torch.no_grad():
                own.copy_(total)
            self.calls += rank == 0

        return all_reduce

    def _meet(self, rank: int) -> None:
        """Wait until all have come this far.

        Raises:
            _Apart: one has ended before.
        """
        with self._change:
            self._met[rank] += 1
            mine = self._met[rank]
            self._change.notify_all()
            self._change.wait_for(lambda: min(self._met) >= mine or self._missing(mine))
            if self._missing(mine):
                raise _Apart

    def _missing(self, wanted: int) -> bool:
        return any(self._met[rank] < wanted for rank in self._ended)

    def done(self, rank: int) -> None:
        """One of them has ended: the others need not wait for it."""
        with self._change:
            self._ended.add(rank)
            self._change.notify_all()


def _network() -> Module:
    net = Sequential(Linear(2, 3), Tanh(), Linear(3, 1)).double()
    for number, one in enumerate(net.parameters(), 1):
        one.data.copy_(torch.arange(one.numel()).add(number).sin().reshape(one.shape))
    return net


def _learn(net: Module, rank: int, step: int) -> None:
    x = torch.arange(8.0, dtype=torch.float64).reshape(4, 2).add(5 * rank + 11 * step).cos()
    (net(tensor(x)) - rank).square().mean().backward()


Gradients = list[dict[str, torch.Tensor | None]]
"""The gradients of two steps: one dict for each step, by the names of the parameters."""


def _two_steps(rank: int, attach: Callable[[Module], Any]) -> Gradients:
    net, found = _network(), []
    attach(net)
    for step in range(2):
        net.zero_grad()
        _learn(net, rank, step)
        found.append({name: None if one.grad is None else raw_of(one.grad).clone() for name, one in
                      net.named_parameters()})  # fmt: skip
    return found


def _of_all(attach: Callable[..., Any]) -> tuple[list[Gradients | BaseException], int]:
    """The results of the imitated processes or the errors that they raised, and how often they sent something."""
    together = _Together()
    found: list[Gradients | BaseException] = [[] for _ in range(PROCESSES)]

    def work(rank: int) -> None:
        try:
            with in_a_thread():
                found[rank] = _two_steps(rank, lambda net: attach(net, together.of(rank), PROCESSES))
        except BaseException as error:  # whatever the student's function raises is its fault
            found[rank] = error
        finally:
            together.done(rank)

    threads = [Thread(target=work, args=(rank,)) for rank in range(PROCESSES)]
    for one in threads:
        one.start()
    for one in threads:
        while one.is_alive():  # a thread that waits without end could not be stopped itself
            one.join(0.05)
    return found, together.calls


def _in_a_backward(error: BaseException) -> bool:
    """Whether an error was raised during the backward of ``_learn``, and not where the hooks were attached."""
    return any(frame.f_code is _learn.__code__ for frame, _ in walk_tb(error.__traceback__))


def _hook(answer: Any) -> Deviation | None:
    needs_function(answer, "attach(net, all_reduce, size)")
    found, calls = _of_all(answer)
    errors = [one for one in found if isinstance(one, BaseException)]
    own = [one for one in errors if not isinstance(one, _Apart)]
    if own:
        if isinstance(own[0], AttributeError) and "'NoneType'" in str(own[0]) and not _in_a_backward(own[0]):
            return Deviation(
                "order",
                "before a backward each .grad is None: averaging belongs into the hook, which a backward calls. Hand "
                "the hook over without parentheses behind its name",
            )
        return raised("attach(net, all_reduce, size), or its hook,", own[0])
    if errors:
        return Deviation("order", "the processes wait for one another: all have to send the same tensors equally often")
    if not calls:
        return Deviation("numbers", "nothing was sent: a hook has to call all_reduce during the backward")
    alone = [_two_steps(rank, lambda _: None) for rank in range(PROCESSES)]
    for rank, one in enumerate(found):
        assert not isinstance(one, BaseException)
        for step, gradients in enumerate(one):
            for name, got in gradients.items():
                told = _about_average(got, [other[step][name] for other in alone], rank)
                if told is not None:
                    when = translate(" in the second backward") if step else ""
                    return Deviation(told.kind, "the gradient of {name}{when}: {told}", name=name, when=when, told=told)
    return None


def _about_average(got: torch.Tensor | None, alone: Sequence[Any], rank: int) -> Deviation | None:
    if got is None:
        return Deviation("zero", "there is none: a hook that returns something replaces the gradient by it")
    total = torch.stack(list(alone)).sum(0)
    found = difference(got, total / PROCESSES)
    if found is None:
        return None
    slips = (
        (alone[rank], "numbers", "it is still the gradient of one process: nothing of the others came in"),
        (total, "factor", "it is the sum over all processes: divide by size"),
        (alone[rank] / PROCESSES, "factor", "it is that of one process, divided: nothing of the others came in"),
        (total / PROCESSES**2, "factor", "it is divided twice"),
        (total / 2, "factor", "it is divided by 2: there may be more processes"),
    )
    return slip(got, slips) or found


# 15.3: gradients that add up, and travel once.


class _Counted(Module):
    """A network that notes which of its backwards would average, as ``DistributedDataParallel`` decides it."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.module = module
        self.averages = True
        self.backwards: list[bool] = []
        self.waiting = 0
        """The largest number of forwards whose backward had not run."""
        self._forwards = 0

    def forward(self, x: Tensor) -> Tensor:
        """The output of the network. A backward averages if its forward ran outside of ``no_sync``."""
        averages = self.averages
        self._forwards += 1
        self.waiting = max(self.waiting, self._forwards - len(self.backwards))
        found: Tensor = self.module(x)
        if found.requires_grad:
            found.register_hook(lambda _: self.backwards.append(averages))
        return found

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """As that of ``DistributedDataParallel``."""
        before, self.averages = self.averages, False
        try:
            yield
        finally:
            self.averages = before


def _parts(count: int) -> list[Tensor]:
    return [tensor(torch.arange(8.0, dtype=torch.float64).reshape(4, 2).add(one).sin()) for one in range(count)]


def _loss(net: Module, part: Tensor) -> Tensor:
    found: Tensor = net(part).square().mean()
    return found


def _accumulation(answer: Any) -> Deviation | None:
    needs_function(answer, "accumulate(net, loss_of, parts)")
    return next((found for count in (4, 3) if (found := _of_parts(answer, count)) is not None), None)


def _of_parts(answer: Any, count: int) -> Deviation | None:
    form = translate("accumulate(net, loss_of, parts) of {count} parts", count=count)
    net, parts = _Counted(_network()), _parts(count)
    attempt(form, answer, net, _loss, parts)
    if len(net.backwards) != len(parts):
        return Deviation(
            "numbers",
            "each of {total} parts has a backward of its own, so that its memory is free before the next; the "
            "number of backwards was {count}",
            count=len(net.backwards),
            total=len(parts),
        )
    if net.waiting > 1:
        return Deviation("order", "the backward of each part belongs before the next forward, which needs its memory")
    if net.backwards != [False] * (len(parts) - 1) + [True]:
        return _about_journeys(net.backwards)
    alone = []
    for part in parts:
        other = _network()
        _loss(other, part).backward()
        alone.append([raw_of(one.grad) for one in other.parameters()])
    for at, (name, one) in enumerate(net.module.named_parameters()):
        each = [gradients[at] for gradients in alone]
        total = torch.stack(each).sum(0)
        got = one.grad
        if got is None or difference(got, total / len(parts)) is not None:
            return Deviation(*_about_sum(got, each, total, name))
    return None


def _about_journeys(backwards: list[bool]) -> Deviation:
    count = sum(backwards)
    if count == 0:
        return Deviation("zero", "the gradients never travel: the last part has to be outside of net.no_sync()")
    if count > 1:
        return Deviation(
            "numbers",
            "the gradients travel {count} times: forward and backward of all parts but the "
            "last belong into net.no_sync()",
            count=count,
        )
    return Deviation("order", "the gradients travel before all parts are there: the last part has to be the one "
                     "outside of net.no_sync()")  # fmt: skip


def _about_sum(got: Any, each: Sequence[torch.Tensor], total: torch.Tensor, name: str) -> tuple[str, str]:
    if got is not None and is_near(got, total):
        return "factor", "the gradients of all parts are added up: the loss of each has to be divided by their number"
    many = len(each)
    if got is not None and any(is_near(got, sum(each[-last:]) / size) for last in range(1, many) for size in (1, many)):
        return "numbers", "only those of the last parts are there: nothing may clear them in between"
    if got is not None and many != 4 and is_near(got, total / 4):
        return "factor", "the loss of each part is divided by 4: there may be more parts, or fewer"
    if got is not None and is_near(got, (total - each[-1]) / many + each[-1]):
        return "factor", "the loss of the last part is not divided by their number"
    return "numbers", translate("the gradient of {name} is not that of the mean over all parts", name=name)


EXERCISES = (
    Exercise(
        "15.1",
        "Parts of different sizes",
        "Write combined(gradients, sizes): the gradient of the mean over all rows. gradients is a list of tensors: "
        "for each part, the gradient of the mean over its rows. sizes is a list of the numbers of rows of the parts.",
        FunctionJudge(_combinations, "combined(gradients, sizes)", _about_combination),
        (
            "The mean times the number of rows is a sum. How many rows does each part have?",
            "The sum over all rows is the sum over the parts of size * gradient.",
            "Divide that by sum(sizes).",
        ),
    ),
    Exercise(
        "15.2",
        "Data parallel in one hook",
        "Write attach(net, all_reduce, size): after it, each backward writes into every .grad the mean over all "
        "processes. size is the number of processes. all_reduce(tensor) waits for the others and puts the sum over "
        "all processes into the tensor.",
        _hook,
        (
            "parameter.register_post_accumulate_grad_hook(hook) calls hook(parameter) when its .grad is complete.",
            (
                "In the hook, all_reduce(parameter.grad.data) replaces the gradient by the sum over all. What is "
                "missing for a mean?"
            ),
            "net.parameters() gives all parameters; each needs the hook. In place: parameter.grad.data /= size.",
        ),
    ),
    Exercise(
        "15.3",
        "Add up, then travel once",
        "Write accumulate(net, loss_of, parts): a backward for each part, so that .grad has the gradient of the "
        "mean over all parts, and the processes exchange gradients only in the last backward. net is a "
        "DistributedDataParallel, loss_of(net, part) gives the mean loss of a part, and all parts have the same "
        "size.",
        _accumulation,
        (
            "Inside a with block of net.no_sync() a backward sends no gradients. The forward belongs inside, too.",
            "All parts but the last are parts[:-1]. The last one comes after the with block.",
            "The mean over all parts is the sum of loss / len(parts).",
        ),
    ),
)

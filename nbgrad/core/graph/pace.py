"""``Pace``: which steps of a training loop a graph records, and which it lets pass.

A recorded step takes longer than a plain one. So the first steps are recorded, then as many as fit into a share of the
loop's time, which is measured while it runs. In between the graph rests: torch has its own functions again, and no
observer is notified. The graph then learns of backwards and of optimizers' steps alone.
"""

from collections import deque
from time import perf_counter
from typing import Any
from weakref import ref

import torch

from nbgrad.choices import COST
from nbgrad.core.engine.call_site import CallSites, places
from nbgrad.core.engine.pacing import QUIET, Pacer, Stretch
from nbgrad.core.engine.rounds import Rounds, rounds
from nbgrad.core.engine.state import current
from nbgrad.core.graph.losses import LossRecorder
from nbgrad.core.graph.rest import Rest

FIRST = 4
"""So many steps are recorded first, whatever they cost."""

_SHARE = 0.4
"""This part of the cost is for the recorded steps, and the rest for the watched ones between them, and for the
beginning and the end of the graph."""

_FREE = 0.01
"""So many seconds of a loop are recorded, whatever share of it that is: one does not notice it."""

_THINNED = 1.2
"""Once half of that time is used, a step is recorded each time that their number has grown by this factor."""

_PLAIN = 2
"""So many steps in between are measured before the cost of a recorded one is known."""

_AFTER = 8
"""So many steps after a recorded one are slower than other plain ones: the memory lies elsewhere by then."""

_STEADY = 64
"""After so many recorded steps without one in between, plain steps are measured again: they may take longer by now."""

_AFTER_LEAP = 3
"""So many steps are recorded after a leap of the loss."""

_TOGETHER = 16
"""An optimizer that took no step in so many backwards is not waited for at the end of a step of the loop."""

_ADDED = 64
"""If no optimizer has stepped after so many backwards, neither sums of gradients nor an attack wait for one."""

_SHORT = 1e-3
"""Where steps are shorter than this, in seconds, the rounds of a loop that no variable counts are not followed: to look
at the variables takes up to 20 microseconds."""

_AT_ONCE = 0.04
"""Short steps are looked at together, those of this time: in seconds."""

_TICK = 1e-6
"""A clock may count in units of this many seconds: it shows no time for a quicker step."""

_BLIND = 64
"""If the rounds of a loop are not known, they are looked for again after 1, 2, 4 ... and at most so many steps."""


_MARKED = 64
"""The graphs of so many backwards that were not recorded are looked for at the end."""


class _Mark:
    """Lives as long as the node of torch's graph that holds it: torch's nodes have no weak references."""

    __slots__ = ("__weakref__",)


class Pace(Pacer):
    """Decides after each step of a loop whether the graph records the next one.

    A step ends with that of an optimizer; where several take turns, as in a GAN, with the last of them. Without an
    optimizer each backward is a step, unless gradients are added up for a step that is still to come. Two such steps
    are recorded together, because the program changes its parameters after the backward.

    Args:
        rest: of the graph.
        every: record the first two steps, and then one of so many; None for as many as ``cost`` allows.
        cost: the share of the time of the loop that recording may add.

    Attributes:
        every, cost: as they were given.
    """

    def __init__(
        self,
        rest: Rest,
        every: int | None = 1,
        cost: float = COST,
    ) -> None:
        self._rest = rest
        self.every, self.cost = every, cost
        self._losses = LossRecorder()
        self._steps = self._backwards = 0
        self._stepping = self._alone = False
        self._summed = 0  # how many backwards have added to a ``.grad``
        self._sites = CallSites()  # of the steps of optimizers
        self._optimizers: dict[int, int] = {}  # by the number of the line of the step, that of the last backward
        self._seen: set[int] = set()  # those that have stepped in this step of the loop
        self._stretch = Stretch()
        self._left = FIRST if every is None else 2  # how many more are to be recorded
        self._recorded: list[float] = []  # the seconds of the recorded ones, until the plain ones are known
        self._plain: deque[float] = deque(maxlen=31)
        self._began = self._since = perf_counter()
        self._spent = 0.0  # by recording, in seconds
        self._due = 0.0
        self._more = 0.0  # what the next recorded step costs
        self._steady = 0
        self._last = 0  # the last recorded step
        self._leapt = False
        self._foresight = Foresight()
        self._marks = deque[tuple[int, int, Any]](maxlen=_MARKED)

    @property
    def rests(self) -> bool:
        """Whether the graph rests."""
        return self._rest.rests

    @property
    def losses(self) -> LossRecorder:
        """Those of all backwards."""
        self.take_over()
        return self._losses

    @property
    def steps(self) -> int:
        """How many steps of a loop have ended, recorded or not."""
        return self._steps + self._stretch.ended

    @property
    def spent(self) -> float:
        """The seconds that recording has added to the loop, as far as it was measured by now."""
        return self._spent

    def is_outside(self) -> bool:
        """Whether no block and no call of a module runs in the graph, whose end would restore the state from before."""
        return self._rest.is_here(current())

    def is_over(self) -> bool:
        """Whether its graph records no more."""
        return self._rest.ended

    def passing(self) -> Stretch | None:
        """Its stretch of steps, if some are to come at whose end nothing has to be decided."""
        return self._stretch if self._stretch.left > 0 else None

    def backward_ended(self, roots: tuple[Any, ...], accumulates: bool, differentiable: bool) -> None:
        """Count it, and keep its loss."""
        try:
            self._stretch.note(roots)
            if self._stretch.left > 0:
                return
            self.take_over()
            if self.rests:
                self._mark(roots[0])
            within = differentiable or self._stepping  # what was created is still to be differentiated
            if not self._optimizers and not within and self._is_alone(accumulates):
                self._step_ended()
        except Exception as error:
            self._rest.failed(error)

    def _mark(self, root: Any) -> None:
        """Make a mark in torch's graph of ``root``. It lives as long as this graph."""
        node: Any = root.grad_fn if type(root) is torch.Tensor else None
        if node is not None:
            mark = _Mark()
            node.metadata[_Mark] = mark
            self._marks.append((self._backwards, self._steps, ref(mark)))

    def take_over(self) -> None:
        """Count the backwards that have ended since the last time, and look at their losses."""
        passed, self._stretch.passed = self._stretch.passed, []
        if not passed:
            return
        self._backwards += len(passed)
        try:
            for loss, at in passed:
                self._leapt = self._losses.note(loss, at) or self._leapt
            if self.rests:
                self._rest.passed(len(passed))
        except Exception as error:
            self._rest.failed(error)

    def living(self) -> list[int]:
        """The numbers of earlier backwards that were not recorded, and whose graphs still live.

        The last two steps are left out: the program has names for their losses.
        """
        return [number for number, step, mark in self._marks if step < self.steps - 2 and mark() is not None]

    def _is_alone(self, accumulates: bool) -> bool:
        """Whether a backward ends a step of a loop without an optimizer."""
        if not accumulates:  # as of ``torch.autograd.grad``: a step may take many, for an attack on its inputs
            return not self._summed and (self._alone or self._backwards > _ADDED)
        self._summed += 1
        if not self._alone:
            added = self._rest.adds_up()
            self._alone = self._summed > _ADDED or (self._summed > 1 and not added)
            if self._alone:
                self._steps = self._summed - 1
        return self._alone

    def ended_by_hand(self) -> bool:
        """Whether the first step has ended without an optimizer: the program has changed its parameters by itself.

        To be asked before each backward.
        """
        if not (self._alone or self._optimizers) and self._rest.changed_by_hand():
            self._alone, self._steps = True, 1
        return self._alone

    def step_begun(self) -> None:
        """The backwards in it are parts of it."""
        self._stepping = True

    def step_ended(self, optimizer: Any) -> None:
        """A step of the loop has ended, if all optimizers have stepped that take part in it."""
        self._stepping = False
        if self._stretch.left > 0 and self._stretch.stepped(optimizer):
            return
        self._stretch.left, self._stretch.optimizer = 0, id(optimizer)
        try:
            self.take_over()
            line = self._sites.number(places())
            if len(self._optimizers) == 1 and line in self._optimizers:
                self._optimizers[line] = self._backwards
                self._step_ended()
                return
            self._seen.add(line)
            waits = [one for one, last in self._optimizers.items() if last > self._backwards - _TOGETHER]
            self._optimizers[line] = self._backwards
            new = line not in waits
            if new and waits:  # it belongs to the same step as those that stepped before it
                self._steps -= 1
                self._left += 1
            if new or self._seen.issuperset(waits):
                self._seen = set()
                self._step_ended()
        except Exception as error:
            self._rest.failed(error)

    def _step_ended(self) -> None:
        ended, self._stretch.ended = self._stretch.ended + 1, 0
        self._steps += ended
        if self.every == 1:
            return
        now = perf_counter()
        seconds = (now - self._since) / ended
        last = self._foresight.is_last(self._steps, seconds)
        if self.rests:
            self._plain.append(seconds)
            self._follow(seconds)
            if (last or self._is_wanted(now)) and self._rest.wake():
                self._left = self._many()
                self._leapt = False
        else:
            self._measure(seconds)
            self._last = self._steps
            self._left -= 1
            if self._left <= 0 and not last and not self._is_wanted(now) and self._rest.rest():
                self._steady = 0
        self._since = perf_counter()
        self._spent += self._since - now if self._plain else 0.0
        self._stretch.left = self._ahead(seconds) if self.rests and len(self._optimizers) == 1 else 0
        self._stretch.bound = self._losses.bound() if self._stretch.left else 0.0

    def _ahead(self, seconds: float) -> int:
        """The number of coming steps at whose end nothing has to be decided; a step takes ``seconds``."""
        seconds = max(seconds, _TICK)
        if self._steps - self._last <= _AFTER or len(self._plain) < _PLAIN:
            return 0
        many = min(self._foresight.sure(self._steps) - 1, QUIET - 1, int(_AT_ONCE / seconds))
        if self.every is not None:
            many = min(many, self.every - self._steps % self.every - 1)
        else:
            many = min(many, int((self._due - self._since) / seconds))
            if self._spent + self._more < _FREE:
                many = min(many, int(_THINNED * self._last) - self._steps)
        return max(many, 0)

    def _many(self) -> int:
        """How many steps are recorded together."""
        together = 1 if self._optimizers else 2
        return max(together, _AFTER_LEAP) if self._leapt else together

    def _usual(self) -> float:
        """The seconds of a plain step: those of the faster ones, because the others may come after a recorded one."""
        return sorted(self._plain)[len(self._plain) // 4]

    def _measure(self, seconds: float) -> None:
        """A recorded step took so many ``seconds``."""
        self._steady += 1
        if not self._plain:
            self._recorded.append(seconds)
            return
        self._settle()
        more = max(seconds - self._usual(), 0.0)
        self._spent += more
        self._more = more if not self._more else min(more, 4 * self._more)  # one may have been held up
        self._plan()

    def _follow(self, seconds: float) -> None:
        """A plain step took so many ``seconds``: what it took longer than others after a recorded one is its cost."""
        if self._steps - self._last > _AFTER or self._recorded:
            return
        usual = self._usual()
        more = min(max(seconds - usual, 0.0), usual / 2)
        self._spent += more
        self._due += (1 + 1 / (_SHARE * self.cost)) * more

    def _settle(self) -> None:
        """Add up how much the first recorded steps have cost, now that plain ones are known."""
        if self._recorded:
            more = max(min(self._recorded) - self._usual(), 0.0)  # the first ones also warm torch up
            self._spent += more * len(self._recorded)
            self._more, self._recorded = more, []

    def _plan(self) -> None:
        """When the next recorded step fits into the cost: a share of the time that plain steps alone would take."""
        due = (self._spent + self._many() * self._more) / (_SHARE * self.cost)
        self._due = self._began + self._spent + due

    def _is_wanted(self, now: float) -> bool:
        """Whether the next step is to be recorded."""
        if self.every is not None:
            return self._steps % self.every == 0
        if not self._plain and not self.rests:
            return now - self._began < _FREE / 2
        if self.rests and len(self._plain) < _PLAIN:
            return False
        if self._recorded:
            self._settle()
            self._plan()
        if self._leapt and self._spent < 2 * self.cost * (now - self._began) + _FREE:
            return True
        return (now >= self._due or self._is_free()) and (self.rests or self._steady < _STEADY)

    def _is_free(self) -> bool:
        """Whether the next step may be recorded in any case: at first each one, then ever fewer."""
        spent = self._spent + self._more
        return spent < _FREE / 2 or (spent < _FREE and self._steps > _THINNED * self._last)


class Foresight:
    """Whether the next step of a loop is its last one, as far as its lines and variables say it."""

    def __init__(self) -> None:
        self._next = 0  # the step at which the variables are looked at again
        self._looked: tuple[int, Rounds] | None = None
        self._blind = 1  # after so many steps the variables are looked at again, if they said nothing
        self._counted = 0  # the steps since a loop began whose rounds no variable counts
        self._length = 0  # how many they were the last time

    def sure(self, steps: int) -> int:
        """The number of steps until the variables are looked at again, after ``steps`` of them."""
        return max(self._next - steps, 0)

    def is_last(self, steps: int, seconds: float) -> bool:
        """Whether the next step is the last one, after so many ``steps`` of so many ``seconds`` each."""
        if steps < self._next:
            return False
        known, before = rounds(), self._looked
        if known is None or (known.at is None and seconds < _SHORT):
            self._looked, self._next = None, steps + self._blind
            self._blind = min(2 * self._blind, _BLIND)
            return False
        self._looked, self._blind = (steps, known), 1
        if before is not None and before[1].outer != known.outer:
            before, self._length, self._counted = None, self._counted, 0
        if known.at is None:
            self._counted += 1
            return known.last and self._counted == (self._length or known.length) - 1
        left, again = known.length - 1 - known.at, 1
        each = 1  # the rounds of a step: several where gradients are accumulated
        if before is not None and before[1].at is not None and steps > before[0]:
            each = max((known.at - before[1].at) // (steps - before[0]), 1)
            again = left // each // (2 if known.last else 1)
        self._next = steps + max(again, 1)
        return known.last and each <= left < 2 * each

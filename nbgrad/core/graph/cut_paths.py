"""The places where the path of a gradient ends: a tensor is used there without its history, outside of the records."""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple, TypeVar
from weakref import ref

import torch
from torch.autograd.function import BackwardCFunction
from torch.distributions import Distribution
from torch.multiprocessing.reductions import StorageWeakRef

from nbgrad.core.engine.call_site import called_by_user, user_place
from nbgrad.core.engine.node import Leaf, OpInfo, Output, raw_of, record_id
from nbgrad.core.engine.observer import Cut
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.state import Scope, current
from nbgrad.core.engine.tensor_data import differentiable, dtype_name, memory_of
from nbgrad.core.engine.torch_origins import TENSORS, kind_of, known_id, known_origin, origin_of
from nbgrad.core.graph.facts import Ran
from nbgrad.core.graph.names import qualified
from nbgrad.core.graph.place_text import place_text
from nbgrad.core.graph.training import Uncleared
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.core.translation import message, translate

_DERIVATIONS = 64
"""The picture of a step knows the derivatives of this many backwards."""

_MOST = 4096
"""How many uses without history are remembered before those of tensors that are gone are dropped."""


T = TypeVar("T", bound=tuple[Any, ...])


class _Fading(dict[int, T]):
    """Facts about objects that may be deleted, by id: tuples that begin with a weak reference to the object."""

    most = _MOST

    def make_room(self) -> None:
        """Drop the older entries of deleted objects once there are many entries.

        The newer half stays: what a loop has just done is still asked for. The next time is at twice the number that is
        left. Other threads may add in the meantime.
        """
        if len(self) < self.most:
            return
        for key, kept in list(self.copy().items())[: self.most // 2]:
            if kept[0]() is None:
                self.pop(key, None)
        self.most = max(_MOST, 2 * len(self))


class ByHand(NamedTuple):
    """The changes of a leaf by the program itself: the line of the first, and its ``.grad`` at each."""

    place: Place
    grad: Uncleared


class Derivation(NamedTuple):
    """A backward whose gradients can be differentiated, with its line.

    Attributes:
        roots: the id of each root, and behind it those of what it was made of, one after the other: a sum of u, and u.
        asked: the ids of the tensors that get a gradient.
        place: the line.
    """

    roots: tuple[tuple[int, ...], ...]
    asked: tuple[int, ...]
    place: Place


def _made_of(root: int, ops: dict[int, Ran]) -> Iterator[int]:
    """A root, and what it was made of as long as that is one tensor."""
    for _ in range(_DERIVATIONS):
        yield root
        if root not in ops or len(sources := [one for one in ops[root].sources if isinstance(one, int)]) != 1:
            break
        (root,) = sources


class Uses:
    """Uses without history, which are not in the records of a graph, and the ids that a backward reached.

    Attributes:
        reached: the ids of everything that the last backward reached.
        asked: the ids of the tensors that the user named as those that this backward gives a gradient; None for all.
        refused: whether the user asked for a backward that could not begin. It matters only as long as no backward
            has run.
        named: the ids of all tensors that a backward was to give a gradient to alone, as in ``grad(loss, x)``.
        derived: the ids of the roots whose gradients can be differentiated, as by ``grad(loss, x, create_graph=True)``.
        derivations: the last of the backwards that these began.
        idle: the number of backwards before the last step that changed nothing, the message about it, and the remedy.
        frozen: by Python's ``id()``, the parameters that ops without history used, and buffers beside them, each with
            its first use.
        behind: by the id of the record of a constant, the ends of the paths from which it was computed.
    """

    def __init__(self) -> None:
        self.reached: Sequence[int] = ()
        self.asked: set[int] | None = None
        self.refused = False
        self.frozen: _Fading[tuple[ref[Any], Cut, Scope | None]] = _Fading()
        self.behind: dict[int, tuple[Cut, ...]] = {}
        self._cuts: _Fading[tuple[ref[Any], list[Cut], Scope | None]] = _Fading()
        self.idle: tuple[int, tuple[str, str] | None] = (0, None)
        self.named: set[int] = set()
        self.derived: set[int] = set()
        self.derivations: deque[Derivation] = deque(maxlen=_DERIVATIONS)
        self._reads: _Fading[tuple[ref[Any], str, Place]] = _Fading()
        self._detached: _Fading[tuple[Callable[[], object], tuple[Cut, ...]]] = _Fading()  # by the address of memory
        self._by_hand: _Fading[tuple[ref[Any], ByHand]] = _Fading()
        self._ends: _Fading[tuple[ref[torch.Tensor], tuple[Cut, ...]]] = _Fading()  # by the id of the tensor at the end

    def derive(self, roots: tuple[int, ...], asked: set[int], ops: dict[int, Ran]) -> None:
        """The gradients of ``roots`` can be differentiated. Of many roots the newest ones are kept."""
        made = tuple([tuple(_made_of(root, ops)) for root in roots[:_DERIVATIONS]])
        self.derivations.append(Derivation(made, tuple(sorted(asked)), user_place()))
        if len(self.derived) >= _MOST:
            self.derived = set(sorted(self.derived)[_MOST // 2 :])
        self.derived.update(roots)

    def unrecorded(self, op: OpInfo, args: tuple[Any, ...], results: tuple[Any, ...], *, enabled: bool) -> None:
        """``op`` ran on ``args`` and was not recorded, inside ``no_grad`` or because it has no gradient."""
        if op.name.endswith("_like"):
            return  # ones_like and its kind read the shape alone
        cut: Cut | None = None
        before: dict[Cut, None] = {}
        frozen: list[Any] = []
        made = [id(result) for result in results]
        for arg in [one for one in args if isinstance(one, TENSORS)]:
            if id(raw_of(arg)) in made:  # a change in place does not count as a use
                self._change_by_hand(arg)
            elif arg.requires_grad:
                cut = cut or _cut(op, results, enabled=enabled)
                if cut.kind == "function":
                    return  # its backward, and not this op, decides about the gradient
                self._note(arg, cut)
            elif kind_of(arg) == "parameter":
                frozen.append(arg)
            elif self._ends:
                before.update(dict.fromkeys(self.ends(raw_of(arg))))
        if frozen:
            before[self._frozen_use(op, frozen, args)] = None
        if cut is not None or before:
            self._end(results, (*before,) if cut is None else (cut,))

    def _change_by_hand(self, leaf: Any) -> None:
        """Remember the line that first changes a leaf inside ``no_grad``. Steps of optimizers are not seen here."""
        if not leaf.requires_grad:
            return
        known = self._by_hand.get(id(leaf))
        if known is None or known[0]() is not leaf:
            self._by_hand.make_room()
            known = self._by_hand[id(leaf)] = (ref(leaf), ByHand(user_place(), Uncleared()))
        known[1].grad.look(leaf.grad, 1)  # by a backward

    def by_hand(self) -> "dict[int, ByHand]":
        """The known changes by the program itself, by the ids of the leaves, which it does not hold."""
        found = [(known_id(held()), changes) for held, changes in self._by_hand.copy().values() if held() is not None]
        return {id: changes for id, changes in found if id is not None}

    def _frozen_use(self, op: OpInfo, frozen: list[Any], args: tuple[Any, ...]) -> Cut:
        """The first use of ``frozen`` parameters and of buffers beside them. A loop uses the same ones in each step."""
        known = self.frozen.get(id(frozen[0]))
        if known is not None and known[0]() is frozen[0]:
            return known[1]
        scope = current().scope
        names = dict.fromkeys([_called(one, scope) for one in frozen])
        self.frozen.make_room()
        use = Cut("frozen", op.name, *_where(), name=" and ".join(names))
        buffers = [one for one in args if scope is not None and isinstance(one, TENSORS) and scope.attribute(one)]
        self.frozen.update({id(one): (ref(one), use, scope) for one in (*frozen, *buffers)})
        return use

    def beside(self, op: OpInfo, results: tuple[Any, ...]) -> None:
        """``op`` was recorded. Paths end at its results without a gradient, such as the positions of maxima."""
        if flat := [one for at, one in enumerate(results[: op.shown]) if at not in op.live]:
            self._end(flat, (_cut(op, flat, enabled=True),))

    def detached(self, tensor: Any, detached: Any, what: str) -> None:
        """``what``, which the user or a function of nbgrad's has called, cut ``detached`` from ``tensor``."""
        if not tensor.requires_grad and tensor is not detached:
            if before := self.ends(raw_of(tensor)):
                self._end([raw_of(detached)], before)
            return
        cut = Cut("detached", what, *_where())
        self._end([raw_of(detached)], (cut,))
        if (memory := memory_of(raw_of(detached))) > 0:
            self._detached.make_room()
            self._detached[memory] = (_memory_ref(raw_of(detached)), (cut,))
        if not cut.inside and tensor.requires_grad:
            self._note(tensor, cut)

    def read(self, tensor: Any, what: str) -> None:
        """The user read the values of ``tensor`` without its history. For a leaf this is usual, and is not kept."""
        origin = known_origin(tensor)
        if origin is None or isinstance(origin, Leaf) or not called_by_user():
            return
        self._reads.make_room()
        self._reads.setdefault(record_id(origin), (ref(origin), what, user_place()))

    def idle_step(self, params: Sequence[Tensor], what: str, backwards: int) -> None:
        """The step ``what`` came after so many backwards, and none of ``params`` has a gradient."""
        reached = set(self.reached)
        if any(known_id(one) in reached for one in params):
            why = translate("their gradients were cleared after the last backward: ")
            remedy = translate("call zero_grad(), backward() and step() in this order")
        else:
            why = f"{translate(OTHERS)}. "
            remedy = translate(
                "Give the optimizer the parameters of the trained model, after all code that copies, "
                "replaces or freezes them"
            )
        text = translate(
            "{what} at {place} changed nothing: none of its {count} parameters has a gradient, and {why}",
            what=what,
            place=place_text(user_place()),
            count=len(params),
            why=why,
        )
        self.idle = backwards, (text, remedy)

    def ends(self, data: torch.Tensor) -> tuple[Cut, ...]:
        """The known ends of the gradient paths along which ``data`` were computed."""
        known, cuts = self._ends.get(id(data), (None, ()))
        return cuts if known is not None and known() is data else ()

    def constant(self, id: int, data: torch.Tensor) -> None:
        """``data`` are used as a constant, which has the record ``id``.

        It may lie in the memory of a tensor that was detached and went through numpy.
        """
        cuts = self.ends(data)
        if not cuts and self._detached:
            known, cuts = self._detached.get(memory_of(data), (None, ()))
            cuts = () if known is None or known() is None else cuts
        if cuts:
            self.behind[id] = cuts

    def _end(self, results: Sequence[Any], cuts: tuple[Cut, ...]) -> None:
        self._ends.make_room()
        for result in results:
            if isinstance(result, torch.Tensor):
                self._ends[id(result)] = (ref(result), cuts[:_TOLD])

    def _note(self, tensor: Any, cut: Cut) -> None:
        origin = origin_of(tensor)
        if origin is None:
            return  # an op of torch's that the graph has not seen
        self._cuts.make_room()
        key = origin.node if isinstance(origin, Output) else origin
        _, known, _ = self._cuts.setdefault(record_id(origin), (ref(key), [], current().scope))
        if not any(cut.place.same(other.place) for other in known):
            known.append(cut)

    def cuts(self) -> dict[int, list[Cut]]:
        """The ends of the paths to tensors used without history, by the id of the tensor, in their order."""
        return {seq: list(found) for seq, (_, found, _) in self._cuts.copy().items()}

    def reads(self) -> dict[int, tuple[str, Place]]:
        """How and where the user first read the values of the result of an op, by its id."""
        return {seq: (what, place) for seq, (_, what, place) in self._reads.copy().items()}

    def scopes(self) -> dict[int, Scope | None]:
        """The scope of the first use without history of each tensor, by the ids of ``cuts``."""
        return {seq: scope for seq, (_, _, scope) in self._cuts.copy().items()}

    def leaves(self) -> "dict[int, ref[Any]]":
        """The leaves among the tensors that were used without history, by id."""
        origins = [known() for known, _, _ in self._cuts.copy().values()]
        return {origin.seq: origin.ref for origin in origins if isinstance(origin, Leaf)}


_Held: Any = StorageWeakRef  # it has no types


def _memory_ref(data: torch.Tensor) -> Callable[[], object]:
    """A weak reference to the memory of ``data``, which arrays of numpy and other tensors may keep."""
    held: Any = _Held(data.untyped_storage())
    return lambda: None if held.expired() else held


_TOLD = 3
"""The largest number of path ends that are reported."""


def _called(frozen: Any, scope: Scope | None) -> str:
    """The name of a frozen parameter, with the path of the module that uses it."""
    held = scope.attribute(frozen) if scope is not None else None
    if held is not None and scope is not None:
        return qualified(held, scope.path())
    return str(frozen.name or translate("a parameter"))


def _where() -> tuple[Place, bool]:
    """The user's line that runs now, and whether that line called a function of nbgrad that runs more ops."""
    scope = current().scope
    if scope is not None and scope.place is not None:
        return scope.place, True
    return user_place(), not called_by_user()


OTHERS = message("the last backward reached other parameters")
"""The words of the message about an idle step if the optimizer holds none of those that the backward reached."""

_DEPTH = 100
"""The largest number of frames between an op and the checkpoint or the ``Function`` that runs it."""


def _forward() -> str | None:
    """The forward with gradients off that runs now.

    A reentrant "checkpoint" of torch's, a "function" of the user's, or a "draw" from a distribution that could draw
    with a gradient. None if ``no_grad()`` switched them off.
    """
    module = sys.modules.get("torch.utils.checkpoint")
    code = None if module is None else module.CheckpointFunction.forward.__code__
    frame: FrameType | None = sys._getframe()
    for _ in range(_DEPTH):
        if frame is None:
            return None
        if frame.f_code is code:
            return "checkpoint"
        name, names = frame.f_code.co_name, frame.f_code.co_varnames
        if name in ("forward", "sample") and names:
            first = frame.f_locals.get(names[0])
            if name == "forward" and isinstance(first, BackwardCFunction):
                return "function"
            if name == "sample" and isinstance(first, Distribution) and first.has_rsample:
                return "draw"
        frame = frame.f_back
    return None


def _cut(op: OpInfo, results: Sequence[Any], *, enabled: bool) -> Cut:
    """``op`` has run on tensors that need a gradient, and its ``results`` need none."""
    if not enabled:
        return Cut(_forward() or "no_grad", op.name, *_where())
    first, lack = results[0] if results else None, None
    if op.differentiable and isinstance(first, torch.Tensor):
        flat = not differentiable(first.dtype)
        lack = translate(
            "the {dtype} that it gives" if flat else "the argument that it was passed as", dtype=dtype_name(first.dtype)
        )
    return Cut("no gradient", op.name, *_where(), lack)

"""``nbgrad.watch``: one live picture of a model, for a training loop that runs over several cells."""

import sys
from collections.abc import Callable
from contextlib import suppress
from math import hypot
from time import perf_counter
from typing import Any, Self
from weakref import WeakKeyDictionary, ref

import torch
from IPython.core.getipython import get_ipython
from IPython.display import display

from nbgrad.core.engine import pacing
from nbgrad.core.engine.call_site import tensors_in_sight, user_frame
from nbgrad.core.engine.node import record_id
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.pacing import pacers
from nbgrad.core.engine.state import current, set_state
from nbgrad.core.engine.torch_origins import origin_of
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.pace import Pace
from nbgrad.core.graph.rest import Rest
from nbgrad.core.graph.stats import norms, read
from nbgrad.core.recorder.switches import follow, follows, unfollow
from nbgrad.core.tensor.broadcast_check import warn_here
from nbgrad.nn.module.module import Module
from nbgrad.options import Options, check_known, share
from nbgrad.widgets import marimo_output, saved_script
from nbgrad.widgets.describe import outline
from nbgrad.widgets.description.format import number
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.schema import Picture
from nbgrad.widgets.folding.apply import asked
from nbgrad.widgets.notebook_output import Still
from nbgrad.widgets.pipeline import lay_out
from nbgrad.widgets.tensor_lookup import Holdings
from nbgrad.widgets.view import GraphView

Model = Module | torch.nn.Module

_watches: "WeakKeyDictionary[Model, Watch]" = WeakKeyDictionary()

_OPTIONS = ("name", "depth", "nodes", "direction", "history", "budget", "silence", "cost", "projector")
"""The options of ``nbgrad.record`` that a picture can have if it is drawn again and again."""

_TOLD = 0.12
"""The least seconds between two lines that say how the training goes. A line needs no picture, so it can come often."""

_SHARE = 20
"""A picture, or a line, that took a second to make is followed by at least this many seconds without one."""


class Watch(Observer):
    """A view that shows the last recorded backward through ``model``, from the cell it is made in until ``close``.

    Every cell is recorded in one graph: the first steps of a loop, then as many as ``cost`` allows. The picture is
    drawn again in place after a backward, but not more often than asked for, and never for more than a twentieth of the
    time. A line above it says the step, its loss and the norm of the gradients as they come, up to eight times a second
    and for no more than another twentieth. When a cell ends, the picture shows the last backward. If an op or a
    backward of the model raised the error that ended the cell, the picture shows this error too, until the next
    backward through the model. The watch also ends when the model is deleted, or when another watch of the model
    begins.

    Args:
        model: only backwards that reach a parameter of it are shown.
        every: the least number of seconds between two pictures.
        options: ``name``, ``depth``, ``nodes``, ``direction``, ``history``, ``budget``, ``silence``, ``cost``,
            ``projector`` as in ``nbgrad.record``.

    Attributes:
        graph: the recorded graph; ``graph.history`` has the norms of all backwards so far.
        view: the widget; ``show`` displays it once more.

    Raises:
        RuntimeError: there is no notebook to draw in.
        TypeError, ValueError: a model that is no module, of nbgrad's or torch's; an option that is not one of these, or
            that cannot have that value.
    """

    def __init__(self, model: Model, *, every: float = 0.5, **options: Any) -> None:
        _check_model(model)
        check_known("watch", options, _OPTIONS)
        shell = get_ipython()
        if shell is None and not marimo_output.runs():
            raise RuntimeError(
                "watch() draws in a notebook, and this program does not run in one. nbgrad.record works everywhere."
            )
        wanted = Options(**{"name": type(model).__name__, **options})
        self.graph = AutogradGraph(
            wanted.name, budget=wanted.budget << 20, history=wanted.history, silence=wanted.silence
        )
        self._rest = _TellingRest(self)
        self.graph.pace = Pace(self._rest, None, share(wanted.cost))
        self._model = ref(model)
        self._every = every
        self._shell: Any = shell
        self._waiting = self._unsaid = False
        self._follows = 0  # the id of the running cell's thread if torch is recorded in it, else 0
        self._shows_error = False
        self._next = self._next_line = 0.0
        self._depth, self._nodes = wanted.depth, wanted.nodes
        empty = outline(self.graph)
        picture: Picture = {**lay_out(empty), "projected": wanted.projector}
        self.view = GraphView(empty, picture, direction=wanted.direction)
        self.view.picture = b""  # empty until the first backward: the page makes its controls for its first picture
        self._still = Still(f"Live view of {self.graph.name}, from its first backward on.")
        self._drawn: tuple[Outline, Picture] | None = None  # drawn after the latest still picture
        if (before := _watches.get(model)) is not None:
            before.close()  # the cell that made it runs again
        _watches[model] = self
        if self._shell is not None:  # marimo has no event for a cell: there the watch draws until it is closed
            self._shell.events.register("pre_run_cell", self._begin)
            self._shell.events.register("post_run_cell", self._end)
        self._resume()
        self.show()

    def show(self) -> None:
        """Display the view once more. All its displays show the same picture."""
        if self._shell is None:
            marimo_output.append(self.view)
            return
        self._still.display()
        bundle = self.view._repr_mimebundle_()
        if bundle is not None:
            display(bundle[0], metadata=bundle[1], raw=True)
        saved_script.displayed()

    def close(self) -> AutogradGraph:
        """Stop recording, let go of every tensor, and return the graph, which can be displayed and saved."""
        if not self.graph.closed:
            if not self._shows_error:
                self._refresh()
            self._stop()
            self._keep(last=True)
        return self.graph

    def _stop(self) -> None:
        """Record no more; the picture stays as it is."""
        if self.graph.closed:
            return
        self._unfollow()
        if self._shell is not None:
            self._shell.events.unregister("pre_run_cell", self._begin)
            self._shell.events.unregister("post_run_cell", self._end)
        state = current()
        set_state(
            state.replaced(observers=tuple(one for one in state.observers if one not in (self, self.graph.listener)))
        )
        self.graph.close(self._variables())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"<watch of {self.graph.name}: {self.graph.backwards} backwards{', closed' if self.graph.closed else ''}>"
        )

    # A cell of a notebook runs in a context of its own: a mode switched on in one cell is off in the next.

    def _begin(self, _info: Any = None) -> None:
        self._guarded(self._resume)

    def _resume(self) -> None:
        """Record the cell that begins."""
        if self._model() is None:
            self.close()
            return
        state = current()
        if self.graph.listener not in state.observers:
            set_state(state.replaced(observers=(*state.observers, self.graph.listener, self)))
        followed = follows()
        if not self._follows:
            self._follows = follow()
        self._rest.begin(followed)
        if self.graph.pace not in pacers():
            pacing.add(self.graph.pace)

    def _unfollow(self) -> None:
        pacing.remove(self.graph.pace)
        self.graph.pace.take_over()
        rested = self._rest.end()  # the next cell is recorded from its beginning on
        if self._follows and not rested:
            unfollow(self._follows)
        self._follows = 0

    def _end(self, result: Any) -> None:
        self._guarded(lambda: self._cell_ended(result))

    def _cell_ended(self, result: Any) -> None:
        """Show the last backward, or the error that ended the cell."""
        self._unfollow()
        error = getattr(result, "error_in_exec", None)  # whoever fires the event by hand may pass nothing
        if error is not None and self._is_ours(error):
            try:
                self.graph.raised(error)
                self._refresh()
                self._shows_error = True
            finally:
                self.graph.recovered()
        elif self._waiting:
            self._refresh()
        if self._unsaid:
            self._say()
        self._keep(last=False)

    def _is_ours(self, error: BaseException) -> bool:
        """Whether the op that raised ``error``, or the backward, used a parameter or a tensor computed from one."""
        failure, model = self.graph.failure(error), self._model()
        if failure is None or model is None:
            return False
        roots = failure.ids if failure.frame is None else failure.frame.roots
        given = {*roots, *[id for id, _, _ in self.graph.listener.passed(tuple(roots))]}
        return not given.isdisjoint(_learned(model))

    def _keep(self, *, last: bool) -> None:
        """Leave the picture drawn last to whoever opens the notebook without its kernel."""
        if self._drawn is not None and self._shell is not None:
            self._still.show(*self._drawn, last=last)
            self._drawn = None

    def follows_torch(self) -> bool:
        """The model may be one of torch's."""
        return True

    def on_backward_end(self) -> None:
        """Draw the backward that has ended: the graph has recorded it by now.

        If the last picture is too new, the watch draws this backward later.
        """
        if self.graph.closed:
            return
        self._waiting = True
        self.passed()
        if perf_counter() >= self._next:
            self._guarded(lambda: self._draw(tensors_in_sight(user_frame())))

    def passed(self) -> None:
        """A backward has ended, recorded or not."""
        self._unsaid = perf_counter() < self._next_line
        if not self._unsaid:
            self._say()

    def _say(self) -> None:
        """Say how the training goes; less often for a model whose gradients take long to measure."""
        begin = perf_counter()
        self._unsaid = False
        self._guarded(lambda: self.view.say(self._line()))
        end = perf_counter()
        self._next_line = max(begin + _TOLD, end + _SHARE * (end - begin))

    def _line(self) -> str:
        """How the training goes: the number of the backward, its loss, and the norm of all gradients together."""
        model, loss = self._model(), self.graph.pace.losses.last()
        said = [f"backward {self.graph.backwards:,}"]
        if loss is not None:
            said.append(f"loss {number(loss)}")
        held = [] if model is None else [one.grad for one in model.parameters()]
        found = read(norms({at: one.data for at, one in enumerate(held) if one is not None}))
        if found:
            said.append(f"gradient norm {number(hypot(*found.values()))}")
        return ", ".join(said)

    def _refresh(self) -> None:
        """Draw the graph."""
        self._guarded(lambda: self._draw({}))

    def _guarded(self, told: Callable[[], None]) -> None:
        """Tell the reader something; where that fails, end, and let the loop go on."""
        try:
            told()
        except Exception as error:  # raised here, it would break a backward that is done
            text = (
                f"{self!r} could not draw and has ended: {type(error).__name__}: {error}. Your program continues; "
                "nbgrad.watch(model) starts a new view."
            )
            with suppress(Exception):
                self._stop()
            try:
                warn_here(text)
            except Exception:  # the user has made errors of warnings
                sys.stderr.write(f"nbgrad: {text}\n")

    def _variables(self) -> dict[str, Any]:
        """The notebook's variables. Empty in marimo: the backward names tensors after the cell's variables."""
        return {} if self._shell is None else dict(self._shell.user_ns)

    def _draw(self, variables: dict[str, Any]) -> None:
        """Draw the graph. Tensors get the names of ``variables``, and of the variables of the notebook."""
        begin = perf_counter()
        self._waiting = False
        model = self._model()
        if model is None:
            return
        first = self.graph.ending is not None and not self.graph.backwards
        if not first and _learned(model).isdisjoint(record.id for record in self.graph.records):
            return
        self.graph.name_variables(variables)
        self.graph.name_variables(self._variables())
        described = outline(self.graph)
        folding, limit = asked(described, self._depth, self._nodes)
        self._drawn = described, self.view.draw(described, folding, Holdings(self.graph), limit)
        self._shows_error = False
        end = perf_counter()
        self._next = end + max(self._every, _SHARE * (end - begin))


class _TellingRest(Rest):
    """Tells the reader how the training goes, also between recorded steps."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch.graph.listener, (watch.graph.listener, watch))
        self._watch = ref(watch)

    def passed(self, many: int) -> None:
        """So ``many`` backwards have ended that were not recorded."""
        super().passed(many)
        watch = self._watch()
        if watch is not None:
            watch.passed()


def _learned(model: Model) -> set[int]:
    """The ids of the records of its parameters."""
    return {record_id(origin) for one in model.parameters() if (origin := origin_of(one)) is not None}


def _check_model(model: Any) -> None:
    """Raise a TypeError that says what to watch instead of something that is no module."""
    if isinstance(model, Module | torch.nn.Module):
        return
    what, instead = f"the {type(model).__name__} {model!r}", "pass the module that your loop trains"
    if isinstance(model, type):
        what, instead = f"the class {model.__name__}", f"make a module of it, net = {model.__name__}(...)"
    elif isinstance(model, str):
        instead = f"pass the module itself, without quotes: nbgrad.watch({model})"
    raise TypeError(f"watch() takes a module of nbgrad.nn or torch.nn, and got {what}: {instead}")

"""The live picture in a notebook."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from IPython.core.getipython import get_ipython

from nbgrad.core.no_gc import uncollected
from nbgrad.core.translation import translate
from nbgrad.widgets.describe import outline
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.schema import Description, Numbers, Picture
from nbgrad.widgets.description.stage import Pages, Stage
from nbgrad.widgets.folding.apply import NODES
from nbgrad.widgets.folding.choose import Folding
from nbgrad.widgets.optional_packages import needs
from nbgrad.widgets.pipeline import Wanted, first_look, for_projector, lay_out
from nbgrad.widgets.render.wire_format import packed
from nbgrad.widgets.tensor_lookup import Holdings, What
from nbgrad.widgets.what_if import WhatIf

with needs("anywidget", "a live view", "anywidget ipywidgets"):
    import anywidget
    import ipywidgets
    import traitlets

    _MODEL = {"sync": True, **ipywidgets.widget_serialization}
    """The tags of an attribute that is another model."""

STATIC = Path(__file__).parent / "static"
"""Where the bundled front end is."""


_LOADER = (STATIC / "loader.js").read_text(encoding="utf-8")
"""The module of a view whose script is in another model."""


class ViewScript(ipywidgets.Widget):
    """The script and the style sheet of all views of a kernel, which a notebook with the state of its widgets has once.

    A view has a small module that asks for them. Where there is no Jupyter kernel, each view has all.
    """

    _only: "ClassVar[ViewScript | None]" = None

    script = traitlets.Unicode().tag(sync=True)
    sheet = traitlets.Unicode().tag(sync=True)

    @classmethod
    def of_kernel(cls) -> "ViewScript | None":
        """The one of the kernel; None if there is no kernel. A new one, if the user has closed all widgets."""
        if not hasattr(get_ipython(), "kernel"):
            return None
        if cls._only is None or cls._only.comm is None:
            cls._only = cls(script=GraphView._esm, sheet=GraphView._css)
        return cls._only


class GraphView(anywidget.AnyWidget):
    """A picture that pans, zooms, folds and answers clicks by itself, also while the kernel is busy or gone.

    It asks the kernel for three things: a new layout, in the other direction, with a module unfolded that was too large
    to be drawn, for a stage of another size, or with more detail in some boxes; all numbers of a large tensor; and a
    run of the graph with other numbers.

    For that the view keeps the whole graph until the view is closed: in Python, in the page, by the next run of its
    cell, or when its output is cleared and no variable can display it again.

    Args:
        graph: all of it.
        picture: its layout if there is one already.
        folding: which modules are folded in that.
        holdings: where the numbers are.
        limit: how many nodes may be drawn.
        direction: what was asked for.
    """

    # Read as text: for a path, anywidget would watch the file, and the watcher would keep every view alive.
    _esm = (STATIC / "graph.js").read_text(encoding="utf-8")
    _css = (STATIC / "graph.css").read_text(encoding="utf-8")

    _last: "ClassVar[GraphView | None]" = None
    _outline: Outline | None = None
    _kept: bytes | None = None
    _held = True  # a variable holds the view, so it may be displayed again

    picture = traitlets.Bytes().tag(sync=True)
    request = traitlets.Dict().tag(sync=True)
    numbers = traitlets.Dict().tag(sync=True)
    code = traitlets.Instance(ViewScript, allow_none=True).tag(**_MODEL)

    def __init__(
        self,
        graph: Description | Outline,
        picture: Picture | None = None,
        folding: Folding | None = None,
        holdings: Holdings | None = None,
        limit: int = NODES,
        direction: Wanted = "auto",
        **kwargs: Any,
    ) -> None:
        outline = Outline.of(graph)
        drawn = picture or lay_out(outline, limit=limit, direction=direction, folding=folding, on=Pages.stage)
        if (code := ViewScript.of_kernel()) is not None:
            self._esm, self._css = _LOADER, ""
        super().__init__(picture=packed(drawn), code=code, **kwargs)
        self._outline = outline
        begun = bool(drawn["description"]["nodes"])
        self._direction: Wanted = drawn["direction"] if begun else direction
        self._wanted: Wanted = direction
        self._projected = drawn["projected"]
        self._on = Stage(*drawn["stage"]) if begun else self._seen(Pages.stage)
        self._limit = limit
        self._folding = folding
        self._near = frozenset[str]()
        self._holdings = holdings
        self._what_if: WhatIf | None = None
        self._pages: set[str] = set()
        self.on_msg(self._told)
        self.comm.on_close(lambda _message: self.close())

    @uncollected
    def draw(
        self,
        graph: Description | Outline,
        folding: Folding | None = None,
        holdings: Holdings | None = None,
        limit: int | None = None,
    ) -> Picture:
        """Show another graph in the place of the one shown, in the same direction and folded as the reader folded it.

        Args:
            graph: all of it.
            folding: which modules are folded where the reader has folded and unfolded none.
            holdings: where its numbers are.
            limit: how many nodes may be drawn; None for as many as before.

        Returns:
            The picture that is shown.
        """
        folding = self._folding if self._folding is not None else folding
        outline = Outline.of(graph)
        limit = self._limit if limit is None else limit
        picture: Picture = {
            **lay_out(outline, limit=limit, direction=self._direction, folding=folding, on=self._on),
            "projected": self._projected,
        }
        sent = packed(picture)
        self._limit = limit
        if picture["description"]["nodes"]:
            self._direction = picture["direction"]  # later pictures keep the direction
        self._holdings = holdings
        self._what_if = None
        self._outline, self._kept = outline, None  # only now: after an interrupt the old one stays
        self._put(sent)
        return picture

    def put_away(self) -> None:
        """Keep the graph in as few bytes as it takes: a notebook has the views of all its cells.

        The graph itself stays only until another view is shown or asked for something.
        """
        if self._holdings is not None:
            self._holdings.settle()
        if self._outline is not None:
            self._kept = self._kept or self._outline.put_away()
            self._at_hand()

    def _at_hand(self) -> Outline | None:
        """The graph; None once the view is closed. Any other view that was put away lets go of its own graph now."""
        if self._outline is None and self._kept is not None:
            self._outline = Outline.taken_out(self._kept)
        if self._outline is not None:
            last, GraphView._last = GraphView._last, self
            if last is not None and last is not self and last._kept is not None:
                last._outline = None
        return self._outline

    def close(self) -> None:
        """Take the picture from the page, and let go of the graph."""
        super().close()
        self._outline = self._kept = self._holdings = self._what_if = None
        if GraphView._last is self:
            GraphView._last = None

    @traitlets.observe("request")
    @uncollected
    def _answer(self, change: Any) -> None:
        request = change["new"]
        if request.get("of") in ("value", "gradient"):
            found = self._look_up(str(request.get("node")), request["of"])
            self.numbers = {**found, "count": request.get("count")}  # with the count, an equal answer is sent too
            return
        if "answer" in request:
            self._judge(**request["answer"])
            return
        if "suppose" in request:
            self._suppose(request["suppose"])
            return
        if "project" in request:
            self._project(**request["project"])
            return
        graph = self._at_hand()
        if graph is None:
            return
        chosen, direction, wanted, on = self._folding, self._direction, self._wanted, self._on
        page = Pages.stage
        if request.get("direction") in ("TB", "LR"):
            direction = wanted = request["direction"]
        if "stage" in request:
            page, direction = Stage(*map(float, request["stage"])).bounded(), wanted
            on = self._seen(page)
        if request.get("toggle"):
            holds = [str(scope) for scope in request["toggle"]]
            first = chosen or first_look(graph, limit=self._limit, direction=self._wanted, on=on)
            chosen = self._toggled(graph, first, holds)
        near = frozenset(map(str, request["near"])) if "near" in request else self._near
        picture = lay_out(graph, limit=self._limit, direction=direction, folding=chosen, on=on, near=near)
        self._put(packed({**picture, "projected": self._projected}))
        # Only after it is sent: if an interrupt comes before, the same click gets the same answer.
        self._direction, self._wanted, self._folding, self._on = picture["direction"], wanted, chosen, on
        self._near = near
        Pages.stage = page

    def _seen(self, page: Stage) -> Stage:
        """The stage on which as much has room as on that of a page."""
        return page.projected() if self._projected else page

    def _project(
        self, page: float, stage: list[float], toggled: list[list[str]], direction: str | None, near: list[str]
    ) -> None:
        """Lay the graph out for a page that shows it on a projector. The view, and its other pages, stay as they are.

        Args:
            page: the one that asked.
            stage: its width and height there.
            toggled: what the reader has folded and unfolded there, in this order.
            direction: the one that the reader has chosen there; None for none.
            near: the nodes that the reader has chosen.
        """
        graph = self._at_hand()
        if graph is None:
            return
        on = Stage(*map(float, stage)).bounded().projected()
        wanted: Wanted = direction if direction in ("TB", "LR") else self._wanted  # type: ignore[assignment]
        chosen = frozenset(map(str, near))
        picture, folding = for_projector(
            graph, limit=self._limit, direction=wanted, folding=self._folding, on=on, near=chosen
        )
        for holds in toggled:
            folding = self._toggled(graph, folding, [str(scope) for scope in holds])
        if toggled:
            picture = lay_out(graph, limit=self._limit, direction=wanted, folding=folding, on=on, near=chosen)
        self.send({"projected": page}, [packed(picture)])

    def _toggled(self, graph: Outline, folding: Folding, holds: list[str]) -> Folding:
        """Fold or unfold after a double click on the box of ``holds``; of two graphs side by side, in both."""
        twins = [twin for one in holds if (twin := graph.description["twins"].get(one)) is not None]
        alike = bool(twins) and (twins[0] in folding.closed) == (holds[0] in folding.closed)
        folding = folding.toggled(graph, holds, self._limit)
        return folding.toggled(graph, twins, self._limit) if alike else folding

    def _put(self, picture: bytes) -> None:
        """Show ``picture``; one that is there already is sent again, for an interrupt may have hit its message."""
        if picture == self.picture:
            self.send_state("picture")
        else:
            self.picture = picture

    def _told(self, _view: Any, content: dict[str, str], _buffers: Any) -> None:
        """A page tells that it shows the view, or that it has cleared the output with it.

        If no other page shows the view, and no variable holds it, the view is then closed.

        A page that was reloaded did not report that it is gone, so its views stay.
        """
        if (page := content.get("shown")) is not None:
            self._pages.add(page)
        if (page := content.get("cleared")) is not None:
            self._pages.discard(page)
            if not (self._held or self._pages):
                self.close()

    def _judge(self, name: str, numbers: list[float], shape: list[int]) -> None:
        """Give the graph an answer that the page has judged, and draw what that shows."""
        graph = None if self._holdings is None else self._holdings.asks
        if graph is not None and self._at_hand() is not None and graph.answer(name, np.reshape(numbers, shape)):
            self.draw(outline(graph), holdings=self._holdings)

    def _suppose(self, asked: dict[str, Any]) -> None:
        """Answer a what-if question. The answer names the page that asked, because other pages show the view too."""
        graph = self._at_hand()
        if graph is not None and self._holdings is not None:
            self._what_if = self._what_if or WhatIf(self._holdings.rerun)
            self.send({"supposed": {**self._what_if.answer(asked, graph.description), "page": asked["page"]}})

    def say(self, line: str) -> None:
        """Let the page show ``line`` above the picture, or before there is a picture. The picture stays as it is."""
        self.send({"live": line})

    def _look_up(self, id: str, what: What) -> Numbers:
        """All numbers of a node. A small tensor gets its heat map, which a picture with many nodes leaves out."""
        if (graph := self._at_hand()) is not None:
            for node in [one for one in graph.detail([id])["nodes"] if one["id"] == id]:
                if (look := node[what]) is not None and look["columns"]:
                    return Numbers(
                        node=id,
                        of=what,
                        said=translate("{node}: one cell for each number", node=node["label"][1]),
                        look=look,
                        rows=[],
                    )
        if self._holdings is None:
            return Numbers(
                node=id, of=what, said=translate("The tensors of this picture no longer exist."), look=None, rows=[]
            )
        return self._holdings.numbers(id, what)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        # anywidget puts the object's address here, and it would make every run of a notebook differ from the last.
        return {**data, "text/plain": ""}, metadata

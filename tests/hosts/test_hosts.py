"""The live view in the frames of VS Code and Colab, as far as they can be imitated here: docs/hub.md says how far."""

import base64
import subprocess
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import ipywidgets
import pytest
from comm.base_comm import BaseComm
from ipywidgets.embed import dependency_state
from playwright.sync_api import Browser, BrowserContext, Frame, Page, expect

import nbgrad
from nbgrad.widgets import view as view_module
from nbgrad.widgets.describe import outline
from nbgrad.widgets.description.stage import Pages
from nbgrad.widgets.folding.apply import asked
from nbgrad.widgets.pipeline import lay_out, unfoldable
from nbgrad.widgets.render.html_page import saved_page_script
from nbgrad.widgets.render.svg import holding, svg
from nbgrad.widgets.render.wire_format import packed
from nbgrad.widgets.tensor_lookup import Holdings
from nbgrad.widgets.view import GraphView
from tests.lab.harness import SCREENSHOTS

pytestmark = [pytest.mark.browser, pytest.mark.rotated(4)]


class Host(NamedTuple):
    """A notebook program that shows outputs in frames.

    Attributes:
        policy: the content of the policy element of a frame; empty if there is none.
        frames: whether each output has a frame of its own.
        head: what stands in the head of each frame.
        root, body: the attributes of the two elements, for a scheme.
        inline: whether an SVG is put into the page as it is; else it is an image.
    """

    policy: str
    frames: bool
    head: str
    root: Callable[[str], str]
    body: Callable[[str], str]
    inline: bool


_VARIABLES = {
    "light": {"editor-background": "#ffffff", "editor-foreground": "#3b3b3b", "font-family": "sans-serif"},
    "dark": {"editor-background": "#1f1f1f", "editor-foreground": "#cccccc", "font-family": "sans-serif"},
}


def _vscode_variables(scheme: str) -> str:
    values = ";".join(f"--vscode-{name}:{value}" for name, value in _VARIABLES[scheme].items())
    return f'style="{values}"'


# anywidget makes a module of a blob. Nothing is evaluated.
_MODULES = "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; img-src data:"

HOSTS = {
    "vscode": Host(
        policy=_MODULES,
        frames=False,
        head=(
            "<style>body{background:var(--vscode-editor-background);color:var(--vscode-editor-foreground);"
            "font-family:var(--vscode-font-family);margin:0;padding:0 20px}"
            "img,video{max-width:100%;max-height:100%}"
            "table,thead,tr,th,td,tbody{border:none!important;border-spacing:0;border-collapse:collapse}"
            "table{width:100%}table,th,tr{text-align:left!important}th,td{padding:4px 8px}"
            "tr:nth-child(even){background-color:rgba(130,130,130,.08)}</style>"
        ),
        root=_vscode_variables,
        body=lambda scheme: f'class="vscode-{scheme}" data-vscode-theme-kind="vscode-{scheme}"',
        inline=True,
    ),
    "colab": Host(
        policy=_MODULES,
        frames=True,
        head="<style>html[theme=dark]{background:#383838;color:#d5d5d5}body{margin:0}</style>",
        root=lambda scheme: f'theme="{scheme}"',
        body=lambda scheme: "",
        inline=False,
    ),
}


# The policy of VS Code's outputs, which is off unless a user sets notebook.experimental.enableCsp.
STRICT = HOSTS["vscode"]._replace(
    policy=(
        "default-src 'none'; script-src 'self' https://*.vscode-cdn.net 'unsafe-inline' 'unsafe-eval'; "
        "style-src 'self' https://*.vscode-cdn.net 'unsafe-inline'; "
        "img-src 'self' https://*.vscode-cdn.net https: http: data:; "
        "font-src 'self' https://*.vscode-cdn.net https:; connect-src https:; child-src https: data:"
    )
)


class Line(BaseComm):
    """The kernel's end of a comm, whose messages the frame takes with the answer to its own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.sent: list[dict[str, Any]] = []
        super().__init__(*args, **kwargs)

    def publish_msg(self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **_: Any) -> None:
        if msg_type == "comm_msg":
            self.sent.append({"data": data, "buffers": [list(bytes(one)) for one in buffers or []]})

    def take(self) -> list[dict[str, Any]]:
        taken, self.sent = self.sent, []
        return taken


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> dict[str, Line]:
    """The comms of the widgets that a test makes, by their ids."""
    comms: dict[str, Line] = {}
    monkeypatch.setattr(view_module.ViewScript, "_only", None)
    monkeypatch.setattr(Pages, "stage", Pages.stage)

    def opened(*args: Any, **kwargs: Any) -> Line:
        line = Line(*args, **kwargs)
        return comms.setdefault(line.comm_id, line)

    monkeypatch.setattr("ipywidgets.widgets.widget.comm.create_comm", opened)
    return comms


@pytest.fixture(scope="session")
def manager(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of a frame: a widget manager and anywidget."""
    script = tmp_path_factory.mktemp("hosts") / "manager.js"
    subprocess.run(["node", Path(__file__).with_name("build.mjs"), script], check=True)
    anywidget = files("anywidget") / "nbextension" / "index.js"
    return f"{script.read_text(encoding='utf-8')}\n{anywidget.read_text(encoding='utf-8')}".replace(
        "</script", "<\\/script"
    )


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 760, "height": 1400}, reduced_motion="reduce")
    context.set_default_timeout(10_000)
    yield context
    context.close()


class Shown:
    """The outputs of a cell in the frames of a host.

    Attributes:
        frames: one for all of them, or one for each.
        errors: of the page, and every breach of the policy.
    """

    def __init__(self, context: BrowserContext, comms: dict[str, Line], host: Host, scheme: str, manager: str) -> None:
        self.page: Page = context.new_page()
        self.errors: list[str] = []
        self.comms = comms
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.expose_function("nbgradKernel", self._answer)
        self._host, self._scheme, self._manager = host, scheme, manager

    def _answer(self, name: str, data: Any, buffers: list[list[int]]) -> list[dict[str, Any]]:
        self.comms[name].handle_msg(
            {"content": {"comm_id": name, "data": data}, "buffers": [bytes(one) for one in buffers]}
        )
        taken = self.comms[name].take()
        self.heard += [(name, message) for message in taken]
        return taken

    def tell(self, frames: list[Frame], asker: Frame) -> None:
        """Let other frames than that of the asker hear what the kernel has sent: it sends to all."""
        for frame in [one for one in frames if one is not asker]:
            for name, message in self.heard:
                frame.evaluate("([id, message]) => host.comms[id].hear(message)", [name, message])

    def outputs(self, *contents: str) -> list[Frame]:
        """Show outputs that begin with these contents; return the frame of each."""
        drawn = [f"<div class=output id=output-{at}>{content}</div>" for at, content in enumerate(contents)]
        bodies = drawn if self._host.frames else ["".join(drawn)]
        self.page.set_content(
            "<style>iframe{width:700px;height:640px;border:0}</style>" + "".join(map(self._frame, bodies))
        )
        frames = self.page.frames[1:]
        for frame in frames:
            frame.wait_for_function("() => globalThis.host")
        return frames if self._host.frames else frames * len(contents)

    def _frame(self, body: str) -> str:
        host = self._host
        text = (
            f'<!DOCTYPE html><html {host.root(self._scheme)}><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{host.policy}">{host.head}</head>'
            f"<body {host.body(self._scheme)}>{body}<script>{self._manager}</script></body></html>"
        )
        escaped = text.replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe sandbox="allow-scripts" srcdoc="{escaped}"></iframe>'


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=list(HOSTS))
def shown(
    request: pytest.FixtureRequest, context: BrowserContext, kernel: dict[str, Line], manager: str
) -> Iterator[Callable[..., Shown]]:
    made: list[Shown] = []

    def show(scheme: str = "light") -> Shown:
        made.append(Shown(context, kernel, HOSTS[request.param], scheme, manager))
        return made[-1]

    yield show
    for one in made:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        one.page.screenshot(path=SCREENSHOTS / f"{request.node.name.replace('[', '_').strip(']')}.png")
    assert [error for one in made for error in one.errors] == []


def graph() -> nbgrad.AutogradGraph:
    """A network with more boxes than a first look shows."""
    nbgrad.manual_seed(0)
    nn = nbgrad.nn
    net = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.ReLU()) for _ in range(12)])
    x = nbgrad.randn(64, 8)
    with nbgrad.AutogradGraph("deep") as made:
        (net(x) ** 2).mean().backward()
    return made


def made() -> tuple[GraphView, str]:
    """The view of a graph, as a kernel makes it, and its drawing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view_module, "get_ipython", lambda: SimpleNamespace(kernel=None))
        return _made()


def _made() -> tuple[GraphView, str]:
    recorded = graph()
    drawn = outline(recorded)
    folding, limit = asked(drawn, None, None)
    picture = lay_out(drawn, limit=limit, folding=folding)
    return GraphView(drawn, picture, folding, Holdings(recorded), limit), svg(picture)


def model(view: ipywidgets.Widget) -> dict[str, Any]:
    """The states of a view and of all that it needs, as a notebook keeps them."""
    states: dict[str, Any] = dependency_state(view, drop_defaults=False)
    return states


def opened(frame: Frame, view: GraphView) -> None:
    """Let a frame know the models of a view, with their comms."""
    for name, state in sorted(model(view).items(), key=lambda one: one[1]["model_name"] == "AnyModel"):
        frame.evaluate("([id, state]) => host.open(id, state)", [name, state])


def displayed(frame: Frame, view: GraphView, at: int) -> Any:
    frame.evaluate(f"id => host.show(id, document.getElementById('output-{at}'))", view.model_id)
    found = frame.locator(f"#output-{at}").get_by_test_id("nbgrad-view")
    expect(found).to_be_visible()
    return found


def held(view: GraphView, drawing: str) -> str:
    """The drawing as a notebook saves it."""
    graph = view._outline
    assert graph is not None
    picture = lay_out(graph, limit=view._limit, folding=view._folding)
    return holding(drawing, packed(unfoldable(graph, picture, view._folding), 9, maps=False))


def drawn_as(host: Host, drawing: str) -> str:
    if host.inline:
        return drawing
    return f'<img src="data:image/svg+xml;base64,{base64.b64encode(drawing.encode()).decode()}">'


def test_a_live_view_has_the_colours_and_the_width_of_its_frame(shown: Any, scheme: str) -> None:
    host = shown(scheme)
    view, drawing = made()
    still, live = host.outputs(drawn_as(host._host, drawing), "")
    opened(live, view)
    root = displayed(live, view, 1)
    ground = root.evaluate("one => getComputedStyle(one).colorScheme")
    assert ground == scheme
    assert live.evaluate("document.documentElement.scrollWidth <= innerWidth"), "no part stands out"
    expect(nodes(root).nth(3)).to_be_visible()
    drawn = still.locator("#output-0 > *")
    expect(drawn).to_be_hidden() if still is live else expect(drawn).to_be_visible()


def nodes(view: Any) -> Any:
    return view.get_by_test_id("nbgrad-node")


def unfold(view: Any) -> None:
    """Ask for the inner boxes of the first folded box."""
    view.get_by_test_id("nbgrad-fit").click()
    folded = view.locator("[data-testid=nbgrad-node][aria-expanded=false]").first
    folded.dispatch_event("dblclick")


def unfolded(host: Any, view: Any) -> tuple[Any, Any]:
    """A live view in a frame, in which a reader has unfolded a box; the frame and the view's root."""
    (frame,) = host.outputs("")
    opened(frame, view)
    root = displayed(frame, view, 0)
    before = nodes(root).count()
    unfold(root)
    expect(nodes(root)).not_to_have_count(before)
    assert nodes(root).count() > before
    return frame, root


def test_a_live_view_asks_its_kernel(shown: Any) -> None:
    unfolded(shown(), made()[0])


def test_a_saved_state_is_drawn_and_says_that_its_kernel_is_gone(shown: Any) -> None:
    host = shown()
    view, _ = made()
    state = model(view)
    (frame,) = host.outputs("")
    frame.evaluate("state => host.restore(state)", state)
    root = displayed(frame, view, 0)
    before = nodes(root).count()
    unfold(root)
    expect(root.locator(".nbg-status[role=status]")).to_contain_text("is gone: run this cell again")
    expect(nodes(root)).to_have_count(before)
    root.get_by_test_id("nbgrad-search").fill("linear")
    expect(root.locator(".nbg-match").first).to_be_visible()
    node = nodes(root).first
    node.focus()
    node.press("Enter")
    expect(root.get_by_test_id("nbgrad-details")).to_be_visible()


def test_what_a_reader_unfolded_is_in_the_saved_state(shown: Any) -> None:
    host = shown()
    view, _ = made()
    frame, root = unfolded(host, view)
    after = nodes(root).count()
    state = frame.evaluate("() => host.save()")
    (again,) = host.outputs("")
    again.evaluate("state => host.restore(state)", state)
    expect(nodes(displayed(again, view, 0))).to_have_count(after)


def test_a_view_outlives_its_kernel_and_asks_again_after_a_reconnection(shown: Any) -> None:
    host = shown()
    view, _ = made()
    (frame,) = host.outputs("")
    opened(frame, view)
    root = displayed(frame, view, 0)
    before = nodes(root).count()
    frame.evaluate("id => host.cut(id)", view.model_id)
    unfold(root)
    expect(root.locator(".nbg-status[role=status]")).to_contain_text("is gone: run this cell again")
    expect(nodes(root)).to_have_count(before)
    frame.evaluate("id => host.reconnect(id)", view.model_id)
    unfold(root)
    expect(nodes(root)).not_to_have_count(before)
    expect(root.locator(".nbg-status[role=status]")).not_to_contain_text("is gone")


def test_all_views_of_a_page_read_one_script(shown: Any) -> None:
    host = shown()
    view, _ = made()
    other, _ = made()
    assert view.code is other.code
    assert view.code is not None
    assert len(str(view._esm)) < 2_000 < len(view.code.script)
    (frame, *_) = host.outputs("")
    frame.evaluate("state => host.restore(state)", {**model(view), **model(other)})
    displayed(frame, view, 0)
    frame.evaluate("id => host.show(id, document.getElementById('output-0'))", other.model_id)
    expect(frame.get_by_test_id("nbgrad-view")).to_have_count(2)
    assert frame.evaluate("Object.keys(nbgradModules).length") == 1


def test_two_views_of_one_model_show_the_same_picture(shown: Any) -> None:
    host = shown()
    view, _ = made()
    frames = host.outputs("", "")
    for frame in dict.fromkeys(frames):
        opened(frame, view)
    first, second = (displayed(frame, view, at) for at, frame in enumerate(frames))
    before = nodes(first).count()
    assert nodes(second).count() == before
    unfold(first)
    expect(nodes(first)).not_to_have_count(before)
    host.tell(frames[1:], frames[0])
    expect(nodes(second)).to_have_count(nodes(first).count())


def test_a_saved_drawing_is_live_without_a_widget(shown: Any) -> None:
    host = shown()
    view, drawing = made()
    output = f"{drawn_as(host._host, held(view, drawing))}<div>{saved_page_script()}</div>"
    (frame,) = host.outputs(output)
    root = frame.get_by_test_id("nbgrad-view")
    expect(root).to_be_visible()
    expect(frame.locator("#output-0 > :first-child")).to_be_hidden()
    before = nodes(root).count()
    unfold(root)
    expect(nodes(root)).not_to_have_count(before)


def test_where_no_module_may_be_made_of_a_blob_the_saved_drawing_is_live_and_a_widget_leaves_its_drawing(
    context: BrowserContext, kernel: dict[str, Line], manager: str
) -> None:
    host = Shown(context, kernel, STRICT, "dark", manager)
    view, drawing = made()
    (frame,) = host.outputs(f"{held(view, drawing)}<div>{saved_page_script()}</div>")
    expect(frame.get_by_test_id("nbgrad-view")).to_be_visible()
    assert host.errors == []

    still, live = host.outputs(drawing, "")
    with host.page.expect_console_message(lambda said: "Content Security Policy" in said.text):
        opened(live, view)
        live.evaluate("id => void host.show(id, document.getElementById('output-1'))", view.model_id)
    expect(still.locator("#output-0 > svg")).to_be_visible()
    expect(live.get_by_test_id("nbgrad-view")).to_have_count(0)

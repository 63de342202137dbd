"""A graph written to a file, of every kind."""

import base64
import builtins
import inspect
import json
import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import nbgrad
from nbgrad import export
from nbgrad.export import unsaved
from nbgrad.options import SUFFIXES
from nbgrad.widgets.describe import describe
from nbgrad.widgets.layout.graphviz_wasm import run_graphviz
from nbgrad.widgets.render.text import text
from tools.unpacking import unpacked

HOSTILE = '<script>"a" & b\\n\'</script>'


@pytest.fixture
def graph() -> nbgrad.AutogradGraph:
    with nbgrad.AutogradGraph(HOSTILE) as made:
        net = nbgrad.nn.Sequential(nbgrad.nn.Linear(2, 3), nbgrad.nn.Tanh())
        loss = net(nbgrad.tensor([[1.0, 2.0], [3.0, 4.0]])).sum()
        loss.backward()
    return made


def test_a_graph_says_how_it_is_saved() -> None:
    settings = inspect.signature(nbgrad.AutogradGraph.save).parameters
    known = inspect.signature(export.save).parameters
    assert [(one.name, one.kind, one.default) for one in [*settings.values()][1:]] == [
        (one.name, one.kind, one.default) for one in [*known.values()][1:]
    ]
    assert all(suffix in (inspect.getdoc(nbgrad.AutogradGraph.save) or "") for suffix in SUFFIXES)


@pytest.mark.rotated(3)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_graph_gives_the_same_bytes(graph: nbgrad.AutogradGraph, tmp_path: Path, suffix: str) -> None:
    for name in ("one", "two"):
        graph.save(tmp_path / f"{name}{suffix}")
    graph.save(str(tmp_path / f"three{suffix.upper()}"))
    first = (tmp_path / f"one{suffix}").read_bytes()
    assert len(first) > 500
    assert (tmp_path / f"two{suffix}").read_bytes() == first
    assert (tmp_path / f"three{suffix.upper()}").read_bytes() == first


def saved(graph: nbgrad.AutogradGraph, file: Path, **options: Any) -> bytes:
    graph.save(file, **options)
    return file.read_bytes()


def test_svg_is_one_picture_without_scripts(graph: nbgrad.AutogradGraph, tmp_path: Path) -> None:
    root = ElementTree.fromstring(saved(graph, tmp_path / "net.svg"))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert any("tanh" in (element.text or "") for element in root.iter())
    assert not [element for element in root.iter() if element.tag.endswith("script")]


def test_png_is_a_bitmap_of_some_size(graph: nbgrad.AutogradGraph, tmp_path: Path) -> None:
    data = saved(graph, tmp_path / "net.png")
    assert data.startswith(b"\x89PNG\r\n")
    assert min(struct.unpack(">II", data[16:24])) > 100


def test_pdf_is_a_vector_drawing_of_the_size_of_the_svg(graph: nbgrad.AutogradGraph, tmp_path: Path) -> None:
    data = saved(graph, tmp_path / "net.pdf")
    assert data.startswith(b"%PDF-")
    assert b"/Subtype/Image" not in data.replace(b" ", b"")
    drawing = saved(graph, tmp_path / "net.svg").decode()
    width, height = map(float, re.search(r'viewBox="0 0 (\S+) (\S+)"', drawing).groups())
    box = list(map(float, re.search(rb"/MediaBox ?\[([^\]]*)\]", data)[1].split()))
    assert box[2:] == pytest.approx([width * 0.75, height * 0.75], abs=1)
    assert b"/BaseFont" in data, "text is text"


def test_html_is_one_file_that_asks_for_nothing(graph: nbgrad.AutogradGraph, tmp_path: Path) -> None:
    page = saved(graph, tmp_path / "net.html").decode()
    assert page.startswith("<!DOCTYPE html>")
    assert "default-src 'none'" in page
    assert not re.search(r"""(src|href)=["'](?!#|data:)""", page)
    assert "&lt;script&gt;" in page.split("<title>")[1].split("</title>")[0]


def test_html_starts_as_asked_and_holds_the_other_direction(graph: nbgrad.AutogradGraph, tmp_path: Path) -> None:
    plain = pictured(saved(graph, tmp_path / "net.html"))
    turned = pictured(saved(graph, tmp_path / "net.html", direction="LR", depth=0))
    assert (plain["direction"], turned["direction"]) == ("TB", "LR")
    assert (turned["layout"], turned["turned"]) == (plain["turned"], plain["layout"])
    outer = [scope["id"] for scope in plain["description"]["scopes"] if scope["parent"] is None]
    assert (plain["folded"], turned["folded"]) == ([], outer)


def pictured(page: bytes) -> dict[str, Any]:
    """The picture in a page."""
    packed = re.search(rb'class="nbgrad-picture">([^<]*)<', page)[1]
    return unpacked(base64.b64decode(packed))


def test_dot_is_a_graph_that_graphviz_reads(graph: nbgrad.AutogradGraph, tmp_path: Path) -> None:
    source = saved(graph, tmp_path / "net.dot", direction="LR").decode()
    placed = json.loads(run_graphviz(source))
    assert placed["rankdir"] == "LR"
    assert placed["label"] == HOSTILE.replace("\\", "\\\\")
    objects = {one["name"]: one for one in placed["objects"]}
    description = describe(graph)
    assert {node["id"] for node in description["nodes"]} <= objects.keys()
    assert len(placed["edges"]) == len(description["edges"])
    assert any("\nΣ (2, 3) -> (3,): sum dim 0" in edge["label"] for edge in placed["edges"])
    assert [objects[f"cluster_{scope['id']}"]["label"] for scope in description["scopes"]] == [
        scope["label"] for scope in description["scopes"]
    ]


def test_json_and_text_are_the_whole_description(graph: nbgrad.AutogradGraph, tmp_path: Path) -> None:
    assert json.loads(saved(graph, tmp_path / "net.json")) == describe(graph)
    assert saved(graph, tmp_path / "net.txt").decode() == text(describe(graph)) + "\n"


def test_depth_and_direction_change_the_drawing(graph: nbgrad.AutogradGraph, tmp_path: Path) -> None:
    plain = saved(graph, tmp_path / "net.svg")
    assert len(saved(graph, tmp_path / "net.svg", depth=0)) < len(plain)
    assert saved(graph, tmp_path / "net.svg", direction="LR") != plain


@pytest.mark.parametrize(
    ("path", "what"), [("net.bmp", "a file that ends in .bmp"), ("net", "a file without a suffix")]
)
def test_another_kind_of_file_is_refused_with_those_there_are(
    graph: nbgrad.AutogradGraph, path: str, what: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(f"not written to {what}, but to {', '.join(SUFFIXES)}")):
        graph.save(path)


@pytest.mark.parametrize(
    ("suffix", "module", "command"),
    [
        ("pdf", "typst", 'pip install "nbgrad[pdf]"'),
        ("png", "resvg_py", "resvg-py"),
        ("gif", "resvg_py", "resvg-py"),
        ("gif", "PIL", "pip install pillow"),
    ],
)
def test_what_is_missing_is_named_with_the_command_that_installs_it(
    graph: nbgrad.AutogradGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, module: str, command: str
) -> None:
    importing: Callable[..., Any] = builtins.__import__

    def refusing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == module:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return importing(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refusing)
    with pytest.raises(ModuleNotFoundError, match=re.escape(command)):
        graph.save(tmp_path / f"net.{suffix}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_folder_that_is_not_there_is_named_before_anything_is_drawn(
    graph: nbgrad.AutogradGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(export, "outline", lambda _: pytest.fail("work that is lost"))
    file = tmp_path / "missing" / "folder" / f"net{suffix}"
    said = f"{str(file)!r} was not written: there is no folder {str(file.parent)!r}. Make it first, with pathlib.Path("
    with pytest.raises(FileNotFoundError, match=re.escape(said)):
        graph.save(file)
    with pytest.raises(FileNotFoundError, match=re.escape(said)):
        nbgrad.record(save=file)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_place_of_a_folder_is_named(graph: nbgrad.AutogradGraph, tmp_path: Path) -> None:
    (tmp_path / "net").write_text("")
    with pytest.raises(NotADirectoryError, match=r"net' is a file and no folder$"):
        graph.save(tmp_path / "net" / "run" / "net.svg")


def recorded(file: Path, then: Callable[[], Any]) -> nbgrad.Tensor:
    with nbgrad.record(view="none", save=file):
        a = nbgrad.tensor([2.0], requires_grad=True)
        a.exp().sum().backward()
        then()
    return a


def test_a_file_that_cannot_be_written_takes_nothing_that_the_block_has_computed(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "net.svg"
    file.parent.mkdir()
    with pytest.warns(UserWarning, match=re.escape(f"{str(file)!r} was not written: there is no folder")):
        assert recorded(file, file.parent.rmdir).grad is not None


@pytest.mark.filterwarnings("always")
def test_what_a_block_raises_is_told_where_its_file_cannot_be_written_either(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    (tmp_path / "net.svg").mkdir()
    with pytest.raises(ZeroDivisionError):
        recorded(tmp_path / "net.svg", lambda: 1 / 0)
    assert "net.svg' was not written: Is a directory. The graph still exists" in str(recwarn.pop().message)


def test_an_open_graph_is_saved_as_far_as_it_has_come(tmp_path: Path) -> None:
    with nbgrad.AutogradGraph("open") as graph:
        a = nbgrad.tensor([1.0], requires_grad=True)
        y = a.exp()
        assert b"exp" in saved(graph, tmp_path / "net.txt")
        y.backward()


@pytest.mark.skipif(not __import__("shutil").which("dot"), reason="no dot program here")
def test_dot_itself_draws_it(graph: nbgrad.AutogradGraph, tmp_path: Path) -> None:
    saved(graph, tmp_path / "net.dot")
    subprocess.run(["dot", "-Tsvg", "-o", tmp_path / "drawn.svg", tmp_path / "net.dot"], check=True, timeout=60)
    assert b"tanh" in (tmp_path / "drawn.svg").read_bytes()


def test_an_error_that_names_no_file_is_told_as_it_is() -> None:
    assert unsaved(OSError(28, "No space left on device")) == "[Errno 28] No space left on device"


def test_a_missing_home_folder_is_named(graph: nbgrad.AutogradGraph) -> None:
    with pytest.raises(FileNotFoundError, match="there is no such home folder"):
        graph.save("~no-such-user/net.svg")

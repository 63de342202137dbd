"""Names that no file and no terminal expects, wherever a user can give a name: every output is still well formed."""

import io
import json
import re
import warnings
from contextlib import redirect_stdout, suppress
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import nbgrad
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.graph.saved_graph import SavedGraph
from nbgrad.options import SUFFIXES
from nbgrad.reprs import module_html, tensor_html
from nbgrad.widgets.describe import outline
from nbgrad.widgets.layout.graphviz_wasm import run_graphviz
from nbgrad.widgets.notebook_output import static_bundle

CASES = 6

LETTERS = [
    *"ab \t\n\r\0\x01\x1b\x7f\x85\xa0\xad\\\"'<>&;{}[]()|/%$#`~^_:.,=+-*?!0",
    *"\ud800\udfff\udc80\ufffe\uffff\ufeff\u2028\u2029\u202e\u2066\u200d\u0301é数Σ🧮\U0010ffff",
]
WORDS = [
    "</script>",
    "]]>",
    "<!--",
    "-->",
    "</title>",
    "\\N",
    "\\l",
    "%s",
    "{x}",
    "nan",
    "\ud83e\udda9",
    "a" * 300,
    "x" * 20_000,
]


def name(random: Random) -> str:
    """A short text with special characters, or a very long text."""
    parts = [random.choice(LETTERS) for _ in range(random.randrange(6))]
    if random.random() < 0.5:
        parts.insert(random.randrange(len(parts) + 1), random.choice(WORDS))
    return "".join(parts)


def check(random: Random) -> None:
    """Set every name that a graph has, and write the graph in every format."""
    names: list[Any] = [name(random) for _ in range(12)]
    if random.random() < 0.2:
        names[random.randrange(len(names))] = random.choice([5, ("a", 1), b"\xff", 1.5])  # these are no texts
    before = dict(OPS)
    try:
        with warnings.catch_warnings(), TemporaryDirectory() as folder:
            warnings.simplefilter("error")  # nbgrad warns about a name that it cannot write
            _write(random, names, Path(folder))
    finally:
        OPS.clear()
        OPS.update(before)


def _write(random: Random, names: list[Any], folder: Path) -> None:
    title, weight, label, made, module, path, doc, formula, variable, setting, message, rule = names
    net = _network(str(module), doc, formula)
    own = _op(str(made), formula, rule, doc)
    x = nbgrad.tensor([[1.0, 2.0]], requires_grad=True)
    x.name = weight
    encoding = random.choice(["utf-8", "ascii", "latin-1", "cp1252"])
    printed = io.TextIOWrapper(io.BytesIO(), encoding)
    printed.isatty = lambda: False  # type: ignore[method-assign]
    with redirect_stdout(printed):
        recording = nbgrad.record(title)
        with suppress(ValueError), recording as graph:
            with nbgrad.scope(label):
                hidden = own(net(x), how=str(setting))
            loss = hidden.sum()
            namespace = {str(variable): hidden, "loss": loss}
            graph.name_variables(namespace)
            loss.backward()
            if random.random() < 0.3:
                raise ValueError(message)
        printed.flush()
    assert printed.buffer.getvalue(), "nothing was printed"
    for suffix in random.sample(SUFFIXES, 3):
        graph.save(folder / f"net{suffix}")
        _check_file(folder / f"net{suffix}")
    for data in static_bundle(outline(graph)).values():
        data if isinstance(data, bytes) else data.encode()
    for html in (tensor_html(x), tensor_html(hidden), module_html(net)):
        html.encode()
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", html)
    _check_path(folder, str(path))


def _network(called: str, doc: Any, formula: Any) -> nbgrad.nn.Module:
    class Block(nbgrad.nn.Linear):
        __formula__ = formula

        def extra_repr(self) -> str:
            return str(doc)

    Block.__doc__ = doc
    inner = Block(2, 3)
    net = nbgrad.nn.Sequential()
    with suppress(KeyError):  # a name with a dot, or an empty one
        net.add_module(called, inner)
    return net if list(net.children()) else inner


def _op(called: str, formula: Any, rule: Any, doc: Any) -> Any:
    def forward(x: Any, *, how: str) -> Any:
        return x * 2

    forward.__doc__ = str(doc)
    own = nbgrad.op(formula=formula, name=f"own{called}", samples=lambda make: iter([]), method=False)(forward)
    own.rule("x", rule)(lambda g: g * 2)
    return own


def _check_file(file: Path) -> None:
    data = file.read_bytes()
    if (begins := {".png": b"\x89PNG", ".pdf": b"%PDF-", ".gif": b"GIF89a"}.get(file.suffix)) is not None:
        assert data.startswith(begins)
        return
    if file.suffix == ".nbgrad":
        loaded = nbgrad.load(file)
        assert isinstance(loaded, SavedGraph)
        loaded.save(file.with_suffix(".txt"))
        _check_file(file.with_suffix(".txt"))
        return
    text = data.decode()  # no lone surrogate is left
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff\u202a-\u202e\u2066-\u2069]", text), file
    if file.suffix == ".svg":
        ElementTree.fromstring(text)
    elif file.suffix == ".json":
        json.loads(text)
    elif file.suffix == ".dot":
        run_graphviz(text)
    elif file.suffix == ".html":
        found = _Scripts()
        found.feed(text)
        assert found.scripts == 2, "the picture and what draws it"


class _Scripts(HTMLParser):
    scripts = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.scripts += tag == "script"


def _check_path(folder: Path, called: str) -> None:
    """A file with this name is written, or an error says before the block runs why it cannot be."""
    path = f"{folder}/{called[:60]}.txt"
    try:
        recording = nbgrad.record(save=path, view="none")
    except (ValueError, FileNotFoundError) as error:
        said = str(error)
    else:
        with recording:
            nbgrad.ones(1, requires_grad=True).exp()
        assert Path(path).exists()
        return
    said.encode()
    assert repr(path)[1:-1] in said or "folder" in said, said

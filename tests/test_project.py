"""Habits of the whole repository, which tests enforce, because people forget them."""

import ast
import json
import re
import subprocess
import symtable
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]

# A file over the limit is a question to answer. Answer it here: path -> reason.
LINE_LIMIT = 900
LONG_FILES = {
    "nbgrad/nn/module/module.py": "one class, with every method of torch's Module",
    "nbgrad/widgets/src/graph.css": "one declaration a line; a style sheet is searched, not read from top to bottom",
}


@pytest.fixture(scope="module")
def files() -> list[Path]:
    """Every file that is, or is about to be, in the repository."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: it is unknown which files belong to the project")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in names.split("\0") if name and (path := ROOT / name).is_file()]


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="ignore")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_no_source_file_is_long_without_a_reason(files: list[Path]) -> None:
    written = [path for path in files if path.suffix in {".py", ".ts", ".css"} and path.parent.name != "static"]
    lengths = {name_of(path): len(read(path).splitlines()) for path in written if name_of(path).startswith("nbgrad/")}
    long = {name: lines for name, lines in lengths.items() if lines > LINE_LIMIT}
    assert long.keys() == LONG_FILES.keys(), f"over {LINE_LIMIT} lines: {long}; listed with a reason: {LONG_FILES}"


def test_the_package_puts_nothing_onto_the_classes_that_it_exports() -> None:
    tree = ast.parse(read(ROOT / "nbgrad" / "__init__.py"))
    targets = [target for node in ast.walk(tree) if isinstance(node, ast.Assign) for target in node.targets]
    calls = [node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    assert not [ast.unparse(target) for target in targets if isinstance(target, ast.Attribute)]
    assert "setattr" not in calls


def test_every_solution_is_saved_as_it_ran_and_without_widget_state(files: list[Path]) -> None:
    for path in files:
        if path.suffix == ".ipynb" and path.parent.name == "solutions":  # a student's copy is saved without outputs
            notebook = json.loads(read(path))
            # Such state makes GitHub refuse the file, and nbconvert draw nothing where the picture would be.
            assert "widgets" not in notebook["metadata"], f"{name_of(path)}: write it with make course"
            code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code" and "".join(cell["source"])]
            # nbval compares nothing in a cell that was saved without its output.
            counts = [cell["execution_count"] for cell in code]
            assert counts == list(range(1, len(code) + 1)), f"{name_of(path)}: write it with make course"
            # A lesson may show an error, if its cell says that it is meant.
            meant = [cell for cell in code if "raises-exception" not in cell["metadata"].get("tags", [])]
            kinds = {output["output_type"] for cell in meant for output in cell["outputs"]}
            assert "error" not in kinds, name_of(path)
            # A traceback shows the lines of the notebook alone, and no file of the machine that saved it.
            assert not re.search(r'[ "m]/[a-z]\w*/[\w./-]+\.py', read(path)), name_of(path)


def test_every_local_link_in_the_documents_leads_somewhere(files: list[Path]) -> None:
    broken = []
    for path in files:
        if path.suffix == ".md":
            prose = re.sub(r"```.*?```|`[^`\n]*`", "", read(path), flags=re.DOTALL)
            links = re.findall(r"\]\(([^)\s]+)[^)]*\)|(?:src|href)=\"([^\"]+)\"", prose)
            for link in (markdown or html for markdown, html in links):
                target = link.split("#")[0]
                if target and not re.match(r"[a-z]+:", target) and not (path.parent / target).exists():
                    broken.append(f"{name_of(path)}: {link}")
    assert not broken


def test_every_source_file_that_a_document_names_is_there(files: list[Path]) -> None:
    names = ["/" + name_of(path) for path in files]
    assert not [mention for path in files if path.suffix == ".md" for mention in lost(read(path), names)]
    assert lost("`core/engine/gone.py`, `engine/gone/`", names) == ["core/engine/gone.py", "engine/gone/"], "the tester"


def lost(text: str, names: list[str]) -> list[str]:
    """The sources and folders that a text names by a part of their paths, but that do not exist."""
    mentions = re.findall(r"`((?:[\w-]+/)*[\w-]+\.(?:py|pyi|pxd|ts|css|mjs)|(?:[\w-]+/)+)`", text)
    tried = [(mention, "/" + mention) for mention in mentions if not mention.startswith(("build/", "dist/"))]
    return [
        mention
        for mention, part in tried
        if not any(name.endswith(part) or (part[-1] == "/" and part in name) for name in names)
    ]


# Put together here, so that this file does not find itself.
UNCLEAR = {
    "say who does not, or use the passive": re.compile(rf"(?<![a-z]){'no' + 'body'}(?![a-z])", re.IGNORECASE),
    "say who gets which message": re.compile(rf"(?<![a-z]){'to' + 'ld'}[ _]of(?![a-z])", re.IGNORECASE),
    "say what the relation is": re.compile(rf"(?<![a-z]){'go' + 'es'}[ _]with(?![a-z])", re.IGNORECASE),
    "begin with the noun": re.compile(rf"(?:^|[.!?] ){'Of tho' + 'se that'}\b", re.MULTILINE),
    "begin with a noun or a verb": re.compile(r'(?:""" ?|(?<!#)# |// |/\*\* ?)What (?!if\b)'),
}
"""Words that made readers read a sentence twice, each with what to write instead."""


def test_no_text_has_words_that_readers_read_twice(files: list[Path]) -> None:
    texts = [path for path in files if path.suffix in {".md", ".py", ".pyi", ".pxd", ".ts", ".css", ".mjs", ".ipynb"}]
    assert len(texts) > 500
    assert not [mention for path in texts for mention in unclear(name_of(path), read(path))]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "No" + "body asked.",
            "users are to" + "ld of it",
            "it go" + "es with that",
            "Yes. Of tho" + "se that ran, one is",
        ),
        *('"""Wh' + 'at the engine does."""', "x = 1  # Wh" + "at follows", "def test_it_go" + "es_with_that():"),
    ],
)
def test_words_that_readers_read_twice_are_found(text: str) -> None:
    assert len(unclear("a.py", text)) == 1


def test_clear_words_are_not_reported() -> None:
    assert not unclear("a.md", '"""What if x were 2?""" The ids of those that ran. ## What is recorded')


def unclear(name: str, text: str) -> list[str]:
    """The places in a text that have such words, each with the advice."""
    return [
        f"{name}:{text.count(chr(10), 0, found.start()) + 1}: {found[0]!r}: {advice}"
        for advice, pattern in UNCLEAR.items()
        for found in pattern.finditer(text)
    ]


def test_no_file_names_a_machine_or_a_registry(files: list[Path]) -> None:
    # Put together here, so that this file does not find itself.
    folders = "|".join(("work", "root", "home", "Users"))
    hosts = "|".join(rf"{name}\.org" for name in ("pypi", "pythonhosted", "npmjs", "download.pytorch"))
    pattern = re.compile(rf"(?<![\w.~$}}-])/(?:{folders})/|{hosts}")
    found = [
        f"{name_of(path)}:{number}: {match[0]}"
        for path in files
        for number, line in enumerate(read(path).splitlines(), 1)
        if path.suffix not in {".png", ".whl"}
        for match in [pattern.search(line)]
        if match
    ]
    assert not found


def test_the_npm_lock_file_names_no_registry() -> None:
    # npm then asks whichever registry the machine is set up with.
    lock = read(ROOT / "nbgrad" / "widgets" / "package-lock.json")
    assert '"resolved"' not in lock, "lock again with the .npmrc beside it: omit-lockfile-registry-resolved=true"
    assert "://" not in read(ROOT / "nbgrad" / "widgets" / "package.json")


@pytest.mark.rotated(6)
def test_importing_the_engine_loads_no_notebook() -> None:
    code = (
        "import sys, nbgrad\n"
        "nbgrad.record  # loads the engine\n"
        "print(*sorted({'IPython', 'anywidget', 'ipywidgets', 'traitlets', 'nbgrad.widgets'} & sys.modules.keys()))"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == ""


def names(requirements: Iterable[str]) -> set[str]:
    return {re.split(r"[^\w-]", requirement)[0] for requirement in requirements}


def test_every_direct_dependency_is_pinned() -> None:
    """A direct dependency that constraints.txt forgets is a different program next month."""
    project = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]
    wanted = names(chain(project["dependencies"], *project["optional-dependencies"].values()))
    assert wanted == set(re.findall(r"^([\w-]+)==", read(ROOT / "constraints.txt"), re.MULTILINE))


def test_every_import_of_the_package_is_a_dependency() -> None:
    """An import that only some other package brings along breaks when that package changes its mind."""
    imported = set()
    for path in (ROOT / "nbgrad").rglob("*.py"):
        if "node_modules" not in path.parts:
            for node in ast.walk(ast.parse(read(path))):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level:  # relative ones: the student's engine
                    imported.add((node.module or "").split(".")[0])
    owners = packages_distributions()
    needed = {
        owner.lower().replace("_", "-")
        for module in imported - sys.stdlib_module_names - {"nbgrad"}
        for owner in owners.get(module, [module])
    }
    project = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    optional = chain(*(extras[name] for name in ("pdf", "weights", "marimo")))
    hosts = {"pytest", "pytest-html"}  # the plugin for pytest is imported by pytest, and asks whether pytest-html runs
    assert needed - hosts <= names(project["dependencies"]) | names(optional)


with_comprehensions = pytest.mark.skipif(
    not symtable.symtable("def f(a): return [b for b in a]", "", "exec").get_children()[0].get_children(),
    reason="CPython's tables of symbols no longer tell comprehensions from their function",
)


@with_comprehensions
def test_no_comprehension_hides_a_name_that_another_one_needs(files: list[Path]) -> None:
    for path in files:
        if path.suffix == ".py":
            hidden = list(hidden_names(read(path)))
            assert not hidden, f"{name_of(path)}: {hidden} are unbound for another comprehension in CPython 3.12.1"


@with_comprehensions
def test_a_hidden_name_is_found_where_python_would_not_find_it() -> None:
    count = "{at: number for number, at in enumerate(many)}"
    for body, hidden in {
        f"def f(many): return {count}, [number(at) for at in many]": ["number"],
        f"def f(many): return [number(at) for at in {count}]": ["number"],
        f"def f(number):\n def g(many): return {count}, [number(at) for at in many]": ["number"],
        f"def f(many):\n def g(): return {count}\n return [number(at) for at in many]": [],
        f"def f(many): return {count}, list(number(at) for at in many)": [],
        f"def f(many): return {count}, [number for number in many]": [],
        f"def f(many, number): return {count}, [number(at) for at in many]": [],
        f"def f(many): return {count}, number(many)": [],
    }.items():
        assert list(hidden_names(body)) == hidden, body


COMPREHENSIONS = {"listcomp", "setcomp", "dictcomp"}


def hidden_names(code: str) -> Iterable[str]:
    """Names that one comprehension of a function binds, and that another one takes from outside of the function.

    CPython 3.12 runs comprehensions as a part of the function. CPython 3.12.1 then confuses two such names.
    """
    tables = [symtable.symtable(code, "", "exec")]
    for table in tables:
        tables += table.get_children()
        if table.get_type() == "function" and table.get_name() not in COMPREHENSIONS:
            inlined = inlined_in(table)
            symbols = [symbol for one in inlined for symbol in one.get_symbols()]
            bound = {symbol.get_name() for symbol in symbols if symbol.is_local()}
            outside = {symbol.get_name() for symbol in symbols if symbol.is_global()}
            outside |= {symbol.get_name() for symbol in symbols if symbol.is_free()} & set(table.get_frees())
            yield from sorted(outside & bound)


def inlined_in(table: symtable.SymbolTable) -> list[symtable.SymbolTable]:
    """The comprehensions of a function, and those in them."""
    found = [one for one in table.get_children() if one.get_name() in COMPREHENSIONS]
    return [*found, *(inner for one in found for inner in inlined_in(one))]


SAME_NAME = {
    # In nbgrad/widgets/description/schema.py, these are the parts of the core's classes that a page gets.
    *("Frame", "History", "Node", "Reduction", "Scope"),
    "CTCLoss",  # the block, and the Function that the block runs
}
"""Names that two classes in two files may share, because both mean the same thing."""


def test_no_two_classes_of_one_name_mean_different_things() -> None:
    places: dict[str, list[str]] = {}
    for path in (ROOT / "nbgrad").rglob("*.py"):
        if not {"node_modules", "mygrad"} & set(path.parts):  # mygrad is copied, and then it is the student's
            for node in ast.walk(ast.parse(read(path))):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, []).append(name_of(path))
    assert {name: files for name, files in places.items() if len(files) > 1}.keys() == SAME_NAME


def test_every_folder_says_what_lives_in_it_and_what_it_may_import() -> None:
    for folder in ("core", "widgets"):
        inits = [
            path for path in (ROOT / "nbgrad" / folder).glob("*/**/__init__.py") if "node_modules" not in path.parts
        ]
        assert len(inits) >= 5
        for path in inits:
            doc = ast.get_docstring(ast.parse(read(path))) or ""
            assert re.search(r"\bIt imports\b", doc), f"{name_of(path)} does not say what may be imported there"

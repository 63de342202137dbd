"""The student's own engine: its reference parts are right, and ``catch_up`` keeps it ready and loses nothing."""

import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from nbgrad import lab
from nbgrad.core.tensor.comparison import Deviation
from nbgrad.drawing import verdict
from nbgrad.lab import engine
from nbgrad.lab.engine import PARTS, reference
from nbgrad.lab.engine_checks import JUDGES
from nbgrad.lab.planted import COUNT, function_with_the_fault, planted
from nbgrad.lab.running import Refused
from tests.course.answers_engine import REFERENCE, variant
from tools import course

pytestmark = pytest.mark.once


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder, as the one of a notebook; what is imported from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    engine.forget()
    yield tmp_path
    engine.forget()


def part(name: str) -> ModuleType:
    return import_module(f"{REFERENCE}.{name}")


@pytest.mark.parametrize("name", PARTS.values())
def test_a_reference_part_has_torchs_values_and_gradients(name: str) -> None:
    assert JUDGES[name](part(name)) is None


@pytest.mark.parametrize("name", PARTS.values())
def test_a_reference_part_is_short_and_uses_numpy_and_earlier_parts_only(name: str) -> None:
    text = reference(name)
    code = [line for line in text.splitlines() if line.strip() and not line.strip().startswith(("#", '"""'))]
    assert len(code) <= 60
    assert re.match(r'"""[A-Z].* ((New|It is)\b.*)"""\n', text), "the docstring says what is new"
    earlier = list(PARTS.values())[: list(PARTS.values()).index(name)]
    taken = re.findall(r"^(?:from|import) ([\w.]+)", text, re.MULTILINE)
    assert {one for one in taken if not one.startswith((".", "numpy"))} <= {"math"}
    assert {one[1:] for one in taken if one.startswith(".")} <= set(earlier)


def nudged(function: Callable[..., Any], arrays: list[Any], at: int) -> Any:
    """The gradient of the sum of a function with respect to one of its arrays, by nudging each number."""
    gradient = np.zeros_like(arrays[at])
    for place in np.ndindex(gradient.shape):
        ends = []
        for step in (1e-6, -1e-6):
            moved = [one.copy() for one in arrays]
            moved[at][place] += step
            ends.append(float(function(*map(part("tensor").Tensor, moved)).sum().data))
        gradient[place] = (ends[0] - ends[1]) / 2e-6
    return gradient


@pytest.mark.parametrize(
    ("name", "settings"), [("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9}), ("Adam", {"lr": 0.01})]
)
def test_an_optimizer_steps_as_torchs_does(name: str, settings: dict[str, float]) -> None:
    rng = np.random.default_rng(0)
    starts = [rng.standard_normal((2, 3)), rng.standard_normal(3)]
    mine, theirs = [part("tensor").Tensor(one.copy()) for one in starts], [torch.tensor(one) for one in starts]
    yours, right = getattr(part("optim"), name)(mine, **settings), getattr(torch.optim, name)(theirs, **settings)
    for step in range(6):
        for at, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            gradient = None if (at, step) == (1, 3) else rng.standard_normal(tuple(other.shape))
            one.grad, other.grad = gradient, None if gradient is None else torch.tensor(gradient)
        yours.step()
        right.step()
        assert all(np.allclose(one.data, other) for one, other in zip(mine, theirs, strict=True))
    yours.zero_grad()
    assert all(one.grad is None for one in mine)


NUDGED: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "a product that stretches both": (lambda x, y: x * y * y, ((3, 1), (1, 4))),
    "a quotient": (lambda x, y: x / (y * y + 1), ((2, 3), (3,))),
    "a mean": (lambda x: (x - x.mean(0)) ** 3, ((3, 2),)),
    "batches of matrices": (lambda a, b: (a @ b) ** 2, ((2, 1, 2, 3), (2, 3, 2))),
    "softmax": (lambda x: part("losses").softmax(x) ** 2, ((3, 4),)),
    "cross entropy": (lambda x: part("losses").cross_entropy(x, [0, 2]), ((2, 3),)),
    "normalize": (lambda x: part("norm").normalize(x, 0) ** 3, ((4, 2),)),
    "conv2d": (lambda x, w: part("conv").conv2d(x, w, 1) ** 2, ((2, 2, 3, 4), (3, 2, 3, 2))),
    "max_pool2d": (lambda x: part("conv").max_pool2d(x, 2) ** 2, ((1, 2, 4, 4),)),
    "take": (lambda x: part("sequence").take(x, np.array([1, 1, 0])) ** 2, ((3, 2),)),
    "attention": (lambda q, k, v: part("attention").attention(q, k, v) ** 2, ((3, 2), (3, 2), (3, 2))),
    "a block": (lambda x: part("attention").SelfAttention(4, 2, np.random.default_rng(0))(x) ** 2, ((2, 3, 4),)),
}


@pytest.mark.parametrize("case", NUDGED)
def test_a_gradient_is_that_of_nudges(case: str) -> None:
    function, shapes = NUDGED[case]
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    inputs = [part("tensor").Tensor(one.copy()) for one in arrays]
    function(*inputs).backward()
    for at, one in enumerate(inputs):
        assert np.allclose(one.grad, nudged(function, arrays, at), atol=1e-6), at


def test_gradients_of_leaves_add_up_and_those_of_results_begin_anew() -> None:
    x = part("tensor").Tensor([1.0, 2.0])
    y = x * x
    loss = y.sum()
    loss.backward()
    loss.backward()
    assert x.grad.tolist() == [4.0, 8.0]
    assert y.grad.tolist() == [1.0, 1.0]
    scalars = part("scalars")
    t = scalars.Value(3.0)
    root = t * t
    scalars.backward(root)
    scalars.backward(root)
    assert (t.grad, root.grad) == (12.0, 1.0)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: part("ops").matmul([1.0], [[1.0]]), r"matmul takes matrices, not shapes \(1,\) and \(1, 1\)"),
        (lambda: part("losses").mse(part("tensor").Tensor([[1.0]]), [1.0]), r"prediction has shape \(1, 1\), and the"),
        (lambda: part("conv").max_pool2d(part("tensor").Tensor(np.ones((1, 1, 3, 4))), 2), r"3 by 4 cannot be cut so"),
    ],
)  # fmt: skip
def test_a_shape_that_does_not_fit_is_refused(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()


def test_a_student_who_has_nothing_gets_the_parts_before_the_lesson(folder: Path) -> None:
    state = lab.catch_up(6)
    assert state
    assert repr(state) == "mygrad, before lesson 6: reference parts written: scalars.py, tensor.py, ops.py; ready"
    assert sorted(path.name for path in (folder / "mygrad").iterdir()) == [
        "__init__.py", "ops.py", "scalars.py", "tensor.py",
    ]  # fmt: skip
    module = import_module("mygrad.tensor")
    assert Path(str(module.__file__)).parent == folder / "mygrad"
    assert repr(lab.catch_up(6)) == "mygrad, before lesson 6: ready"


def test_a_file_of_the_students_own_stays_and_is_used(folder: Path) -> None:
    lab.catch_up(5)
    mine = reference("tensor") + "\n\nMINE = 7\n"
    (folder / "mygrad" / "tensor.py").write_text(mine, "utf-8")
    state = lab.catch_up(5)
    assert state
    assert repr(state) == "mygrad, before lesson 5: your own, left as they are: tensor.py; ready"
    assert import_module("mygrad.tensor").MINE == 7
    assert repr(lab.catch_up(5, replace=True)) == repr(state), "a right file is not replaced"
    assert (folder / "mygrad" / "tensor.py").read_text("utf-8") == mine


FAULTY = {
    "wrong": (reference("ops").replace("g * y,", "g,"), "exp with shape (3, 4): the gradient"),
    "unfinished": ("def matmul(a, b):\n    ...\n", "matmul is empty: write it in the place of the ..."),
    "no Python": ("def matmul(", "raised SyntaxError"),
    "raises": ("1 / 0", "raised ZeroDivisionError"),
    "leaves": ("raise SystemExit", "ends Python"),
    "empty": ("", "has no attribute"),
    "no text": ("\udc80", "raised UnicodeDecodeError"),
}


@pytest.mark.parametrize("case", FAULTY)
def test_a_part_that_is_not_ready_stays_until_it_is_replaced_and_then_there_is_a_copy(folder: Path, case: str) -> None:
    text, reason = FAULTY[case]
    lab.catch_up(5)
    file, written = folder / "mygrad" / "ops.py", text.encode("utf-8", "surrogateescape")
    file.write_bytes(written)
    state = lab.catch_up(6)
    assert not state
    assert reason in repr(state)
    assert "ops.py is not ready (" in repr(state)
    assert "lab.catch_up(6, replace=True), which keeps a copy of your file" in repr(state)
    assert file.read_bytes() == written
    state = lab.catch_up(6, replace=True)
    assert state
    assert "reference parts written: ops.py; your files are kept as mygrad/ops_mine.py; ready" in repr(state)
    assert (folder / "mygrad" / "ops_mine.py").read_bytes() == written
    file.write_bytes(written)
    assert "mygrad/ops_mine_2.py" in repr(lab.catch_up(6, replace=True))


@pytest.mark.parametrize("lesson", ["7", 7.0, True, None])
def test_a_lesson_is_a_whole_number(folder: Path, lesson: Any) -> None:
    with pytest.raises(TypeError, match="the number of a lesson is expected"):
        lab.catch_up(lesson)
    assert not (folder / "mygrad").exists()


@pytest.mark.parametrize("lesson", [2, 17, -1])
def test_a_lesson_that_is_not_there_is_refused(folder: Path, lesson: int) -> None:
    with pytest.raises(ValueError, match="the engine begins in lesson 3, and the last one is 16"):
        lab.catch_up(lesson)


@pytest.mark.parametrize("name", ["mygrad", "mygrad.py"])
def test_a_file_in_the_way_is_named(folder: Path, name: str) -> None:
    (folder / name).write_text("mine")
    with pytest.raises(FileExistsError, match=rf"{name} has the name of the package mygrad, .* rename the file"):
        lab.catch_up(4)
    assert (folder / name).read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(engine, "replace_file", refuse)
    with pytest.raises(PermissionError, match=r"cannot be written \(Permission denied\): copy the notebook"):
        lab.catch_up(4)
    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(PermissionError, match="mygrad cannot be written"):
        lab.catch_up(4)


def test_a_package_of_the_same_name_from_elsewhere_does_not_hide_the_students(folder: Path) -> None:
    other = folder / "other" / "mygrad"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("")
    sys.path.insert(0, str(other.parent))
    import_module("mygrad")
    assert lab.catch_up(5)
    assert Path(str(import_module("mygrad.tensor").__file__)).parent == folder / "mygrad"


def test_a_check_reads_the_file_as_it_is_now(folder: Path) -> None:
    lab.catch_up(9)
    file = folder / "mygrad" / "optim.py"
    assert 'there is no file "mygrad/optim.py"' in lab.check("9.5", "mygrad/optim.py").reason
    file.write_text(reference("optim").replace("- self.lr", "+ self.lr"), "utf-8")
    assert lab.check("9.5", "mygrad/optim.py").kind == "numbers"
    file.write_text(reference("optim"), "utf-8")
    assert lab.check("9.5", "mygrad/optim.py")
    tensor = import_module("mygrad.tensor").Tensor
    file.write_text(reference("optim").replace("class SGD", "class Walk"), "utf-8")
    assert "has no attribute 'SGD'" in lab.check("9.5", file).reason
    assert import_module("mygrad.tensor").Tensor is tensor, "the tensors of the notebook stay what they are"


def test_the_reference_parts_have_known_names() -> None:
    with pytest.raises(ValueError, match="mygrad has no part 'loss': the parts are scalars, tensor"):
        reference("loss")
    with pytest.raises(ValueError, match="the part ops has no function sigmoid: it has matmul, relu"):
        course.part_with_marks("ops", ["sigmoid"])


@pytest.mark.parametrize("lesson", PARTS)
def test_the_cell_of_a_part_is_the_reference_with_marks(lesson: int, folder: Path) -> None:
    source = next(one for one in course.lessons() if one.name.startswith(f"{lesson:02}"))
    found = re.search(r"^%%writefile mygrad/(\w+)\.py\n(\{part .*\})$", source.read_text("utf-8"), re.MULTILINE)
    assert found is not None
    assert found[1] == PARTS[lesson]
    student, solved = (course._exercise(found[0], "1.1", solved=solved).partition("\n")[2] for solved in (False, True))
    marks = re.compile(r"^ *(?:\.\.\.|### (?:BEGIN|END) SOLUTION)\n", re.MULTILINE)
    assert marks.sub("", f"{solved}\n").strip() == reference(found[1]).strip()
    names = found[2].rstrip("}").partition(": ")[2].split(", ")
    assert sorted(engine.empty_functions(student)) == sorted(names)
    number = re.search(rf"^```python exercise ({lesson}\.\d+)\n%%writefile", source.read_text("utf-8"), re.MULTILINE)
    assert number is not None
    assert all(piece in lab.task(number[1]) for name in names for piece in name.split("."))


def test_a_variant_leaves_the_reference_as_it_is() -> None:
    variant("ops", ("turned_a @ g", "turned_a @ g * 2"))
    assert JUDGES["ops"](part("ops")) is None


def program(of: Any) -> Any:
    """The network of the third capstone, forward and backward."""
    rng = np.random.default_rng(0)
    x, w1, b1, w2, b2 = (of.Tensor(rng.standard_normal(shape)) for shape in ((4, 3), (3, 3), (1, 3), (3, 3), (1, 3)))
    h = of.tanh(x @ w1 + b1)
    p = of.softmax((h + h * h) @ w2 + b2)
    loss = (p * p).mean()
    loss.backward()
    return loss


SAID = {
    1: "The rule of `tanh` multiplies by 1 - y",
    2: "paths add, so write `+=` and not `=`",
    3: "takes a mean over dimension 0",
    4: "The rule of `matmul` for its first input lacks a transpose",
    5: "softmax",
}
"""The words of nbgrad on the first fault of each planted engine."""


@pytest.mark.parametrize("number", SAID)
def test_the_fault_of_a_planted_engine_is_in_its_gradients_and_its_picture_shows_it(number: int) -> None:
    reference_engine = SimpleNamespace(
        Tensor=part("tensor").Tensor, tanh=part("ops").tanh, softmax=part("losses").softmax
    )
    right, loss = program(reference_engine), program(planted(number))
    assert loss.data == right.data
    assert verdict(right).ok
    found = verdict(loss)
    assert not found.ok
    assert SAID[number] in found.text
    assert len({function_with_the_fault(number) for number in SAID}) == len(SAID) == COUNT


@pytest.mark.parametrize("number", [0, 6, "1"])
def test_a_planted_engine_has_a_number(number: Any) -> None:
    with pytest.raises(ValueError, match="the engines have the numbers 1 to 5"):
        planted(number)


def refuse(*_: Any, **__: Any) -> Any:
    raise RuntimeError("refused")


ODD: tuple[Any, ...] = (
    None, True, np.True_, 7, 1.5, "mygrad/tensor.py", b"", [], {}, (1, 2), ..., np.ones(3), torch.ones(2), Path(), int,
    ModuleType("empty"), refuse,
)  # fmt: skip
"""Answers of wrong types."""
BROKEN: tuple[Any, ...] = (
    None,
    3,
    "text",
    [[1.0], [2.0, 3.0]],
    refuse,
    lambda *_, **__: None,
    lambda *_, **__: "text",
    dict,
)
"""Objects in the place of a function or a class of a file."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PARTS.values())
def test_a_check_of_the_engine_never_raises_and_says_the_same_again(name: str, folder: Path) -> None:
    def judge(answer: Any) -> Deviation | None:
        try:
            return JUDGES[name](answer)
        except Refused as error:
            return error.deviation

    answers = [*ODD, "mygrad", folder, folder / f"{name}.py"]
    for own in [
        one for one, each in vars(part(name)).items() if getattr(each, "__module__", "") == part(name).__name__
    ]:
        for broken in BROKEN:
            module = ModuleType(f"{REFERENCE}.{name}")
            vars(module).update(vars(part(name)) | {own: broken})
            answers.append(module)
    for answer in answers:
        found = judge(answer)
        assert found == judge(answer)
        assert found is None or (found.kind and found.text)
    assert sum(judge(answer) is not None for answer in answers) >= len(ODD)

"""Programs in files: they come back to the bit, and a file that is damaged or made to do harm is refused."""

import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import nbgrad
from nbgrad import nn
from nbgrad.core.symbolic.exports.expressions import read_number
from nbgrad.core.symbolic.exports.functions import function_at, path_of
from nbgrad.core.symbolic.exports.saving import KEY
from nbgrad.core.symbolic.numbers import Number
from nbgrad.symbolic import Program, load, trace

X, Y = nbgrad.tensor(torch.randn(5, 4)), nbgrad.tensor(torch.randint(0, 3, (5,)))


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))


def step_of(net: Any, opt: Any) -> Callable[..., Any]:
    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    return step


@pytest.fixture
def program() -> Program:
    net = small()
    return trace(lambda x, y: nn.functional.cross_entropy(net(x), y), X, Y)


def test_a_gradient_comes_back_to_the_bit(program: Program, tmp_path: Path) -> None:
    gradient = program.grad().optimize()
    gradient.save(tmp_path / "one")
    loaded = load(tmp_path / "one")
    assert str(loaded) == str(gradient)
    loaded.save(tmp_path / "two")
    again = load(tmp_path / "two").optimize()
    found = []
    for one in (gradient, loaded, again):
        torch.manual_seed(3)
        found.append(one(X, Y))
    for one in found[1:]:
        assert torch.equal(one[0].data, found[0][0].data)
        assert all(torch.equal(a.data, b.data) for a, b in zip(one[1], found[0][1], strict=True))
    assert [str(one.place) for one in loaded.steps] == [str(one.place) for one in gradient.steps]
    assert [one.op.name for one in loaded.rows()] == [one.op.name for one in gradient.rows()]
    with pytest.raises(RuntimeError, match="was loaded"):
        loaded.grad()


@pytest.mark.parametrize("settings", [{}, {"momentum": 0.9, "nesterov": True}])
def test_a_training_step_comes_back_with_its_state_and_its_settings(settings: dict[str, Any], tmp_path: Path) -> None:
    net = small()
    opt = nbgrad.optim.SGD(net.parameters(), lr=0.1, **settings)
    step = step_of(net, opt)
    step(X, Y)
    traced = trace(step, X, Y)
    traced.save(tmp_path / "step")
    loaded = load(tmp_path / "step")
    losses = []
    for one in (traced, loaded):
        opt.param_groups[0]["lr"] = 0.1
        torch.manual_seed(1)
        losses.append([float(one(X, Y)), float(one(X, Y))])
        opt.param_groups[0]["lr"] = loaded.settings["SGD.param_groups[0]['lr']"] = 0.01
        losses[-1] += [float(one(X, Y)) for _ in range(3)]
        loaded.settings["SGD.param_groups[0]['lr']"] = 0.1
    assert losses[0] == losses[1]
    for here, there in zip(traced.captured, loaded.captured, strict=True):
        assert (here.owner is None) == (there.owner is None)
        assert here.data is not there.data


def test_gradients_are_set_on_the_tensors_of_the_loaded_program(tmp_path: Path) -> None:
    net = nn.Linear(4, 3)

    def function(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        return loss

    traced = trace(function, X, Y)
    traced.save(tmp_path / "it")
    loaded = load(tmp_path / "it")
    traced(X, Y)
    loaded(X, Y)
    grads = {one.name: one.owner.grad.data for one in loaded.captured if one.owner is not None}
    assert torch.equal(grads["weight"], net.weight.grad.data)
    assert torch.equal(grads["bias"], net.bias.grad.data)


def test_tensors_that_share_memory_share_it_again(tmp_path: Path) -> None:
    flat = torch.arange(6.0)
    row, other = flat[:3], flat.view(3, 2).T

    def function(x: torch.Tensor) -> torch.Tensor:
        row.add_(x)
        return other * 1

    traced = trace(function, torch.ones(3))
    traced.save(tmp_path / "it")
    loaded = load(tmp_path / "it")
    assert loaded(torch.ones(3)).tolist() == [[1.0, 3.0, 4.0], [2.0, 3.0, 5.0]]
    assert flat.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    "constant",
    [
        torch.randn(4, 3).T,
        torch.randn(3, 1).expand(3, 4),
        torch.randn(3, 4, dtype=torch.complex128),
        torch.randn(3, 4, dtype=torch.complex64).conj(),
        torch.randn(3, 8)[:, ::2],
        torch.randn(0, 4),
        torch.tensor(True),
    ],
)
def test_constants_of_every_kind(constant: torch.Tensor, tmp_path: Path) -> None:
    traced = trace(lambda x: [x * constant, constant.T if constant.dim() == 2 else constant + 0], torch.ones(()))
    traced.save(tmp_path / "it")
    loaded = load(tmp_path / "it")
    for one, other in zip(loaded(torch.ones(())), traced(torch.ones(())), strict=True):
        assert torch.equal(one.data, other.data)
        assert one.data.stride() == other.data.stride()


def test_structures_and_settings_of_every_kind(tmp_path: Path) -> None:
    def function(x: dict[str, Any]) -> Any:
        one = x["a"][:, None, ..., ::2].to(torch.float64).clamp(-float("inf"), 1e300)
        return {"max": x["a"].max(1), "b": [one, None, "text", 7, 2.5, (x["b"],)], 3: one.contiguous() * float("nan")}

    given = {"a": X, "b": nbgrad.tensor(2)}
    traced = trace(function, given)
    traced.save(tmp_path / "it")
    found, expected = load(tmp_path / "it")(given), traced(given)
    assert found["max"]._fields == expected["max"]._fields
    assert found["b"][1:5] == expected["b"][1:5] == [None, "text", 7, 2.5]
    assert torch.equal(found["b"][0].data, expected["b"][0].data)
    assert found[3].isnan().all()


def test_an_optimizer_that_runs_as_it_is_cannot_be_saved(tmp_path: Path) -> None:
    net = nn.Linear(4, 3)
    opt = nbgrad.optim.RMSprop(net.parameters())
    step = step_of(net, opt)
    step(X, Y)
    with pytest.raises(ValueError, match=r"RMSprop_update at .*test_saving.py:\d+.*calls of torch alone"):
        trace(step, X, Y).save(tmp_path / "it")
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_leaves_the_old_one(program: Program, tmp_path: Path) -> None:
    program.save(tmp_path / "it")
    before = (tmp_path / "it").read_bytes()
    program.steps[0].kwargs["device"] = object()
    with pytest.raises(ValueError, match="cannot hold its argument"):
        program.save(tmp_path / "it")
    assert (tmp_path / "it").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


HOSTILE = [
    "os.system",
    "builtins.eval",
    "torch.load",
    "torch.save",
    "torch.from_file",
    "torch.hub.load",
    "torch.Tensor.numpy",
    "torch.Tensor.__reduce_ex__",
    "torch.Tensor.register_hook",
    "torch.Tensor.map_",
    "torch.Tensor.backward",
    "torch.Tensor.__class__.__get__",
    "torch.Tensor.data.__set__",
    "torch.Tensor.grad.__get__",
    "torch.ops.load_library",
    "torch.ops.aten.from_file.default",
    "torch.ops.aten.__class__",
    "torch.ops.aten.set_data",
    "torch.ops.profiler._record_function_enter",
    "torch.nn.functional.handle_torch_function",
    "torch.nn.functional.boolean_dispatch",
    "torch.nn.functional.torch.load",
    "torch.set_num_threads",
    "torch.ops.aten.set_grad_enabled",
    "torch.ops.aten.manual_seed",
    "torch.ops.aten.manual_seed.generator",
    "torch.ops.aten.add.str",
    "torch.ops.prims._make_token.default",
    "torch.__reduce_ex__",
    "torch.__dir__",
    "torch._print",
    "torch._assert_scalar",
    "torch._C._nn._parse_to",
    "torch._cufft_set_plan_cache_max_size",
    "torch.Tensor.set_",
    "torch.Tensor.resize_",
    "torch.Tensor.share_memory_",
    "torch.manual_seed",
    "torch.frombuffer",
    "nbgrad.save",
    "nbgrad.ops.__class__",
    "torch",
    "",
]


@pytest.mark.parametrize("path", HOSTILE)
def test_no_other_function_is_found(path: str) -> None:
    with pytest.raises(LookupError, match="no function that a program may call"):
        function_at(path)


@pytest.mark.parametrize(
    "function",
    [
        torch.relu,
        torch.Tensor.add_,
        torch.Tensor.T.__get__,
        torch.nn.functional.linear,
        torch.ops.aten.nll_loss_forward.default,
        torch.ops.aten.index_put_,
        torch.linalg.det,
        torch.einsum,
        torch.Tensor.__getitem__,
    ],
)
def test_a_function_is_found_by_its_name(function: Callable[..., Any]) -> None:
    path = path_of(function)
    assert path is not None
    assert function_at(path) == function


def changed(file: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Write the file again with changed JSON."""
    with safe_open(file, framework="pt") as opened:
        metadata = opened.metadata()
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118  # it is no dict
    text = json.loads(metadata[KEY])
    change(text)
    save_file(tensors, file, {KEY: json.dumps(text)})
    return file


def put(path: str, given: Any) -> Callable[[dict[str, Any]], None]:
    """Put a value into the JSON. ``path`` has its keys and indices, with slashes between them."""

    def change(text: Any) -> None:
        *before, last = [int(one) if one.isdigit() else one for one in path.split("/")]
        for one in before:
            text = text[one]
        text[last] = given

    return change


@pytest.mark.parametrize(
    ("path", "given", "message"),
    [
        ("steps/0/function", "os.system", "os.system is no function that a program may call"),
        ("rows/0/op", "unknown", "the row 'unknown'"),
        ("version", 99, "reads format 1"),
        ("name", "f(): import os\ndef g", "no name"),
        ("values/0/name", "x; import os", "no name of a value"),
        ("values/0/name", "lambda", "no name of a value"),
        ("values/1/name", "x", "two values have the name x"),
        ("values/0/shape", [7, 4], "damaged"),
        ("values/0/shape", [-5, 4], "is no count"),
        ("values/0/shape", 5, "damaged"),
        ("values/0/dtype", "load", "torch has no dtype 'load'"),
        ("values/0/dtype", "float64", "damaged"),
        ("values/0/device", "nowhere", "damaged"),
        ("values/8/shape", [5, 80], "gives"),
        ("steps/0/args", {"tuple": [{"value": 99}]}, "damaged"),
        ("steps/0/args", {"tuple": [{"code": "1"}]}, "damaged"),
        ("steps/0/args", {"tuple": []}, "damaged"),
        ("steps/0/kwargs", {"dict": [["a=1); import os", 1]]}, "damaged"),
        ("steps/0/writes", [0], "changes other memory"),
        ("steps/0/random", True, "changes other memory"),
        ("steps/0/phase", "never", "damaged"),
        ("steps/0/place", {"file": "a\nimport os", "line": 1, "text": "", "cell": False}, "is no line"),
        ("steps", [], "which no step made"),
        ("outputs", {"value": -1}, "is no count"),
        ("captured/0/tensor", "gone", "damaged"),
        ("inputs", 99, "damaged"),
        ("settings", {"__import__('os')": 1.0}, "is no name"),
    ],
)
def test_a_file_that_was_changed_is_refused(path: str, given: Any, message: str, tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    trace(lambda x, y: nn.functional.cross_entropy(net(x), y), X, Y).save(tmp_path / "it")
    changed(tmp_path / "it", put(path, given))
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "it")


def test_files_that_are_none(program: Program, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match="no file of safetensors, or is damaged"):
        load(tmp_path / "text")
    save_file({"a": torch.ones(2)}, tmp_path / "weights")
    with pytest.raises(ValueError, match="holds tensors and no program"):
        load(tmp_path / "weights")
    program.save(tmp_path / "it")
    whole = (tmp_path / "it").read_bytes()
    for length in range(0, len(whole), 97):
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"damaged|no program"):
            load(tmp_path / "cut")


def test_deep_json_is_refused(program: Program, tmp_path: Path) -> None:
    program.save(tmp_path / "it")
    with safe_open(tmp_path / "it", framework="pt") as opened:
        text = opened.metadata()[KEY]
    bomb = "[" * 100_000 + "]" * 100_000
    save_file({"a": torch.ones(1)}, tmp_path / "it", {KEY: text.replace('"outputs":', f'"more":{bomb},"outputs":')})
    with pytest.raises(ValueError, match="refused: its JSON is nested more than 200 deep"):
        load(tmp_path / "it")


def test_a_structure_that_is_too_deep_for_a_reader_is_not_saved(tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        for _ in range(210):
            x = [x]
        return x

    with pytest.raises(ValueError, match="function takes or returns a structure that is nested too deep"):
        trace(function, X).save(tmp_path / "it")


BIG = 1 << 40
GRU = [{"value": 0}, {"value": 0}, [{"value": 0}] * 2, False, 1, 0.0, False, False, False]


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "message"),
    [
        ("torch.unbind", [{"value": 0}], [], "too many"),
        ("torch.Tensor.split", [{"value": 0}, 1], [], "too many"),
        ("torch.chunk", [{"value": 0}, BIG], [], "more than"),
        ("torch.tensor_split", [{"value": 0}, BIG], [], "more than"),
        ("torch.tensordot", [{"value": 0}, {"value": 0}], [["dims", BIG]], "more than"),
        ("torch.functional.tensordot", [{"value": 0}, {"value": 0}], [["dims", BIG]], "no function|more than"),
        ("torch.diff", [{"value": 0}, BIG], [], "more than"),
        ("torch.gru", GRU, [], "too many|gives"),
        ("torch.empty", [[BIG, BIG]], [["dtype", {"dtype": "nowhere"}]], "no dtype"),
        ("torch.zeros", [[BIG, 1 << 30]], [], "damaged"),
        ("torch.ops.aten.mul", [[1], BIG], [], "no function"),
        ("torch.ops.aten.mul.left_t", [[1], BIG], [], "no function"),
    ],
)
def test_no_step_of_a_file_takes_time_or_memory_while_it_is_loaded(
    function: str, args: list[Any], kwargs: list[Any], message: str, tmp_path: Path
) -> None:
    trace(lambda x: x.sin(), X).save(tmp_path / "it")

    def change(text: Any) -> None:
        text["values"][0] |= {"shape": [BIG], "stride": [1]}
        text["steps"][0] |= {"function": function, "args": {"tuple": args}, "kwargs": {"dict": kwargs}}

    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with pytest.raises(ValueError, match=message):
        load(changed(tmp_path / "it", change))
    assert time.monotonic() - begun < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000, "in KiB"


@pytest.mark.parametrize(
    ("path", "given", "message"),
    [
        ("values/0/shape", [1 << 62, 1 << 62], "no memory is that large"),
        ("values/1/stride", [1 << 60, 1], "no memory is that large"),
        ("values/1/stride", [10_000, 1], "strides with gaps"),
        ("captured/0/offset", 1 << 62, "damaged"),
        ("values/0/device", "cuda:99", "torch finds none here|damaged"),
        ("values/0/device", "privateuseone", "it has tensors on the device"),
    ],
)
def test_sizes_of_a_file_are_checked_before_there_is_memory(
    path: str, given: Any, message: str, tmp_path: Path
) -> None:
    matrix = nbgrad.tensor(torch.randn(3, 4))
    trace(lambda x: x @ matrix.T, X).save(tmp_path / "it")
    with pytest.raises(ValueError, match=message):
        load(changed(tmp_path / "it", put(path, given)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9**9**9**9", "computes with literals alone"),
        ("SGD.param_groups[0]['lr'] * (9 ** 9)", "computes with literals alone"),
        ("(" * 5_000 + "1", "nested too deep"),
        ("-" * 5_000 + "1", "nested too deep"),
        ("1" * 5_000, "a number is expected"),
        ("1 +" * 5_000, "at most ten thousand"),
        ("SGD.param_groups[0]['lr'] * 1 ** 308", "computes with literals alone"),
        ("SGD.param_groups[0]['lr'] ** 9.0", "out of range"),
        ("SGD.param_groups[0]['lr'] / 0", "zero"),
        ("SGD.param_groups[0]['momentum']", "momentum"),
        ("SGD.param_groups[0]['lr'].real", "a number is expected|no expression"),
        ("__import__('os')", "a number is expected"),
        ("1", "no expression"),
        ("(SGD.param_groups[0]['lr']", "not closed"),
        ("", "cut off"),
        (7, "is a text"),
    ],
)
def test_an_expression_of_a_file_is_no_code(text: Any, message: str) -> None:
    with pytest.raises((ValueError, LookupError, ArithmeticError), match=message):
        read_number(text, {"SGD.param_groups[0]['lr']": 1e300})


def test_an_expression_is_what_python_computes() -> None:
    lr, beta = (Number(value, f"A.param_groups[0]['{name}']", float, []) for name, value in (("lr", 0.1), ("b", 0.9)))
    settings = {"A.param_groups[0]['lr']": 0.1, "A.param_groups[0]['b']": 0.9}
    for one in (-lr, lr * 2 - beta, 1 - beta**3, (lr + 1e-8) / -beta, -(lr**2) * (-2.5), 2**lr, lr * float("inf")):
        read = read_number(one.text, settings)
        assert (float(read), read.text) == (float(one), one.text)
        assert read.read() == float(one)


def test_what_is_loaded_lies_in_memory_as_kernels_need_it(tmp_path: Path) -> None:
    whole = torch.randn(4, 4, dtype=torch.complex128)
    views = [nbgrad.tensor(whole[0]), nbgrad.tensor(whole[1])]  # both views share their memory
    odd = nbgrad.tensor(torch.ones(1, dtype=torch.uint8))
    for length in range(8):  # each text length shifts the numbers in the file differently
        program = trace(lambda x: (x * views[0] + views[1]) * odd, nbgrad.tensor(whole[2]))
        program.name = "p" * (length + 1)
        program.save(tmp_path / "program")
        loaded = load(tmp_path / "program")
        bases = [one.untyped_storage().data_ptr() for one in loaded.captured_data()]
        assert [base % 16 for base in bases] == [0] * len(bases)
        assert torch.equal(loaded(whole[2]).data, program(whole[2]).data)

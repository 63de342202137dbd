"""autocast: the values, gradients and element types of the same program under torch's own."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)

import nbgrad
from nbgrad import nn
from nbgrad.core.backend import autocast
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Make, Sample
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.graph import nonfinite
from nbgrad.core.tensor.tensor import Tensor, tensor
from tests.core import rows
from tests.core.programs import OURS, TORCH, Library, plain

# Rows that only rules call never run under autocast: a backward switches it off, as a test below checks.
every_row = pytest.mark.parametrize(
    "row",
    [row for row in OPS.values() if not row.name.endswith("_backward")],
    ids=lambda row: row.name,
)
every_device = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
HALVES = (torch.bfloat16, torch.float16)


def outcome(run: Callable[..., Any], args: list[Any], sample: Sample, autocast: Any) -> list[torch.Tensor]:
    """The result of ``run`` under autocast, and the gradients of a backward outside of autocast."""
    with autocast:
        out = run(*args, **sample.settings)
    first = out[0] if isinstance(out, tuple) else out
    if not first.requires_grad:
        return [plain(first)]
    inputs = [arg for arg in args if isinstance(arg, Tensor | torch.Tensor) and arg.requires_grad]
    seed = torch.ones_like(plain(first))
    if isinstance(first, Tensor):
        return [first.data, *(g.data for g in nbgrad.grad(first, inputs, seed))]
    return [first.detach(), *torch.autograd.grad(first, inputs, seed)]


def compare(row: Op, sample: Sample, half: torch.dtype, device: str, reference: Callable[..., Any]) -> None:
    """The row on one sample, by torch and by nbgrad."""
    positions = rows.differentiable(row, sample)
    raw = [(arg, i in positions) if isinstance(arg, torch.Tensor) else (arg, None) for i, arg in enumerate(sample.args)]
    theirs = [arg if needs is None else arg.clone().requires_grad_(needs) for arg, needs in raw]
    ours = [arg if needs is None else tensor(arg.clone(), requires_grad=needs) for arg, needs in raw]
    try:
        expected = outcome(reference, theirs, sample, torch.autocast(device, half))
    except (RuntimeError, IndexError):  # torch has no such kernel
        return
    found = outcome(row, ours, sample, nbgrad.autocast(device, half))
    assert [part.dtype for part in found] == [part.dtype for part in expected]
    tolerance = {torch.bfloat16: 1e-2, torch.float16: 4e-3}[half]
    for mine, yours in zip(found, expected, strict=True):
        rows.close(mine, yours, "value or gradient", tolerance)


def mixtures(sample: Sample) -> Iterator[tuple[torch.dtype, Sample]]:
    """The sample with every mixture of half and single precision in its arguments."""
    places = [i for i, arg in enumerate(sample.args) if isinstance(arg, torch.Tensor) and arg.is_floating_point()]
    for half in HALVES:
        for dtypes in product((half, torch.float32), repeat=min(len(places), 3)):
            args = list(sample.args)
            for place, dtype in zip(places, (*dtypes, *dtypes[-1:] * len(places)), strict=False):
                args[place] = args[place].to(dtype)
            yield half, Sample(tuple(args), sample.settings)


@pytest.mark.sampled(12)
@pytest.mark.filterwarnings("ignore:(ComplexHalf|Mismatch dtype|size_average|Default grid_sample|LSTM with proj)")
@every_device
@every_row
def test_every_row_under_autocast_is_torchs(row: Op, device: str) -> None:
    for sample in rows.comparable(row):
        reference = rows.own(row, sample)
        if reference is None:
            continue
        for half, mixed in mixtures(sample):
            given = rows.on(mixed, device)
            try:
                compare(row, given, half, device, reference)
            except Exception as error:
                raise AssertionError(f"{row.name}({rows.describe(given)}) in {half}: {error}") from error


FAKED = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException)


NEED_NUMBERS = frozenset(
    (
        *("as_strided_scatter", "binary_cross_entropy", "col_to_img", "copy", "getitem", "gru_layer", "gru_step"),
        *("img_to_col", "linalg_lstsq", "linalg_solve", "rnn_relu_layer", "rnn_tanh_layer", "setitem", "view_scatter"),
    )
)
"""Rows of which fake tensors show nothing: torch has no fake kernel, or the kernel looks at numbers."""


@contextmanager
def fake_gpu(half: torch.dtype) -> Iterator[None]:
    """Autocast on a GPU of fake tensors, which have element types and no numbers: torch knows its policies for it."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        torch.set_autocast_enabled("cuda", True)
        torch.set_autocast_dtype("cuda", half)
        try:
            yield
        finally:
            torch.set_autocast_enabled("cuda", False)


@pytest.fixture
def no_generators(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake GPU has no generator, whose state could be kept."""
    monkeypatch.setattr(autocast, "random_state", lambda _devices: None)
    monkeypatch.setattr(autocast, "drawing_from", lambda _state, run, /, *args, **settings: run(*args, **settings))


def types_on_a_fake_gpu(row: Op) -> Iterator[tuple[str, list[torch.dtype], list[torch.dtype]]]:
    """For each sample a description, and the types of the results by torch and by us, if fake tensors can tell."""
    for sample in rows.comparable(row):
        reference = rows.own(row, sample)
        for half, mixed in mixtures(sample) if reference is not None else ():
            with fake_gpu(half):
                values = [_fake(value) for value in mixed.args]
                settings = {name: _fake(value) for name, value in mixed.settings.items()}
                expected = _types(reference, values, settings, Exception)  # torch may have no such kernel
                found = expected and _types(partial(_cast, row), values, settings, FAKED)
            if expected and found:
                yield f"{rows.describe(mixed)} in {half}", expected, found[: len(expected)]


def _fake(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cuda")


def _cast(row: Op, /, *values: Any, **settings: Any) -> Any:
    """The row's forward, after the casts of autocast."""
    cast = list(values)
    for place, dtype in autocast._ask(row.policy or row.forward, list(values), settings):
        cast[place] = cast[place].to(dtype=dtype)
    return row.forward(*cast, **settings)


def _types(
    run: Callable[..., Any], values: list[Any], settings: dict[str, Any], unknown: Any
) -> list[torch.dtype] | None:
    """The types of the results; None where an error of ``unknown`` says that fake tensors have no such kernel."""
    try:
        with torch.no_grad():
            return [part.dtype for part in rows.parts(run(*values, **settings)) if isinstance(part, torch.Tensor)]
    except unknown:
        return None
    except RuntimeError as error:
        if "not linked with support for cuda" in str(error):  # an index in brackets
            return None
        raise


@pytest.mark.sampled(48)
@pytest.mark.filterwarnings("ignore")
@every_row
def test_every_row_casts_on_a_gpu_as_torch_does(row: Op, no_generators: None) -> None:
    compared = 0
    for described, expected, found in types_on_a_fake_gpu(row):
        assert found == expected, described
        compared += 1
    assert compared or row.name in NEED_NUMBERS


def test_a_fake_gpu_shows_the_policies(no_generators: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch has a policy for group_norm on GPUs. Without our casts the element types differ from torch's."""
    row = OPS["group_norm"]
    assert list(types_on_a_fake_gpu(row))
    monkeypatch.setattr(autocast, "_ask", lambda *_: ())
    assert any(found != expected for _, expected, found in types_on_a_fake_gpu(row))


def network(lib: Library, device: str, *, backward_inside: bool = False) -> dict[str, Any]:
    """A small classifier with float32 parameters, one step."""
    generator = torch.Generator().manual_seed(5)

    def draw(*shape: int) -> Any:
        return lib.ops.tensor(torch.randn(shape, generator=generator).tolist(), device=device)

    functional = nbgrad.nn.functional if lib is OURS else torch.nn.functional
    x, target = draw(16, 8), lib.ops.tensor([i % 4 for i in range(16)], device=device)
    weights = {"a": draw(8, 8).requires_grad_(), "b": draw(8).requires_grad_(), "c": draw(4, 8).requires_grad_()}
    with lib.ops.autocast(device, torch.bfloat16):
        h = functional.relu(functional.linear(x, weights["a"], weights["b"]))
        h = h + functional.softmax(h, dim=1) * 0.5
        scores = functional.linear(h, weights["c"])
        loss = functional.cross_entropy(scores, target)
        if backward_inside:
            loss.backward()
    if not backward_inside:
        loss.backward()
    return {"h": h, "scores": scores, "loss": loss, **{name: weight.grad for name, weight in weights.items()}}


@every_device
def test_a_network_is_torchs_type_by_type_and_its_gradients_are_float32(device: str) -> None:
    ours, theirs = network(OURS, device), network(TORCH, device)
    assert {name: value.dtype for name, value in ours.items()} == {name: value.dtype for name, value in theirs.items()}
    assert ours["scores"].dtype is torch.bfloat16
    assert all(ours[name].dtype is torch.float32 for name in "abc")
    for name, value in ours.items():
        torch.testing.assert_close(plain(value), plain(theirs[name]), rtol=2e-2, atol=2e-3, msg=name)


def test_a_backward_under_autocast_is_the_one_outside_of_it() -> None:
    inside, outside = network(OURS, "cpu", backward_inside=True), network(OURS, "cpu")
    assert all(torch.equal(inside[name].data, outside[name].data) for name in "abc")


def test_rules_run_in_the_type_of_the_forward() -> None:
    w = tensor(torch.randn(4, 4), requires_grad=True)
    y = w @ w
    (wanted,) = nbgrad.grad(y.sum(), w, retain_graph=True)
    with nbgrad.autocast("cpu", torch.bfloat16):
        (found,) = nbgrad.grad(y.sum(), w)
        assert torch.is_autocast_enabled("cpu")
    assert torch.equal(found.data, wanted.data), "a rule of a float32 product ran in bfloat16"


def test_second_order_through_autocast() -> None:
    torch.manual_seed(0)
    start = torch.randn(4, 4)

    def penalty(lib: Library) -> Any:
        w = lib.ops.tensor(start.tolist(), requires_grad=True)
        with lib.ops.autocast("cpu", torch.bfloat16):
            y = (w @ w).tanh()
        (g,) = lib.grad(y.sum(), [w], create_graph=True)
        (gg,) = lib.grad((g * g).sum(), [w])
        return gg

    torch.testing.assert_close(penalty(OURS).data, penalty(TORCH), rtol=5e-2, atol=5e-2)


def test_a_cast_is_an_op_of_the_graph() -> None:
    w = tensor(torch.randn(3, 3), requires_grad=True)
    with nbgrad.AutogradGraph() as graph:
        with nbgrad.autocast("cpu", torch.bfloat16):
            y = w @ tensor(torch.ones(3, 3))
        names = [record.op.name for record in graph.records if record.op is not None]
    assert names == ["to", "matmul"]
    assert y.dtype is torch.bfloat16
    saved = [value for value in y.grad_fn.saved if isinstance(value, torch.Tensor)]
    assert [value.dtype for value in saved] == [torch.bfloat16], "the rule would not see what the kernel saw"


MADE_OF_OPS: dict[str, Callable[[Any, Any], Any]] = {
    "attention": lambda lib, x: lib.nn.functional.scaled_dot_product_attention(x, x, value=x),
    "causal attention": lambda lib, x: lib.nn.functional.scaled_dot_product_attention(x, x * 1, x, is_causal=True),
    "vecdot": lambda lib, x: lib.linalg.vecdot(x, y=x),
    "kl_div": lambda lib, x: lib.nn.functional.kl_div(x, x.abs(), reduction="batchmean"),
    "poisson_nll_loss": lambda lib, x: lib.nn.functional.poisson_nll_loss(x, x.abs()),
    "margin_ranking_loss": lambda lib, x: lib.nn.functional.margin_ranking_loss(x, 2 * x, target=x.sign()),
    "hinge_embedding_loss": lambda lib, x: lib.nn.functional.hinge_embedding_loss(x, x.sign()),
    "triplet_margin_loss": lambda lib, x: lib.nn.functional.triplet_margin_loss(x, 2 * x, 1.5 * x, margin=4.0),
    "quantile": lambda lib, x: lib.quantile(x, 0.3),
    "pinverse": lambda lib, x: lib.pinverse(x[0, 0]),
    "mse_loss": lambda lib, x: lib.nn.functional.mse_loss(x, 2 * x, weight=x.abs()),
    "l1_loss": lambda lib, x: lib.nn.functional.l1_loss(x, 2 * x, weight=x.abs()),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", MADE_OF_OPS)
def test_a_function_made_of_ops_is_cast_as_torchs_one(name: str, dtype: torch.dtype) -> None:
    raw, found = torch.randn(2, 2, 4, 3).to(dtype), []
    for lib in (nbgrad, torch):
        x: Any = lib.tensor(raw) if lib is nbgrad else raw.clone()  # type: ignore[attr-defined]
        x.requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            y = MADE_OF_OPS[name](lib, x)
        y.float().sum().backward()
        found.append((plain(y), plain(x.grad)))
    for mine, yours in zip(*found, strict=True):
        assert mine.dtype is yours.dtype
        rows.close(mine, yours, name, 4e-2)


def test_nothing_is_cast_where_autocast_is_off() -> None:
    w = tensor(torch.randn(3, 3), requires_grad=True)
    for quiet in (nbgrad.autocast("cpu", enabled=False), nbgrad.autocast("cpu", torch.float16)):
        with quiet, nbgrad.autocast("cpu", enabled=False):
            assert (w @ w).dtype is torch.float32
    assert (w @ w).grad_fn.edges[0] is w.origin


def test_autocast_decorates() -> None:
    @nbgrad.autocast("cpu", dtype=torch.bfloat16)
    def product_of(a: Tensor, b: Tensor) -> Tensor:
        return a @ b

    w = tensor(torch.randn(3, 3), requires_grad=True)
    assert product_of(w, w).dtype is torch.bfloat16


def test_a_module_under_autocast_trains() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = nbgrad.optim.SGD(net.parameters(), lr=0.1)
    x = torch.randn(32, 4)
    t = x.sum(1, keepdim=True)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        with nbgrad.autocast("cpu", torch.bfloat16):
            loss = nn.functional.mse_loss(net(tensor(x)), t)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4
    assert all(parameter.dtype is parameter.grad.dtype is torch.float32 for parameter in net.parameters())


@pytest.fixture(params=[True, False])
def onednn(request: pytest.FixtureRequest) -> Iterator[None]:
    """With and without torch's oneDNN kernels, which cast what its other kernels do not. torch's own switch warns."""
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(request.param)
    yield
    torch._C._set_mkldnn_enabled(enabled)


@pytest.mark.usefixtures("onednn")
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_a_recurrent_module_under_autocast_is_torchs(kind: str) -> None:
    """The batch comes first, so the kernels do not read the given memory in order."""
    torch.manual_seed(0)
    theirs = getattr(torch.nn, kind)(5, 7, bidirectional=True, batch_first=True)
    ours = getattr(nn, kind)(5, 7, bidirectional=True, batch_first=True)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(3, 4, 5)

    def run(net: Any, given: Any) -> list[torch.Tensor] | str:
        """The output and the gradients; or the error, if oneDNN has no such kernel for this processor."""
        try:
            with torch.autocast("cpu", torch.bfloat16):
                out, _ = net(given)
        except RuntimeError as error:
            return str(error)
        out.float().sum().backward()
        return [plain(out), *(plain(parameter.grad) for parameter in net.parameters())]

    mine, yours = run(ours, tensor(x)), run(theirs, x)
    if isinstance(yours, str):
        assert yours in mine, "torch's error is given on"
        return
    for one, other in zip(mine, yours, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-2, atol=8e-2)


def test_a_row_of_ones_own_is_cast_as_its_kernels_are() -> None:
    """A forward that casts by itself is not mistaken for autocast, and random numbers are not drawn twice."""

    def samples(make: Make) -> Any:
        yield Sample.of(make(2, 2), make(2, 2))

    try:

        @op(formula=r"a b + \text{noise}", samples=samples)
        def noisy_product(a: Any, b: Any) -> Any:
            """Product in two precisions. Shapes: square."""
            return a @ b + (b.double() * torch.rand(())).to(torch.bfloat16)

        for name in "ab":
            noisy_product.rule(name, r"\bar{y}")(lambda g: g)
        a, b = torch.randn(2, 2), torch.randn(2, 2)
        with nbgrad.autocast("cpu", torch.bfloat16):
            torch.manual_seed(1)
            ours = noisy_product(tensor(a, requires_grad=True), tensor(b))
            torch.manual_seed(1)
            theirs = noisy_product(a, b)
        torch.testing.assert_close(ours.data, theirs, rtol=2e-2, atol=2e-2)
        assert [edge is not None for edge in ours.grad_fn.edges] == [True, False]
    finally:
        del OPS["noisy_product"]


def test_settings_of_an_op_may_have_any_name() -> None:
    """The functions that run its forward take its settings by name."""
    try:

        @op(formula="c x", samples=lambda make: [Sample.of(make(2), run=2.0, state=1.0, forward=1.0, result=1.0)])
        def multiple(x: Any, *, run: float, state: float, forward: float, result: float) -> Any:
            """So many times x. Shapes: any."""
            return x * (run * state * forward * result)

        multiple.rule("x", r"c \bar{y}")(lambda g, run, state, forward, result: g * (run * state * forward * result))
        x = tensor([1.0, math.inf], requires_grad=True)
        names = {"run": 2.0, "state": 1.0, "forward": 1.0, "result": 1.0}
        with nbgrad.autocast("cpu", torch.bfloat16):
            y = multiple(x, **names)
        (gradient,) = nbgrad.grad(y.sum(), x)
        assert gradient.tolist() == [2.0, 2.0]
        with pytest.raises(nbgrad.AnomalyError, match="multiple"), nbgrad.detect_anomaly():
            multiple(x - x, **names)
        run = nonfinite.again(multiple, names)
        assert run([torch.ones(1)]).tolist() == [2.0]
    finally:
        del OPS["multiple"]


def test_a_cast_after_elements_were_moved_is_one_of_the_input() -> None:
    def forward(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.conv1d(torch.nn.functional.pad(x[None], (0, 1)), w)

    with nbgrad.autocast("cpu", torch.bfloat16):
        found = autocast._casts(forward, [torch.ones(2, 5), torch.ones(3, 2, 2)], {})
        assert found == {0: torch.bfloat16, 1: torch.bfloat16}
        assert autocast._casts(lambda x, w: x.exp() @ w, [torch.ones(2, 2), torch.ones(2, 2)], {}).keys() == {1}


@pytest.mark.cuda
def test_torchs_scaler_is_for_torchs_tensors() -> None:
    with pytest.raises(Exception, match=r"for nbgrad's use nbgrad\.amp\.GradScaler"):
        torch.amp.GradScaler("cuda").scale(tensor(1.0, device="cuda"))

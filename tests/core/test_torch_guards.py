"""torch's own utilities on nbgrad's objects: they work, or an error names nbgrad's. None is silently wrong."""

import _thread
import sys
from collections.abc import Callable
from contextlib import nullcontext
from threading import Event
from typing import Any
from weakref import finalize

import pytest
import torch
from torch.optim import swa_utils
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import nbgrad
from nbgrad import nn
from tests.core.programs import Library, agree
from tests.lacking import lacks


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))


def grown() -> nn.Sequential:
    """A model whose parameters have gradients."""
    made = model()
    made(nbgrad.tensor([[1.0, 2.0], [3.0, 5.0]])).square().sum().backward()
    return made


def x(*values: float) -> nbgrad.Tensor:
    return nbgrad.tensor(values, dtype=nbgrad.float64, requires_grad=True)


BATCHES = [nbgrad.tensor([[1.0, 2.0], [3.0, 5.0]])]
REFUSED: dict[str, Callable[[], Any]] = {
    "nn.utils.clip_grad_norm_": lambda: torch.nn.utils.clip_grad_norm_(grown().parameters(), 0.5),
    "nn.utils.clip_grad_value_": lambda: torch.nn.utils.clip_grad_value_(grown().parameters(), 0.5),
    "nn.utils.clip_grads_with_norm_": lambda: torch.nn.utils.clip_grads_with_norm_(
        grown().parameters(), 0.5, torch.tensor(3.0)
    ),
    "nn.utils.parametrize.register_parametrization": lambda: torch.nn.utils.parametrize.register_parametrization(
        nn.Linear(2, 2), "weight", torch.nn.Identity(), unsafe=True
    ),
    "optim.swa_utils.AveragedModel": lambda: swa_utils.AveragedModel(model()).update_parameters(model()),
    "optim.swa_utils.update_bn": lambda: swa_utils.update_bn(BATCHES, model()),
    "amp.GradScaler": lambda: torch.amp.GradScaler("cpu").scale(model()(BATCHES[0]).sum()),
    "autograd.gradcheck": lambda: torch.autograd.gradcheck(nbgrad.exp, (x(1.0, 2.0),)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_utility_of_torchs_that_cannot_work_names_nbgrads(name: str) -> None:
    with pytest.raises(
        TypeError, match=rf"^torch\.{name} works only on torch's own .*: for nbgrad's use nbgrad\.{name}"
    ):
        REFUSED[name]()
    ours: Any = nbgrad
    for part in name.split("."):
        ours = getattr(ours, part)
    assert callable(ours)


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated:FutureWarning")
@pytest.mark.parametrize("name", ["spectral_norm", "weight_norm"])
def test_an_older_function_of_torchs_names_the_present_one(name: str) -> None:
    with pytest.raises(
        TypeError, match=rf"^torch\.nn\.utils\.{name} works .* nbgrad\.nn\.utils\.parametrizations\.{name}"
    ):
        getattr(torch.nn.utils, name)(nn.Linear(2, 2))
    with pytest.raises(AttributeError, match=rf"use nbgrad\.nn\.utils\.parametrizations\.{name}"):
        getattr(nn.utils, name)
    assert callable(getattr(nn.utils.parametrizations, name))


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_torchs_backward_runs_ours_or_names_it(shape: tuple[int, ...]) -> None:
    t, torchs_alone = nbgrad.ones(shape, requires_grad=True), bool(lacks("autograd.backward"))
    named = pytest.raises(
        TypeError, match=r"^torch\.autograd\.backward works on torch's own .*: nbgrad\.autograd\.back"
    )
    with named if torchs_alone else nullcontext():
        torch.autograd.backward(t * 2)
    assert (t.grad is None) == torchs_alone


def test_a_second_gradient_is_not_checked_by_torch_either() -> None:
    with pytest.raises(TypeError, match=r"for nbgrad's use nbgrad\.autograd\.gradcheck"):
        torch.autograd.gradgradcheck(nbgrad.exp, (x(1.0, 2.0),))


def test_torchs_parameter_of_our_tensor_names_nbgrads() -> None:
    with pytest.raises(TypeError, match=r"nbgrad\.nn\.Parameter\(t\)"):
        torch.nn.Parameter(nbgrad.ones(2))
    assert not isinstance(nbgrad.ones(2), torch.nn.Parameter)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, t: Any) -> Any:
        ctx.save_for_backward(t)
        return t * t

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (t,) = ctx.saved_tensors
        return 2 * t * gradients[0]


class Captured(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Any, t: Any) -> Any:
        return run(t)


@pytest.mark.parametrize(
    ("run", "op"),
    [(lambda t, w: w * t, "mul"), (lambda t, w: w.detach(), "detach"), (lambda t, w: (w * 1).mul_(t), "mul")],
)
def test_a_captured_tensor_in_a_function_of_torchs_is_an_error_and_not_a_gradient_less(run: Any, op: str) -> None:
    w = x(1.0, 2.0)
    for given in (torch.ones(2), x(1.0, 2.0), nbgrad.ones(2)):
        with pytest.raises(
            RuntimeError, match=rf"^{op}_?\(\) inside a torch\.autograd\.Function.*nbgrad\.autograd\.Func"
        ):
            Captured.apply(lambda t: run(t, w), given)


def test_a_function_of_torchs_runs_on_what_needs_no_gradient() -> None:
    for given in (x(1.0, 2.0).detach(), nbgrad.tensor([1.0, 2.0])):
        assert Square.apply(given).tolist() == [1.0, 4.0]
    with nbgrad.no_grad():
        assert Square.apply(x(3.0)).tolist() == [9.0]


class Signs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, t: Any) -> Any:
        return (t > 0).sum() + t.argmax()


def test_a_function_of_torchs_may_ask_what_has_no_gradient_anyway() -> None:
    assert Signs.apply(x(1.0, 2.0, -1.0)).item() == 3


def test_no_grad_of_torchs_is_no_function() -> None:
    t = x(1.0, 2.0)
    for switch in (torch.no_grad(), torch.inference_mode(), torch.set_grad_enabled(False)):
        with switch:
            assert not (t * 2).requires_grad
            assert t.detach().tolist() == [1.0, 2.0]


@pytest.mark.filterwarnings("ignore:(None of the inputs|torch.utils.checkpoint)")
@pytest.mark.parametrize("given", [{"use_reentrant": True}, {}])
def test_torchs_reentrant_checkpoint_names_nbgrads(given: Any) -> None:
    """The checkpoint gets no nbgrad tensor, but it runs an nbgrad module."""
    for run in (lambda t: checkpoint(model(), t, **given), lambda t: checkpoint_sequential(model(), 2, t, **given)):
        with pytest.raises(RuntimeError, match=r"nbgrad\.checkpoint\(\.\.\.\), or pass use_reentrant=False"):
            run(torch.ones(3, 2))


def a_checkpoint_of_torchs(lib: Library) -> tuple[Any, ...]:
    t = lib.leaf(0.5, 2.0)
    checkpoint(lambda v: lib.ops.exp(v) * t, t, use_reentrant=False).sum().backward()
    return (t.grad,)


def set_and_forgotten(lib: Library) -> tuple[Any, ...]:
    t, raised = lib.leaf(-1.0, 4.0), []
    anomalies = lib.ops.autograd.set_detect_anomaly

    def raises() -> bool:
        try:
            lib.ops.sqrt(t).sum().backward()
        except RuntimeError:
            return True
        return False

    for mode in (True, False):
        anomalies(mode)
        raised.append(raises())
    with anomalies(True):
        raised.append(raises())
        with anomalies(False):
            raised.append(raises())
        raised.append(raises())
    return *raised, raises()


def of_before(lib: Library) -> tuple[Any, ...]:
    variable = lib.ops.autograd.Variable
    t = lib.constant(1.0, 2.0)
    seen, learned = variable(t), variable(t, requires_grad=True)
    t[0] = 5.0
    (learned * seen).sum().backward()
    known = isinstance(t, variable), isinstance(3, variable)
    return seen, seen.requires_grad, learned, learned.is_leaf, learned.grad, *known


def under_the_names_of_autograd(lib: Library) -> tuple[Any, ...]:
    found, autograd = [], lib.ops.autograd
    t = lib.leaf(0.5, 2.0)
    found += autograd.grad(t.exp().sum(), t)
    autograd.backward(t.exp().sum())
    with autograd.no_grad(), autograd.enable_grad():
        found.append((t * 2).requires_grad)
    with autograd.set_grad_enabled(False):
        found.append((t * 2).requires_grad)
    with autograd.inference_mode(), autograd.set_grad_enabled(False):
        found.append((t * 2).requires_grad)
    found.append(autograd.gradcheck(lib.ops.exp, (t,)))
    found.append(autograd.gradgradcheck(lib.ops.exp, (t,)))
    for settings in ({"vectorize": True}, {"strategy": "forward-mode", "vectorize": True}, {"strict": True}):
        found.append(autograd.functional.jacobian(lib.ops.exp, t, **settings))
    for settings in ({"vectorize": True}, {"outer_jacobian_strategy": "forward-mode", "vectorize": True}):
        found.append(autograd.functional.hessian(lambda v: lib.ops.exp(v).prod(), t, **settings))
    found += autograd.functional.vjp(lib.ops.exp, t, lib.constant(1.0, 2.0))
    return *found, t.grad


@pytest.mark.filterwarnings(
    "ignore:.*torch.jit.script:DeprecationWarning",
    "ignore:.*torch.jit.script:FutureWarning",  # from torch 2.14 on
    "ignore:Anomaly Detection has been enabled",
)
@pytest.mark.parametrize(
    "program",
    [a_checkpoint_of_torchs, of_before, under_the_names_of_autograd, set_and_forgotten],
    ids=lambda program: program.__name__,
)
def test_names_of_torchs_do_what_they_do_there(program: Any) -> None:
    agree(program)


def test_a_volatile_variable_is_an_ordinary_one() -> None:
    with pytest.warns(UserWarning, match=r"volatile has no effect: write .with nbgrad\.no_grad"):
        t = nbgrad.autograd.Variable(nbgrad.ones(2), requires_grad=True, volatile=True)
    assert (t * 2).requires_grad


def test_the_gradient_of_a_tensor_of_torchs_is_an_error_that_says_so() -> None:
    t = x(1.0)
    with pytest.raises(TypeError, match=r"input 0 is a torch\.FloatTensor, .* nbgrad\.tensor\(t, requires_grad=True\)"):
        nbgrad.grad(t * 2, torch.ones(2))
    with pytest.raises(RuntimeError, match="no output depends on input 0"):
        nbgrad.grad(t * 2, torch.ones(2, requires_grad=True))


def test_a_strategy_that_there_is_not_is_an_error() -> None:
    for run in (
        lambda: nbgrad.jacobian(nbgrad.exp, x(1.0), strategy="sideways"),
        lambda: nbgrad.hessian(nbgrad.sum, x(1.0), outer_jacobian_strategy="sideways"),
    ):
        with pytest.raises(AssertionError, match='"reverse-mode" or "forward-mode"'):
            run()


def test_what_is_in_autograd_is_what_nbgrad_has_of_that_name() -> None:
    for module in (nbgrad.autograd, nbgrad.amp):
        for name, value in vars(module).items():
            if not name.startswith("_") and hasattr(nbgrad, name) and name not in {"Tensor", "functional"}:
                assert getattr(nbgrad, name) is value


DISTRIBUTIONS: dict[str, Any] = {
    "Gamma": lambda p: torch.distributions.Gamma(p, p * 2, validate_args=False),
    "Beta": lambda p: torch.distributions.Beta(p, p * 2, validate_args=False),
    "Dirichlet": lambda p: torch.distributions.Dirichlet(p, validate_args=False),
    "StudentT": lambda p: torch.distributions.StudentT(p, validate_args=False),
    "Chi2": lambda p: torch.distributions.Chi2(p, validate_args=False),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_torchs_distributions_draw_numbers_that_move_with_our_parameters(name: str) -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        torch.manual_seed(0)
        p = lib.leaf(0.5, 2.0)
        drawn = DISTRIBUTIONS[name](p).rsample((3,))
        drawn.square().sum().backward()
        constant = DISTRIBUTIONS[name](p).sample()
        with lib.ops.no_grad():
            other = DISTRIBUTIONS[name](p).rsample()
        return drawn, p.grad, constant, constant.requires_grad, other, other.requires_grad

    agree(program)


def test_torchs_draws_are_found_by_their_hidden_names() -> None:
    p = x(0.5, 2.0)
    for draw in (torch._standard_gamma, torch._sample_dirichlet):
        drawn = draw(p)
        assert isinstance(drawn, nbgrad.Tensor)
        assert drawn.requires_grad
        with torch.no_grad():
            assert not draw(p).requires_grad


def test_torchs_sparse_products_take_ours() -> None:
    sparse = torch.tensor([[0, 1.0, 0], [2, 0, 0], [0, 0, 3.0]], dtype=torch.float64).to_sparse()

    def program(lib: Library) -> tuple[Any, ...]:
        y = lib.leaf([1.0, 2.0], [3.0, 4.0], [5.0, 6.0])
        found = torch.sparse.mm(sparse, y), torch.sparse.addmm(y, sparse, y, beta=0.5), lib.ops.spmm(sparse, y)
        sum(one.square().sum() for one in found).backward()
        return *found, y.grad

    agree(program)


@pytest.mark.parametrize(
    "name", ["uniform_", "normal_", "constant_", "kaiming_uniform_", "xavier_normal_", "orthogonal_"]
)
def test_torchs_initialisation_fills_ours(name: str) -> None:
    settings = {"val": 3.0} if name == "constant_" else {}
    found = []
    for lib in (nn, torch.nn):
        weight = lib.Linear(4, 3).weight
        torch.manual_seed(0)
        assert getattr(torch.nn.init, name)(weight, **settings) is weight
        found.append(weight.data)
    assert torch.equal(*found)


def test_a_thread_that_runs_no_more_than_reading_a_gradient_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: failed.append(repr(told.exc_value)))
    done, read = Event(), x(1.0)
    finalize(read, done.set)  # the thread drops its reference when it ends
    _thread.start_new_thread(getattr, (read, "grad"))
    del read
    assert done.wait(10)
    assert failed == []

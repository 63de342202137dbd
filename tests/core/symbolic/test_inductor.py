"""The backend "inductor": what it needs of torch's private ``compile_fx``, and that training is the same with it."""

from inspect import signature
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # from torch's compiler
    pytest.mark.once,
]

X, Y = torch.randn(16, 6), torch.randint(0, 3, (16,))


def has_compiler() -> bool:
    from torch._inductor import cpp_builder, exc

    try:
        cpp_builder.get_cpp_compiler()
    except exc.InvalidCxxCompiler:
        return False
    return True


needs_compiler = pytest.mark.skipif("not has_compiler()", reason="there is no C++ compiler")


def losses(kind: str, backend: str | None) -> list[float]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
    opt = nbgrad.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

    def loss(x: Any, y: Any) -> Any:
        return nn.functional.cross_entropy(net(x), y)

    run = nbgrad.compile(loss, backend=backend) if backend and kind == "loss" else loss

    def step(x: Any, y: Any) -> Any:
        found = run(x, y)
        found.backward()
        opt.step()
        opt.zero_grad()
        return found

    whole = nbgrad.compile(step, backend=backend) if backend and kind == "step" else step
    torch.manual_seed(1)
    found = []
    for number in range(6):
        opt.param_groups[0]["lr"] = 0.05 / (1 + number)
        found.append(float(whole(nbgrad.tensor(X), nbgrad.tensor(Y))))
    return [*found, *net[1].running_mean.data.tolist()]


@pytest.mark.rotated(6)
@needs_compiler
@pytest.mark.parametrize("kind", ["loss", "step"])
def test_training_is_the_same(kind: str) -> None:
    assert losses(kind, "inductor") == pytest.approx(losses(kind, None), rel=1e-4, abs=1e-6)


def test_compile_fx_takes_what_it_is_given() -> None:
    from torch._inductor.compile_fx import compile_fx

    names = list(signature(compile_fx).parameters)
    assert names[:2] == ["model_", "example_inputs_"]
    assert "config_patches" in names


def test_without_a_compiler_it_says_so() -> None:
    from torch._inductor import config, cpp_builder

    # torch's configuration hides for good what ``monkeypatch`` has put back.
    clear = getattr(cpp_builder.get_cpp_compiler, "cache_clear", lambda: None)
    clear()
    try:
        with (
            config.patch({"cpp.cxx": ("no-such-compiler",)}),
            pytest.raises(RuntimeError, match="needs a C\\+\\+ compiler, and none is found: install"),
        ):
            nbgrad.compile(lambda x: x * 2 + 1, backend="inductor")(nbgrad.tensor(X))
    finally:
        clear()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_graphs_are_refused_without_a_device() -> None:
    with pytest.raises(RuntimeError, match=r"there is no CUDA device\. Take backend='replay'"):
        nbgrad.compile(lambda x: x * 2 + 1, backend="cudagraph")(nbgrad.tensor(X))


def test_a_step_that_inductor_cannot_run_is_refused_by_name() -> None:
    lstm = nbgrad.nn.LSTM(4, 4)
    x = nbgrad.tensor(torch.randn(3, 2, 4))
    if not any("mkldnn" in str(step.function) for step in nbgrad.trace(lambda x: lstm(x)[0].sum(), x).grad().steps):
        pytest.skip("this processor has no recurrent kernel of oneDNN")
    run = nbgrad.compile(lambda x: nbgrad.grad(lstm(x)[0].sum(), list(lstm.parameters())), backend="inductor")
    with pytest.raises(RuntimeError, match=r"cannot run aten\.mkldnn_rnn_layer.*Take backend='replay'"):
        run(x)

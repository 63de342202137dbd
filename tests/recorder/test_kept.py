"""The bytes that a graph says its ops keep, against a counter that torch's own hooks feed."""

from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import nbgrad
from nbgrad.core.dispatch.samples import Sample
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.engine.kept import tensors_in
from tests.core.rows import reference, samples
from tests.kept_counter import counted

Program = Callable[[], tuple[nn.Module, Callable[[], Tensor]]]
"""Makes a module, and the function that computes a loss with it."""


def perceptron() -> tuple[nn.Module, Callable[[], Tensor]]:
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 4))
    x = torch.randn(16, 8)
    return net, lambda: torch.mean(net(x).pow(2))


def convolutions() -> tuple[nn.Module, Callable[[], Tensor]]:
    net = nn.Sequential(
        *(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Dropout2d(0.2)),
        *(nn.Flatten(), nn.Linear(8 * 49, 10)),
    )
    x = torch.randn(4, 3, 16, 16)
    return net, lambda: functional.cross_entropy(net(x), torch.arange(4))


def lstm() -> tuple[nn.Module, Callable[[], Tensor]]:
    net, x = nn.LSTM(8, 6, 2, dropout=0.2), torch.randn(5, 3, 8)
    return net, lambda: torch.sum(net(x)[0])


def gru() -> tuple[nn.Module, Callable[[], Tensor]]:
    net, x = nn.GRU(8, 6), torch.randn(5, 3, 8)
    return net, lambda: torch.sum(net(x)[0].pow(2))


def transformer() -> tuple[nn.Module, Callable[[], Tensor]]:
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
    x = torch.randn(3, 5, 8)
    return net, lambda: net(x).pow(2).sum()


def attention() -> tuple[nn.Module, Callable[[], Tensor]]:
    net, x = nn.Linear(8, 24), torch.randn(1, 3, 5, 8)
    return net, lambda: torch.sum(functional.scaled_dot_product_attention(*net(x).chunk(3, -1)))


def attention_weights() -> tuple[nn.Module, Callable[[], Tensor]]:
    net, x = nn.MultiheadAttention(8, 2), torch.randn(3, 5, 8)
    return net, lambda: net(x, x, x)[0].pow(2).sum()


def checkpointed() -> tuple[nn.Module, Callable[[], Tensor]]:
    net, x = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8)), torch.randn(16, 8)
    return net, lambda: torch.mean(checkpoint(net, x * 2, use_reentrant=False) ** 2)


def checkpointed_reentrantly() -> tuple[nn.Module, Callable[[], Tensor]]:
    net, x = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8)), torch.randn(16, 8)
    return net, lambda: torch.mean(checkpoint(net[1:], net[0](x), use_reentrant=True) ** 2)


class Cube(torch.autograd.Function):
    """A rule of the user's."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        square = x * x
        ctx.save_for_backward(x, square)
        return square * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:  # type: ignore[override]
        _, square = ctx.saved_tensors
        return 3 * square * g


def function() -> tuple[nn.Module, Callable[[], Tensor]]:
    net, x = nn.Linear(8, 8), torch.randn(16, 8)
    return net, lambda: torch.sum(Cube.apply(net(x)))


def in_place() -> tuple[nn.Module, Callable[[], Tensor]]:
    net, x = nn.Linear(8, 8), torch.randn(16, 8)
    return net, lambda: torch.sum((net(x).mul_(2).exp_() * 3).add_(1))


def views() -> tuple[nn.Module, Callable[[], Tensor]]:
    net, x = nn.Linear(8, 8), torch.randn(16, 8)
    return net, lambda: torch.sum(net(x)[:, :3].t() * net(x)[:, 3:6].t())


class Tied(nn.Module):
    """One weight embeds and decodes."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.decode = nn.Embedding(10, 8), nn.Linear(8, 10, bias=False)
        self.decode.weight = self.embed.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(torch.tanh(self.embed(x)))


def tied() -> tuple[nn.Module, Callable[[], Tensor]]:
    net, x = Tied(), torch.randint(0, 10, (4, 6))
    return net, lambda: functional.cross_entropy(net(x).flatten(0, 1), x.flatten())


def frozen() -> tuple[nn.Module, Callable[[], Tensor]]:
    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8).requires_grad_(False))
    x = torch.randn(16, 8)
    return net, lambda: torch.sum(net(x))


def half_precision() -> tuple[nn.Module, Callable[[], Tensor]]:
    net, x = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)), torch.randn(16, 8)

    def run() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return net(x).float().pow(2).sum()

    return net, run


PROGRAMS: list[Program] = [
    *(perceptron, convolutions, lstm, gru, transformer, attention, attention_weights, checkpointed, function, in_place),
    *(views, tied, frozen, half_precision, checkpointed_reentrantly),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_graph_says_what_torch_keeps(program: Program) -> None:
    torch.manual_seed(0)
    net, run = program()
    torch.manual_seed(1)
    wanted = counted(run, net.parameters())
    torch.manual_seed(1)
    with nbgrad.record(view="none") as graph:
        loss = run()
        before = graph.memory
        loss.backward()
    assert graph.fault is None
    assert wanted > 0
    for memory in (before, graph.memory):
        assert memory.whole
        assert memory.total - memory.aside == wanted


def computed(row: Any, sample: Sample) -> Tensor:
    """The sum of what torch's function for a row gives for tensors that ops have made."""
    args = [
        one.detach().requires_grad_() * 1 if isinstance(one, Tensor) and one.dtype.is_floating_point else one
        for one in sample.args
    ]
    result = reference(row)(*args, **sample.settings)
    results = [one for one in tensors_in(result) if one.requires_grad]
    if not results:
        raise TypeError("nothing here has a gradient")
    return torch.stack([one.abs().sum() if one.is_complex() else one.sum().double() for one in results]).sum()


ROWS = sorted(
    row.name for row in OPS.values() if row.rules and row.samples is not None and not row.name.endswith("_backward")
)


@pytest.mark.parametrize("name", ROWS)
def test_a_row_keeps_in_a_graph_what_torch_keeps(name: str) -> None:
    row = OPS[name]
    compared = 0
    for sample in islice(samples(row), 3):
        try:
            torch.manual_seed(1)
            wanted = counted(lambda sample=sample: computed(row, sample), ())
        except (TypeError, RuntimeError, AttributeError, ValueError, NotImplementedError, IndexError):
            continue  # torch has no function of this form
        torch.manual_seed(1)
        with nbgrad.record(view="none") as graph:
            loss = computed(row, sample)
            with suppress(NotImplementedError):  # torch has no gradient of igamma for its first argument
                loss.backward()
        assert graph.fault is None
        memory = graph.memory
        compared += 1
        if memory.whole:
            assert memory.total == wanted, sample
        else:
            assert memory.total <= wanted, sample
    if not compared:
        pytest.skip("torch has no function with a gradient for these samples")


def test_a_change_in_place_of_a_view_is_said_to_be_unknown() -> None:
    net, x = nn.Linear(8, 8), torch.randn(16, 8)
    with nbgrad.record(view="none") as graph:
        made = torch.zeros(16, 8)
        made[0].mul_(net(x)[0])
        made.pow(2).sum().backward()
    assert not graph.memory.whole


def test_a_change_in_place_of_a_view_that_keeps_nothing_hides_nothing() -> None:
    net, x = nn.Linear(8, 8), torch.randn(16, 8)

    def run() -> Tensor:
        made = torch.zeros(16, 8)
        made[2:5] = net(x)[:3]
        made[0].add_(net(x)[0])
        return made.pow(2).sum()

    with nbgrad.record(view="none") as graph:
        run().backward()
    assert graph.memory.whole
    assert graph.memory.total == counted(run, net.parameters())


def test_no_hook_of_the_users_is_called() -> None:
    x = torch.randn(4, 4, requires_grad=True)
    calls: list[str] = []

    def pack(tensor: Tensor) -> tuple[str, Tensor]:
        calls.append("pack")
        return "half", tensor.half()

    def unpack(packed: tuple[str, Tensor]) -> Tensor:
        calls.append("unpack")
        return packed[1].float()

    with nbgrad.record(view="none") as graph:
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            loss = (x * 2).exp().sum()
        before = graph.memory.total
        assert calls == ["pack"]
        loss.backward()
    assert calls == ["pack", "unpack"]
    assert before == graph.memory.total == 32  # what the hook has put in its place


def test_attributes_of_a_context_are_counted_aside() -> None:
    class Mask(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.mask = x > 0
            return x * ctx.mask

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:  # type: ignore[override]
            return g * ctx.mask

    x = torch.randn(100, requires_grad=True)
    with nbgrad.record(view="none") as graph:
        Mask.apply(x * 2).sum().backward()
    assert graph.memory.total == graph.memory.aside == 100


def test_a_context_that_holds_a_list_of_itself_is_read_once() -> None:
    class Around(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.parts = [x.detach() * 2]
            ctx.parts.append(ctx.parts)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:  # type: ignore[override]
            return g * 2

    x = torch.randn(100, requires_grad=True)
    with nbgrad.record(view="none") as graph:
        Around.apply(x * 2).sum().backward()
    assert graph.memory.total == 400


def test_a_loop_reads_few_backwards_and_knows_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)), torch.randn(16, 8)
    monkeypatch.setattr("nbgrad.core.graph.kept_storages._SHARE", 1e9)
    numbers: list[int] = []
    with nbgrad.record(view="none", every=1) as graph:
        monkeypatch.setattr(graph.listener.kept, "take", _noting(graph.listener.kept.take, numbers))
        for number in range(1, 21):
            net(x[: 7 if number == 20 else 16]).pow(2).mean().backward()
    assert numbers == [1, 2, 20]  # the first step meets the parameters; the last batch is smaller
    assert graph.memory.total == counted(lambda: net(x[:7]).pow(2).mean(), net.parameters())


def _noting(take: Callable[[Any], None], numbers: list[int]) -> Callable[[Any], None]:
    def noting(kept: Any) -> None:
        numbers.append(kept.number)
        take(kept)

    return noting


def test_what_another_backward_keeps_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbgrad.core.graph.kept_storages._SHARE", 1e9)
    monkeypatch.setattr("nbgrad.core.graph.kept_storages._FORMS", 1)
    x = torch.randn(4, requires_grad=True)
    with nbgrad.record(view="none") as graph:
        x.exp().sum().backward()
        (x * x).sin().sum().backward()
    with pytest.raises(RuntimeError, match="does not know what its ops kept"):
        graph.memory.total  # noqa: B018


def test_the_own_ops_say_what_they_hold() -> None:
    net = nbgrad.nn.Sequential(nbgrad.nn.Linear(8, 32), nbgrad.nn.Tanh(), nbgrad.nn.Linear(32, 4))
    x = nbgrad.randn(16, 8)
    with nbgrad.record(view="none") as graph:
        loss = (net(x) ** 2).mean()
        before = graph.memory
        loss.backward()
    # The batch, the result of tanh, which the second layer uses too, and the result of that.
    assert before.total == graph.memory.total == 16 * 8 * 4 + 16 * 32 * 4 + 16 * 4 * 4


def test_an_own_checkpoint_holds_its_arguments_alone() -> None:
    net = nbgrad.nn.Sequential(nbgrad.nn.Linear(8, 32), nbgrad.nn.Tanh(), nbgrad.nn.Linear(32, 4))
    x = nbgrad.randn(16, 8)
    with nbgrad.record(view="none") as graph:
        nbgrad.checkpoint(net, x).sum().backward()
    assert graph.memory.total == 16 * 8 * 4

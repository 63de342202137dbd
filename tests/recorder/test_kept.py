"""The bytes that a graph says its ops keep, against a counter that torch's own hooks feed."""

from collections.abc import Callable
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
            continue  # torch has no function of this form, or no gradient of it, as of igamma for its first argument
        torch.manual_seed(1)
        with nbgrad.record(view="none") as graph:
            loss = computed(row, sample)
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


def gated(x: Tensor) -> Tensor:
    """Products that torch can compile together."""
    return (x * x).tanh() * x.exp()


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_what_a_compiled_part_keeps_is_said_to_be_unknown() -> None:
    """Its node has no class in Python, and shows nothing, like that of a ``Function`` in C++."""
    net, x, scripted = nn.Linear(8, 8), torch.randn(16, 8), torch.jit.script(gated)

    def run() -> Tensor:
        return torch.sum(scripted(net(x)).exp())

    for _ in range(2):  # then torch compiles it
        run().backward()
    wanted = counted(run, net.parameters())
    with nbgrad.record(view="none") as graph:
        run().backward()
    assert [record.kind_or_op for record in graph.records if record.id in graph.memory.kept.hidden] == [
        "DifferentiableGraph"
    ]
    assert not graph.memory.whole
    assert 2 * 16 * 8 * 4 == graph.memory.total < wanted


@torch.library.custom_op("nbgrad_tests::wave", mutates_args=())
def wave(x: Tensor) -> Tensor:
    """A custom op, whose gradient is written in Python."""
    return torch.sin(x)


wave.register_autograd(
    lambda ctx, g: g * torch.cos(ctx.saved_tensors[0]),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)


@pytest.mark.parametrize("function", [Cube.apply, wave], ids=["function", "custom op"])
def test_a_function_of_torchs_keeps_for_own_tensors_what_it_keeps_for_torchs(function: Callable[..., Any]) -> None:
    data = torch.randn(100)
    theirs = data.clone().requires_grad_()
    wanted = counted(lambda: function(theirs * 1).sum(), ())
    ours = nbgrad.tensor(data, requires_grad=True)
    with nbgrad.record(view="none") as graph:
        function(ours * 1).sum().backward()
    assert graph.memory.total == wanted > 0
    made = {record.id: record.kind_or_op for record in graph.records}
    assert made[graph.memory.storages[0].maker or 0] == "mul"  # the argument


def test_a_part_in_torch_keeps_before_own_ops_what_torch_keeps() -> None:
    net, x = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4)), torch.randn(16, 8)
    wanted = counted(lambda: net(x).exp().sum(), net.parameters())
    ours = nbgrad.nn.Identity()
    with nbgrad.record(view="none") as graph:
        (ours(net(x)) * nbgrad.ones(4)).exp().sum().backward()
    assert graph.memory.total == wanted + 16


def test_what_no_backward_reaches_is_not_counted() -> None:
    """A cache of the program may hold a result, and so what its ops keep: as one loss of two does."""
    net, x = nn.Linear(8, 8), torch.randn(16, 8)
    cache: list[Tensor] = []

    def run() -> Tensor:
        made = net(x)
        cache.append(made.exp())
        return made.tanh().sum()

    with nbgrad.record(view="none") as graph:
        run().backward()
    assert graph.memory.total == counted(run, net.parameters()) == 16 * 8 * 4 * 2


def test_the_count_does_not_take_an_activation_for_a_parameter_that_is_gone() -> None:
    """Offloading replaces the parameters while the forward runs: other tensors get the addresses of the old ones."""
    net, x = nn.Sequential(nn.Linear(8, 8), nn.Tanh()), torch.randn(16, 8)

    def run() -> Tensor:
        for name, one in list(net[0].named_parameters()):
            setattr(net[0], name, nn.Parameter(one.detach().clone()))
        return torch.stack([net(x).exp() for _ in range(8)]).sum()

    assert counted(run, net.parameters()) == 16 * 8 * 4 * (1 + 8 * 2)


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

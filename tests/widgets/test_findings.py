"""``AutogradGraph.findings()`` is all that the list of findings in a picture says, as data."""

import linecache
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError
from itertools import count
from math import inf
from typing import Any, TypeVar, get_args

import pytest
import torch

import nbgrad
from nbgrad import nn, optim
from nbgrad.choices import KINDS, SEVERITIES, UNSILENCED, ErrorKind, FindingKind, WarningKind
from nbgrad.core.graph.finding import Finding
from nbgrad.nn.functional import cross_entropy, mse_loss
from nbgrad.widgets.describe import describe
from tests.doctor.benchmark import HALVES, programs
from tests.doctor.program import Program
from tests.drawing.programs import shared
from tests.drawing.small_engine import SmallEngine

_T = TypeVar("_T")

ROWS = torch.ones(16, 4)

_ALIVE: list[Any] = []
"""The modules, optimizers and leaves of a scene. They stay alive here: a graph judges only those that still exist."""


@pytest.fixture(autouse=True)
def _alive() -> Iterator[None]:
    yield
    _ALIVE.clear()


def kept(one: _T) -> _T:
    _ALIVE.append(one)
    return one


class Plain(nn.Module):
    """A module with a layer in a plain Python list."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.layers = nn.Linear(4, 4), [nn.Linear(4, 1)]

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        made: nbgrad.Tensor = self.layers[0](self.first(x))
        return made


def loop(
    net: nn.Module,
    *,
    lr: float = 0.1,
    steps: int = 5,
    clears: bool = True,
    steps_at_all: bool = True,
    held: list[nn.Parameter] | None = None,
) -> nbgrad.AutogradGraph:
    """The graph of a loop of training on rows of ones."""
    optimizer = kept(optim.SGD(held or list(kept(net).parameters()), lr=lr))
    with nbgrad.AutogradGraph() as graph:
        for _ in range(steps):
            if clears:
                optimizer.zero_grad()
            (net(nbgrad.tensor(ROWS)) - 1).square().mean().backward()
            if steps_at_all:
                optimizer.step()
    return graph


def once(run: Callable[[], nbgrad.Tensor]) -> nbgrad.AutogradGraph:
    """The graph of ``run`` and of the backward of its sum."""
    with nbgrad.AutogradGraph() as graph:
        run().sum().backward()
    return graph


def leaf(*numbers: float) -> nbgrad.Tensor:
    return nbgrad.tensor(numbers, requires_grad=True)


def mlp() -> nn.Sequential:
    nbgrad.manual_seed(0)
    return kept(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)))


def broken(run: Callable[[], object]) -> nbgrad.AutogradGraph:
    """The graph of a cell. ``run`` ends the cell with an error."""
    with nbgrad.AutogradGraph() as graph:
        try:
            run()
        except RuntimeError as error:
            graph.raised(error)
    assert graph.ending is not None
    return graph


def changed_in_place() -> None:
    x = leaf(1.0, 2.0)
    y = x.exp()
    z = y * y
    y.add_(1.0)
    z.sum().backward()


def unfit() -> None:
    leaf(1.0, 2.0) * leaf(1.0, 2.0, 3.0)


def stops() -> None:
    leaf(1.0).exp()
    raise RuntimeError("no data")


def cut_off() -> nbgrad.AutogradGraph:
    used, aside = kept(leaf(1.0)), kept(leaf(2.0))
    with nbgrad.AutogradGraph() as graph:
        (used * 3 + (aside * 2).detach()).backward(torch.ones(1))
    return graph


def dead() -> nn.Sequential:
    net = kept(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))
    net[0].bias.data.fill_(-100)
    return net


def sized(*scales: float) -> nbgrad.AutogradGraph:
    """Layers beside each other, whose gradients have these sizes."""
    layers = [nn.Linear(2, 2) for _ in scales]
    return once(lambda: sum((layer(nbgrad.ones(1, 2)) * by).sum() for layer, by in zip(layers, scales, strict=True)))


def idle() -> nbgrad.AutogradGraph:
    net = mlp()
    optimizer = kept(optim.SGD(net.parameters(), lr=0.1))
    with nbgrad.AutogradGraph() as graph:
        for _ in range(2):
            net(nbgrad.tensor(ROWS)).sum().backward()
            optimizer.zero_grad()
            optimizer.step()
    return graph


def clipped_early() -> nbgrad.AutogradGraph:
    net = mlp()
    optimizer, scaler = optim.SGD(net.parameters(), lr=0.1), nbgrad.amp.GradScaler("cpu")
    with nbgrad.AutogradGraph() as graph:
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale((net(nbgrad.tensor(ROWS)) - 1).square().mean()).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
    return graph


def evaluated() -> nbgrad.AutogradGraph:
    return loop(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)).eval(), steps=2, lr=1e-3)


def unpaired() -> nbgrad.AutogradGraph:
    with pytest.warns(UserWarning, match="broadcast"):
        return once(lambda: mse_loss(leaf(1.0, 2.0, 3.0).unsqueeze(1), nbgrad.ones(3)))


def held_in_part() -> nbgrad.AutogradGraph:
    net = mlp()
    return loop(net, held=list(net[0].parameters()))


def spoiled() -> nbgrad.AutogradGraph:
    """A loop whose third loss is NaN."""
    net, step = mlp(), count()
    optimizer = kept(optim.SGD(net.parameters(), lr=0.1))
    with nbgrad.AutogradGraph() as graph:
        for _ in range(5):
            optimizer.zero_grad()
            (net(nbgrad.tensor(ROWS)) * (float("nan") if next(step) == 2 else 1.0)).mean().backward()
            optimizer.step()
    return graph


def scored() -> nbgrad.AutogradGraph:
    net = nn.Linear(4, 3)
    return once(lambda: cross_entropy(net(nbgrad.tensor(ROWS)).softmax(1), torch.zeros(16, dtype=torch.int64)))


def through_numpy() -> nbgrad.AutogradGraph:
    w = leaf(1.0, 2.0)
    with nbgrad.AutogradGraph() as graph:
        (nbgrad.tensor(w.detach().numpy() * 2) * w).sum().backward()
    return graph


def another_engine() -> nbgrad.AutogradGraph:
    engine = SmallEngine().broken(accumulate=lambda held, g: g)
    root = shared(engine)
    engine.go(root)
    return nbgrad.draw(root, against=True)


SCENES: dict[str, tuple[FindingKind, Callable[[], nbgrad.AutogradGraph]]] = {
    "an op that raised": ("failed", lambda: broken(unfit)),
    "a cell that raised": ("failed", lambda: broken(stops)),
    "a change in place": ("inplace", lambda: broken(changed_in_place)),
    "a NaN of the forward": ("nan", lambda: once(lambda: leaf(1.0, -1.0).log())),
    "an Inf of the backward": ("nan", lambda: once(lambda: leaf(0.0, 1.0).sqrt())),
    "an Inf in a leaf": ("nan", lambda: once(lambda: leaf(inf) * 2)),
    "a NaN since an earlier step": ("nan", spoiled),
    "a path that is cut off": ("unreached", cut_off),
    "a slope of 0": ("zero gradient", lambda: once(lambda: leaf(1.0, 2.0).round() - 1)),
    "a small module": ("vanishing", lambda: sized(1e-6, 1, 1, 1)),
    "a large module": ("exploding", lambda: sized(1e6, 1, 1, 1)),
    "a dead activation": ("saturated", lambda: once(lambda: dead()(nbgrad.tensor(ROWS)))),
    "a rate that is too large": ("divergence", lambda: loop(nn.Linear(4, 1), lr=2.0, steps=12)),
    "gradients of all steps": ("accumulated gradients", lambda: loop(mlp(), clears=False, lr=1e-3)),
    "a parameter that is not held": ("no optimizer", held_in_part),
    "a step that is forgotten": ("no step", lambda: loop(mlp(), steps_at_all=False)),
    "a step without gradients": ("idle step", idle),
    "a rate of 0": ("no change", lambda: loop(mlp(), lr=0.0)),
    "a rate that is too small": ("no change", lambda: loop(mlp(), lr=1e-12)),
    "a clip before unscale_": ("early call", clipped_early),
    "probabilities for scores": ("loss input", scored),
    "a model in eval mode": ("eval mode", evaluated),
    "numbers through numpy": ("through numpy", through_numpy),
    "another engine with a wrong number": ("wrong number", another_engine),
    "a layer in a list": ("unregistered", lambda: once(lambda: kept(Plain())(nbgrad.tensor(ROWS)))),
    "shapes that do not pair": ("broadcast", unpaired),
}


@pytest.mark.parametrize("name", SCENES)
def test_the_findings_are_the_list_of_the_picture(name: str) -> None:
    kind, make = SCENES[name]
    graph = make()
    found = graph.findings()
    assert kind in [one.kind for one in found]

    described = describe(graph)
    listed = [problem["text"] for problem in described["problems"]]
    listed += [verdict["text"] for verdict in described["verdicts"] if verdict["kind"] != "sound"]
    assert [one.text for one in found] == listed
    assert graph.findings() == found, "to ask changes nothing"

    node = dict(zip([record.id for record in graph.records], described["nodes"], strict=False))
    for one, problem in zip(found, described["problems"], strict=False):
        at = node.get(one.id or 0)
        assert at is None or at["id"] == problem["node"], "both are at one place"
        assert at is not None or one.id is None


OURS = {
    "import torch.nn.functional as F": "from nbgrad.nn import functional as F",
    "from torch.nn import functional as F": "from nbgrad.nn import functional as F",
    "import torch.nn as nn": "from nbgrad import nn",
    "import torch.optim as optim": "from nbgrad import optim",
    "from torch import nn": "from nbgrad import nn",
    "import torch\n": "import nbgrad as torch\n",
}
"""The imports of a program of torch's, and those that make it a program of nbgrad's own classes."""


def faulty(program: str, fault: str, library: str) -> nbgrad.AutogradGraph:
    """The graph of the loop of a program of the benchmark, with the fault whose name ends like this."""
    made = next(one for one in programs("tuned") if one.name == program)
    made = made.edited(next(one for one in made.faults if one.name.endswith(fault)))
    (setup, _), (loop, _) = made.cells("loop")
    for theirs, ours in OURS.items() if library == "nbgrad" else ():
        setup = setup.replace(theirs, ours)
    space: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of a fault or two, too
        exec(setup, space)
        linecache.cache["<loop>"] = (len(loop), None, loop.splitlines(True), "<loop>")  # as of a cell
        with nbgrad.AutogradGraph() as graph:
            exec(compile(loop, "<loop>", "exec"), space)
    return graph


FAULTS: list[tuple[FindingKind, str, str]] = [
    ("output range", "mlp classifier", "relu before cross_entropy"),
    ("target", "student and averaged teacher", "label smoothing of 1"),
    ("sign", "mlp classifier", "loss is maximised"),
    ("no activation", "mlp classifier", "no activation between the layers"),
    ("layer setting", "spiral with a data loader", "dropout of 0.95"),
    ("initialization", "stripes with a small conv net", "weights of deviation 100"),
    ("attention", "tiny gpt", "softmax over the queries"),
    ("input scale", "house prices", "prices in thousands"),
    ("data", "mlp classifier", "all rows are the mean row"),
    ("small steps", "mlp classifier", "rate of 1e-7"),
    ("large steps", "mlp classifier", "rate of 5"),
    ("no progress", "two views InfoNCE", "temperature upside down"),
    ("regularization", "mlp classifier", "penalty of 10 on all weights"),
    ("accumulation", "accumulation of four batches", "not divided"),
    ("kept graphs", "house prices", "graph is kept in a list"),
    ("frozen but changing", "a new head on a pretrained net", "statistics of the frozen stem change"),
    ("frozen", "text classifier", "from_pretrained freezes"),
    ("wrong dimension", "text classifier", "mean over the batch"),
    ("custom function", "own linear function", "backward returns None for the weight"),
    ("checkpoint", "low rank adapters in a checkpoint", "reentrant checkpoint of frozen inputs"),
    ("wrong dimension", "tiny gpt", "heads by view without transpose"),
    ("wrong dimension", "stripes with a small conv net", "are mixed before the linear layer"),
    ("wrong dimension", "embeddings of pairs", "normalised over the batch"),
    ("wrong dimension", "spirals by hand", "softmax over the batch"),
    ("broadcast", "set classifier with MultiheadAttention", "logits against a column"),
    ("target", "stripes with a small conv net", "trained with class numbers and mse"),
    ("unreached", "variational autoencoder", "the divergence is not in the loss"),
    ("unreached", "recurrence by hand over fifty steps", "state is detached at each time"),
    ("accumulated gradients", "linear regression by hand", "gradients are not zeroed"),
    ("accumulated gradients", "gan of a ring", "keeps the gradient of the generator's loss"),
    ("output range", "variational autoencoder", "relu before binary_cross_entropy"),
    ("output range", "movie genres", "softmax for several labels"),
    ("no step", "spirals by hand", "update binds a new tensor"),
    ("loss input", "digit templates", "nll of raw scores"),
    ("loss input", "signal REINFORCE", "probabilities as logits"),
    ("sign", "review sentiment", "sign of the likelihood"),
    ("idle step", "corridor DQN", "optimizer of the target network"),
    ("initialization", "low rank adapters", "both factors zero"),
    ("custom function", "own linear function", "swapped gradients"),
    ("custom function", "box detector", "backward returns None"),
    ("accumulated gradients", "clipped accumulation", "never cleared"),
    ("zero gradient", "autoencoder with a normal latent", "sample() beside a divergence"),
    ("attention", "padded words in an encoder", "padding mask is inverted"),
    ("attention", "padded words in an encoder", "mean of the padding"),
    ("layer setting", "padded words in an encoder", "dropout of 0.9 in the encoder layer"),
    ("loss input", "padded words in an encoder", "one unit for two classes"),
    ("sign", "network of two matrices", "gradient is added"),
    ("sign", "network of two matrices", "added by add_"),
    ("unreached", "sums with a cell", "state goes through numpy"),
    ("eval mode", "age and mood from one body", "body in eval mode beside heads that train"),
    ("no step", "tags of packed sentences", "step of the tagger is not called"),
    ("early call", "gradients of four batches in half precision", "rate falls with each small batch"),
    ("no progress", "passengers of a ship", "betas of adam are swapped"),
    ("no progress", "skin spots with the channels last", "a new net in each step"),
    ("target", "pairs of signatures and their angle", "forged pairs are labelled 0"),
    ("attention", "two experts and a gate", "gate chooses among the rows"),
    ("attention", "dates with teacher forcing", "attention over the sentences of the batch"),
    ("unreached", "soft labels of a big net", "student's logits are detached for the divergence"),
    ("accumulated gradients", "film ratings by factors", "old gradients stay in the factors"),
    ("sign", "film ratings by factors", "factors climb"),
    ("sign", "waiting times by quantiles", "smaller branch of the pinball"),
    ("sign", "songs by pairs of preferences", "likes and dislikes are minimised alike"),
    ("sign", "clipped policy of a lander", "surrogate is minimised"),
    ("large steps", "rents with embeddings of categories", "rate of one half with adam"),
    ("input scale", "rents with embeddings of categories", "raw square metres and years"),
    ("loss input", "speech aligned by ctc", "ctc of probabilities"),
]
"""The kind of a finding, and the program and the fault that have it."""


TORCHS = ("custom function", "checkpoint")
"""The kinds of faults that only torch's own ``Function`` and checkpoint have."""

OF_TORCH = (
    "forged pairs are labelled 0",
    "student's logits are detached for the divergence",
    "factors climb",
    "old gradients stay in the factors",
)
"""Faults of programs that are no programs of nbgrad's classes: generators, and a loss that nbgrad composes of ops."""


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("kind", "program", "fault", "library"),
    [
        (*one, library)
        for one in FAULTS
        for library in ("torch", "nbgrad")
        if library == "torch" or not (one[0] in TORCHS or one[2] in OF_TORCH)
    ],
)
def test_a_published_fault_has_a_finding_of_its_kind_with_a_remedy(
    kind: FindingKind, program: str, fault: str, library: str
) -> None:
    found = [one for one in faulty(program, fault, library).findings() if one.kind == kind]
    assert found
    assert all(one.remedy for one in found)
    assert all(one.place is not None for one in found), "a finding of a loop has a line"


EARLY = [
    (program.name, fault.name)
    for program in programs("tuned")
    for fault in program.faults
    if fault.cause == "early call"
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("program", "fault"), EARLY)
def test_the_remedy_of_a_call_in_the_wrong_place_says_what_to_call(program: str, fault: str) -> None:
    (one, *_) = [one for one in faulty(program, fault, "torch").findings() if one.kind in ("early call", "idle step")]
    assert one.remedy is not None
    assert one.remedy.lower().startswith("call ")


@pytest.mark.sampled(24)
@pytest.mark.parametrize(
    ("half", "program"),
    [(half, one) for half in HALVES for one in programs(half)],
    ids=lambda one: getattr(one, "name", one),
)
def test_a_sound_program_has_no_finding(half: str, program: Program) -> None:
    (setup, _), (loop, _) = program.cells("loop")
    space: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(setup, space)
        with nbgrad.AutogradGraph() as graph:
            exec(loop, space)
    assert graph.findings() == [], half


EXTRA = {
    "read after the step": ("extra = (scores - y).abs().mean()", "total += extra.item()", False),
    "used after the step": ("extra = (scores - y).abs().mean()", "total += (2 * extra).detach()", False),
    "read in some steps": ("extra = (scores - y).abs().mean()", "total += extra.item() if step == 1 else 0", False),
    "read in a round that is not recorded": (
        "extra = (scores - y).abs().mean()",
        "total += extra.item() if step % 8 == 7 else 0",
        False,
    ),
    "bound again": ("extra = (scores - y).abs().mean(); extra = 0", "total += extra if step % 8 == 7 else 0", True),
    "always loaded, never read": ("extra = (scores - y).abs().mean()", "known = extra", True),
    "a copy of the loss": ("extra = loss.clone()", "pass", False),
    "a copy of a term": ("extra = term.reshape(1)", "pass", False),
    "computed from the loss alone": ("extra = (2 * loss).exp()", "pass", False),
    "a sum with the loss": ("extra = loss + net.weight.abs().mean()", "pass", True),
    "a multiple of a term": ("extra = 0.1 * term", "pass", True),
    "another term": ("extra = (scores - y).abs().mean()", "pass", True),
    "of a function that also makes a term": ("extra = size(net.bias)", "pass", True),
}
"""A number beside the loss, what is done with it after the step, and whether it is said to be a missing term."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("settings", [{}, {"every": 1}, {"every": 5}], ids=str)
@pytest.mark.parametrize("lib", [nbgrad, torch], ids=["own", "torch"])
@pytest.mark.parametrize("name", EXTRA)
def test_a_number_that_is_no_missing_term_is_not_accused(lib: Any, name: str, settings: dict[str, Any]) -> None:
    made, after, accused = EXTRA[name]
    lib.manual_seed(0)
    net, x, y = lib.nn.Linear(4, 2), lib.randn(8, 4), lib.randn(8, 2)
    space = {"net": net, "x": x, "y": y, "optimizer": lib.optim.SGD(net.parameters(), 0.01), "total": 0}
    program = f"""
def size(weight):
    return weight.square().sum()
for step in range(12):
    scores = net(x)
    term = size(net.weight)
    loss = (scores - y).square().mean() + term
    {made}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {after}
"""
    with nbgrad.record(view="none", **settings) as graph:
        exec(program, space)
    assert [one.kind for one in graph.findings()] == ["unreached"] * accused


@pytest.mark.parametrize(("name", "accused"), [("visit_counts", False), ("image_kinds", True), ("stage", True)])
def test_whole_numbers_with_an_order_in_their_name_are_no_classes(name: str, accused: bool) -> None:
    space: dict[str, Any] = {"net": mlp(), "rows": nbgrad.randn(64, 4), "loss": mse_loss}
    space[name] = torch.arange(4).repeat(16).float().unsqueeze(1)
    with nbgrad.AutogradGraph() as graph:
        exec(f"loss(net(rows), {name}).backward()", space)
    assert [one.kind for one in graph.findings() if one.kind == "target"] == ["target"] * accused


def test_every_kind_has_a_scene() -> None:
    # test_guard.py has a scene in which a rule fails
    assert {kind for kind, _ in SCENES.values()} | {kind for kind, *_ in FAULTS} == set(KINDS) - {"failed rule"}


def test_every_kind_has_one_severity() -> None:
    errors, warnings = get_args(ErrorKind), get_args(WarningKind)
    assert sorted({*errors, *warnings}) == sorted([*errors, *warnings]) == sorted(KINDS)
    for kinds, severity in ((errors, "error"), (warnings, "warning")):
        assert {Finding(kind, "").severity for kind in kinds} == {severity}
    assert {*UNSILENCED} <= {*errors}
    assert Finding("a kind of one's own", "").severity == "warning"


def test_an_error_reaches_both_severities() -> None:
    error, warning = Finding("nan", ""), Finding("vanishing", "")
    assert [error.reaches(one) for one in SEVERITIES] == [True, True]
    assert [warning.reaches(one) for one in SEVERITIES] == [False, True]


def test_a_finding_says_where_it_is_and_what_to_do() -> None:
    net = dead()
    graph = once(lambda: net(nbgrad.tensor(ROWS)))
    one, module = graph.findings()
    assert (module.kind, module.scope, module.id) == ("zero gradient", ("Sequential", "0 (Linear)"), None)
    assert module.tensors == ("0.weight (8, 4)", "0.bias (8,)")
    assert (one.kind, one.severity) == ("saturated", "warning")
    assert one.remedy == "Try a smaller learning rate, another initialisation, or leaky_relu."
    assert str(one) == one.text
    assert one.remedy is not None
    assert one.text.endswith(one.remedy)
    (record,) = [record for record in graph.records if record.id == one.id]
    assert record.op is not None
    assert record.op.name == "relu"
    assert one.scope == ("Sequential", "1 (ReLU)")
    assert one.place is not None
    with pytest.raises(FrozenInstanceError):
        one.text = ""  # type: ignore[misc]  # what is tried

    (missing,) = cut_off().findings()
    assert missing.tensors == ("aside (1,)",)
    assert missing.remedy == "Leave that out if it is to learn"
    assert missing.place is not None
    assert missing.place.text.startswith("(used * 3 + (aside * 2).detach())")

    found = held_in_part().findings()
    assert [one.tensors for one in found] == [("2.weight (1, 8)", "2.bias (1,)")]
    assert {one.scope for one in found} == {("Sequential", "2 (Linear)")}

    (nan,) = SCENES["a NaN of the forward"][1]().findings()
    assert nan.severity == "error"


def test_many_of_a_kind_are_one_finding_with_all_tensors() -> None:
    net = nn.Sequential(*[nn.Linear(2, 2, bias=False) for _ in range(30)])
    optimizer = optim.SGD(net[0].parameters(), lr=0.1)
    with nbgrad.AutogradGraph() as graph:
        net(nbgrad.ones(4, 2)).sum().backward()
        optimizer.step()
    found = [one for one in graph.findings() if one.kind == "no optimizer"]
    assert [len(one.tensors) for one in found] == [29]


def test_a_remedy_is_a_part_of_the_text() -> None:
    with pytest.raises(ValueError, match="no part of the text"):
        Finding("nan", "a NaN", "do something")


def test_a_healthy_graph_has_none_and_an_open_one_can_be_asked() -> None:
    with nbgrad.AutogradGraph() as graph:
        assert graph.findings() == []
        (leaf(1.0, 2.0) * 3).sum().backward()
        assert graph.findings() == []
        leaf(1.0, -1.0).log().sum().backward()
        assert [one.kind for one in graph.findings()] == ["nan"]


@pytest.mark.rotated(3)
@pytest.mark.once
def test_no_notebook_is_needed() -> None:
    code = """
import sys
for name in ("IPython", "ipywidgets", "anywidget", "traitlets", "graphviz", "wasmtime"):
    sys.modules[name] = None
import nbgrad
x = nbgrad.tensor([1.0, -1.0], requires_grad=True)
with nbgrad.AutogradGraph() as graph:
    x.log().sum().backward()
print(*graph.findings(), sep="\\n")
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("NaN begins here, in the forward of log: log of a negative number")


def test_a_loss_that_is_nan_in_a_backward_that_is_not_recorded_is_found() -> None:
    net = torch.nn.Linear(4, 1)
    with nbgrad.AutogradGraph(every=10) as graph:
        for step in range(40):
            loss = net(ROWS).square().mean() * (float("nan") if step == 24 else 1.0)
            loss.backward()
            net.zero_grad()
    assert graph.recorded < graph.backwards
    [found] = [one for one in graph.findings() if one.kind == "nan"]
    assert found.text.startswith("The loss of backward 25 at ")
    assert found.place == graph.losses[24].place
    assert "40 losses, of which 1 holds NaN or Inf" in str(graph.checkup())

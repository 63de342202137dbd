"""Errors of a backward say which lines met, and what to write instead: in torch's programs and in nbgrad's own."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

import nbgrad
from nbgrad.core.graph.finding import Finding
from nbgrad.widgets.findings.collect import findings


class Dialect(NamedTuple):
    """The library in which a program is written."""

    lib: Any
    nn: Any
    optim: Any

    def __repr__(self) -> str:
        return str(self.lib.__name__)


BOTH = pytest.mark.parametrize(
    "d", [Dialect(torch, torch.nn, torch.optim), Dialect(nbgrad, nbgrad.nn, nbgrad.optim)], ids=repr
)
TORCH = Dialect(torch, torch.nn, torch.optim)


def failed(program: Callable[[Dialect], None], d: Dialect) -> tuple[Finding, str]:
    """The finding about the error that ``program`` raises, and the notes of that error."""
    d.lib.manual_seed(0)
    graph = nbgrad.AutogradGraph()
    with pytest.raises(RuntimeError) as caught, graph:
        program(d)
    (found,) = [one for one in findings(graph) if one.kind in ("failed", "inplace")]
    return found, "\n".join(getattr(caught.value, "__notes__", ()))


def line_of(finding: Finding) -> str:
    """The text of its line."""
    assert finding.place is not None
    return finding.place.text


# Two backwards meet in one graph.


def carried_state(d: Dialect) -> None:
    rnn, head = d.nn.RNNCell(3, 4), d.nn.Linear(4, 1)
    h = d.lib.zeros(2, 4)
    for _ in range(3):
        h = rnn(d.lib.randn(2, 3), h)
        head(h).square().mean().backward()


def carried_by_hand(d: Dialect) -> None:
    w = d.lib.randn(4, 4, requires_grad=True)
    state = d.lib.ones(2, 4)
    for _ in range(3):
        state = d.lib.tanh(state @ w)
        loss = state.square().sum()
        loss.backward()


def carried_pair(d: Dialect) -> None:
    rnn, head = d.nn.LSTM(3, 4, batch_first=True), d.nn.Linear(4, 1)
    state = None
    for _ in range(3):
        out, state = rnn(d.lib.randn(2, 5, 3), state)
        head(out).square().mean().backward()


@BOTH
@pytest.mark.parametrize(
    ("program", "remedy", "line"),
    [
        (carried_state, "h = h.detach()", "h = rnn(d.lib.randn(2, 3), h)"),
        (carried_by_hand, "state = state.detach()", "state = d.lib.tanh(state @ w)"),
        (carried_pair, "state = tuple(one.detach() for one in state)", "out, state = rnn(d.lib.randn(2, 5, 3), state)"),
    ],
)
def test_a_state_that_a_loop_carries_is_cut_off(
    program: Callable[[Dialect], None], remedy: str, line: str, d: Dialect
) -> None:
    found, notes = failed(program, d)
    assert (found.kind, found.remedy, line_of(found)) == ("failed", remedy, line)
    assert "freed by backward 1 of" in found.text
    assert notes.endswith(remedy)


def running_total(d: Dialect) -> None:
    model, total = d.nn.Linear(3, 1), 0
    for _ in range(3):
        loss = model(d.lib.randn(4, 3)).square().mean()
        total += loss
        total.backward()  # type: ignore[attr-defined]


def running_sum(d: Dialect) -> None:
    model, total = d.nn.Linear(3, 1), d.lib.zeros(())
    for _ in range(3):
        loss = model(d.lib.randn(4, 3)).exp().mean()
        total = total + loss
        total.backward()


def list_of_losses(d: Dialect) -> None:
    model, losses = d.nn.Linear(3, 1), list[Any]()
    for _ in range(3):
        loss = model(d.lib.randn(4, 3)).square().mean()
        losses.append(loss)
        d.lib.stack(losses).sum().backward()


@BOTH
@pytest.mark.parametrize(
    ("program", "line"),
    [
        (running_total, "total += loss"),
        (running_sum, "total = total + loss"),
        (list_of_losses, "d.lib.stack(losses).sum().backward()"),
    ],
)
def test_losses_that_a_loop_adds_up_get_a_backward_each(
    program: Callable[[Dialect], None], line: str, d: Dialect
) -> None:
    found, _ = failed(program, d)
    assert (found.remedy, line_of(found)) == ("loss.backward()", line)
    assert "the graphs of the earlier rounds" in found.text


def loss_once(d: Dialect) -> None:
    model = d.nn.Linear(3, 1)
    loss = model(d.lib.randn(4, 3)).square().mean()
    for _ in range(3):
        loss.backward()


def features_once(d: Dialect) -> None:
    body, head = d.nn.Linear(3, 4), d.nn.Linear(4, 1)
    features = d.lib.tanh(body(d.lib.randn(5, 3)))
    for _ in range(3):
        loss = head(features).square().mean()
        loss.backward()


def weight_once(d: Dialect) -> None:
    v = d.lib.randn(3, requires_grad=True)
    weight = v / v.norm()
    for _ in range(3):
        loss = (d.lib.randn(4, 3) @ weight).square().mean()
        loss.backward()


@BOTH
@pytest.mark.parametrize(
    ("program", "line"),
    [
        (loss_once, "loss = model(d.lib.randn(4, 3)).square().mean()"),
        (features_once, "features = d.lib.tanh(body(d.lib.randn(5, 3)))"),
        (weight_once, "weight = v / v.norm()"),
    ],
)
def test_what_was_computed_before_the_loop_moves_into_it(
    program: Callable[[Dialect], None], line: str, d: Dialect
) -> None:
    found, _ = failed(program, d)
    assert (found.remedy, line_of(found)) == (line, line)
    assert "computed only once" in found.text


def discriminator_first(d: Dialect) -> None:
    made, judge = d.nn.Linear(2, 3), d.nn.Sequential(d.nn.Linear(3, 4), d.nn.Tanh(), d.nn.Linear(4, 1))
    og, od = d.optim.Adam(made.parameters()), d.optim.Adam(judge.parameters())
    fake = d.lib.sigmoid(made(d.lib.randn(8, 2)))
    d_loss = judge(fake).mean() - judge(d.lib.randn(8, 3)).mean()
    d_loss.backward()
    od.step()
    g_loss = -judge(fake).mean()
    g_loss.backward()
    og.step()


def generator_first(d: Dialect) -> None:
    made, judge = d.nn.Linear(2, 3), d.nn.Sequential(d.nn.Linear(3, 4), d.nn.Tanh(), d.nn.Linear(4, 1))
    og, od = d.optim.Adam(made.parameters()), d.optim.Adam(judge.parameters())
    fake = d.lib.sigmoid(made(d.lib.randn(8, 2)))
    g_loss = -judge(fake).mean()
    g_loss.backward()
    og.step()
    d_loss = judge(fake).mean()
    d_loss.backward()
    od.step()


@BOTH
@pytest.mark.parametrize(
    ("program", "line"),
    [
        (discriminator_first, "d_loss = judge(fake).mean() - judge(d.lib.randn(8, 3)).mean()"),
        (generator_first, "d_loss = judge(fake).mean()"),
    ],
)
def test_the_loss_of_a_discriminator_gets_the_numbers_alone(
    program: Callable[[Dialect], None], line: str, d: Dialect
) -> None:
    found, _ = failed(program, d)
    assert (found.remedy, line_of(found)) == ("judge(fake.detach())", line)


@BOTH
def test_two_losses_of_one_step_are_added(d: Dialect) -> None:
    def program(d: Dialect) -> None:
        body, one, two = d.nn.Linear(3, 4), d.nn.Linear(4, 1), d.nn.Linear(4, 1)
        h = d.lib.tanh(body(d.lib.randn(5, 3)))
        first, second = one(h).square().mean(), two(h).abs().mean()
        first.backward()
        second.backward()

    found, _ = failed(program, d)
    assert found.remedy == "(first + second).backward()"
    assert "h, computed at" in found.text


@BOTH
def test_the_first_of_three_backwards_that_kept_nothing_is_named(d: Dialect) -> None:
    x = d.lib.ones(3, requires_grad=True)

    def program(d: Dialect) -> None:
        y = (x * x).sum()
        y.backward(retain_graph=True)
        y.backward()
        y.backward()

    found, _ = failed(program, d)
    assert "freed by backward 2 of" in found.text
    assert found.remedy == "y.backward(retain_graph=True)"


@BOTH
def test_a_graph_of_an_earlier_block_is_known(d: Dialect) -> None:
    x = d.lib.ones(3, requires_grad=True)
    with nbgrad.AutogradGraph("the first block"):
        y = x.exp()
        y.sum().backward()

    def program(d: Dialect) -> None:
        (y * 2).sum().backward()

    found, _ = failed(program, d)
    assert "freed by backward 1 of 'the first block'" in found.text
    assert found.remedy is not None


def test_an_earlier_backward_that_nothing_recorded_is_supposed() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    y.sum().backward()

    def program(d: Dialect) -> None:
        (y * 2).sum().backward()

    found, _ = failed(program, TORCH)
    assert "an earlier backward, which was not recorded" in found.text
    assert line_of(found) == found.remedy == "y = x.exp()"


@BOTH
def test_forward_and_backwards_in_three_blocks_are_put_together(d: Dialect) -> None:
    model = d.nn.Linear(3, 1)
    with nbgrad.AutogradGraph("forward"):
        loss = model(d.lib.randn(4, 3)).square().mean()
    with nbgrad.AutogradGraph("backward"):
        loss.backward()

    def program(d: Dialect) -> None:
        loss.backward()

    found, _ = failed(program, d)
    assert "freed by backward 1 of 'backward'" in found.text
    assert line_of(found) == "loss = model(d.lib.randn(4, 3)).square().mean()"


# Saved values that were changed.


def augmented(d: Dialect) -> None:
    y = d.lib.sigmoid(d.lib.randn(3, requires_grad=True))
    y += 1
    y.sum().backward()


def method(d: Dialect) -> None:
    y = d.lib.randn(3, requires_grad=True).exp()
    y.mul_(2)
    y.sum().backward()


def part(d: Dialect) -> None:
    y = d.lib.randn(3, 3, requires_grad=True).tanh()
    y[0] = 0.0
    y.sum().backward()


@BOTH
@pytest.mark.parametrize(
    ("program", "remedy", "line"),
    [(augmented, "y = y + 1", "y += 1"), (method, "y = y.mul(2)", "y.mul_(2)"), (part, "y = y.clone()", "y[0] = 0.0")],
)
def test_a_change_in_place_is_written_as_a_new_tensor(
    program: Callable[[Dialect], None], remedy: str, line: str, d: Dialect
) -> None:
    found, notes = failed(program, d)
    assert (found.kind, found.remedy, line_of(found)) == ("inplace", remedy, line)
    assert notes.endswith(remedy)


@BOTH
def test_a_step_between_forward_and_backward_is_named(d: Dialect) -> None:
    def program(d: Dialect) -> None:
        model = d.nn.Sequential(d.nn.Linear(3, 4), d.nn.Linear(4, 1))
        optimizer = d.optim.SGD(model.parameters(), lr=0.1)
        loss = model(d.lib.randn(4, 3)).square().mean()
        loss.backward(retain_graph=True)
        optimizer.step()
        loss.backward()

    found, _ = failed(program, d)
    assert found.kind == "inplace"
    assert "SGD.step() at" in found.text
    assert "optimizer.step()" in found.text
    assert found.remedy == line_of(found) == "loss = model(d.lib.randn(4, 3)).square().mean()"


@BOTH
def test_a_state_whose_graph_was_retained_is_cut_off_too(d: Dialect) -> None:
    def program(d: Dialect) -> None:
        rnn = d.nn.RNNCell(3, 4)
        optimizer = d.optim.SGD(rnn.parameters(), lr=0.1)
        h = d.lib.zeros(2, 4)
        for _ in range(3):
            h = rnn(d.lib.randn(2, 3), h)
            h.square().mean().backward(retain_graph=True)
            optimizer.step()

    found, _ = failed(program, d)
    assert (found.kind, found.remedy) == ("inplace", "h = h.detach()")


# A backward that cannot begin.


def detached(d: Dialect) -> None:
    model = d.nn.Linear(3, 1)
    out = model(d.lib.randn(4, 3)).detach()
    out.mean().backward()


def by_data(d: Dialect) -> None:
    model = d.nn.Linear(3, 1)
    out = model(d.lib.randn(4, 3)).data
    d.lib.square(out).mean().backward()


def by_item(d: Dialect) -> None:
    model = d.nn.Linear(3, 1)
    loss = d.lib.tensor(model(d.lib.randn(4, 3)).mean().item())
    loss.backward()


def by_list(d: Dialect) -> None:
    model, losses = d.nn.Linear(3, 1), list[float]()
    for _ in range(3):
        loss = model(d.lib.randn(4, 3)).mean()
        losses.append(loss.item())
    loss = d.lib.tensor(losses).mean()
    loss.backward()


@BOTH
@pytest.mark.parametrize(
    ("program", "remedy"),
    [
        (detached, "out = model(d.lib.randn(4, 3))"),
        (by_data, "out = model(d.lib.randn(4, 3))"),
        (by_item, "loss = model(d.lib.randn(4, 3)).mean()"),
        (by_list, "loss = d.lib.stack(losses).mean()"),
    ],
)
def test_where_the_path_was_cut_the_line_is_written_without_it(
    program: Callable[[Dialect], None], remedy: str, d: Dialect
) -> None:
    found, notes = failed(program, d)
    assert found.remedy == remedy
    assert line_of(found).startswith(remedy.partition(" ")[0])
    assert remedy in notes


def test_a_variable_of_a_loss_is_the_loss() -> None:
    def program(d: Dialect) -> None:
        loss = d.nn.Linear(3, 1)(d.lib.randn(4, 3)).mean()
        loss = torch.autograd.Variable(loss.data)  # type: ignore[no-untyped-call]
        loss.backward()

    found, _ = failed(program, TORCH)
    assert found.remedy is not None
    assert "Variable()" in found.text or ".data" in found.text
    assert "Variable" in line_of(found)


def test_a_tensor_of_numpy_is_taken_without_the_detour() -> None:
    def program(d: Dialect) -> None:
        out = torch.from_numpy(d.nn.Linear(3, 1)(d.lib.randn(4, 3)).detach().numpy())
        out.mean().backward()

    found, _ = failed(program, TORCH)
    assert found.remedy == "out = d.nn.Linear(3, 1)(d.lib.randn(4, 3))"


@BOTH
def test_where_nothing_learns_the_remedy_is_to_let_it(d: Dialect) -> None:
    def program(d: Dialect) -> None:
        data = [1.0, 2.0]
        x, w = d.lib.tensor(data), d.lib.tensor([1.0, 1.0])
        (x * w).sum().backward()

    found, _ = failed(program, d)
    assert found.remedy == "w.requires_grad_()"


@BOTH
def test_inside_no_grad_the_forward_moves_out(d: Dialect) -> None:
    def program(d: Dialect) -> None:
        model = d.nn.Linear(3, 1)
        with d.lib.no_grad():
            out = model(d.lib.randn(4, 3))
        out.mean().backward()

    found, _ = failed(program, d)
    assert found.remedy == "Run that outside of no_grad()."
    assert line_of(found) == "out = model(d.lib.randn(4, 3))"


# Torch's other usual errors.


@BOTH
def test_a_backward_from_many_numbers_is_reduced(d: Dialect) -> None:
    def program(d: Dialect) -> None:
        loss = d.nn.MSELoss(reduction="none")(d.nn.Linear(3, 1)(d.lib.randn(64, 3)), d.lib.zeros(64, 1))
        loss.backward()

    found, notes = failed(program, d)
    assert found.remedy == "loss.mean().backward()"
    assert "loss has shape (64, 1)" in notes
    assert "reduction='none'" in notes


def wrong_seed(d: Dialect) -> None:
    out = d.nn.Linear(3, 2)(d.lib.randn(4, 3))
    out.backward(torch.ones(3, 2))


def constant_asked(d: Dialect) -> None:
    a, b = d.lib.randn(3, requires_grad=True), d.lib.randn(3)
    torch.autograd.grad((a * b).sum(), [a, b])


def unused_asked(d: Dialect) -> None:
    a, b = d.lib.randn(3, requires_grad=True), d.lib.randn(3, requires_grad=True)
    torch.autograd.grad(a.sum(), [a, b])


def leaf_changed(d: Dialect) -> None:
    w = d.lib.randn(3, requires_grad=True)
    (w * 2).sum().backward()
    w -= 0.1 * w.grad


def two_types(d: Dialect) -> None:
    d.nn.Linear(3, 2)(d.lib.randn(4, 3, dtype=torch.float64)).sum().backward()


@pytest.mark.parametrize(
    ("program", "remedy"),
    [
        (wrong_seed, "out.backward(torch.ones_like(out))"),
        (constant_asked, "b.requires_grad_()"),
        (unused_asked, "allow_unused=True"),
        (leaf_changed, "with torch.no_grad(): w -= 0.1 * w.grad"),
        (two_types, ".float()"),
    ],
)
def test_usual_errors_of_torch_have_a_remedy(program: Callable[[Dialect], None], remedy: str) -> None:
    found, notes = failed(program, TORCH)
    assert found.remedy == remedy
    assert remedy in notes


class Wrong(torch.autograd.Function):
    """A function whose backward gives a gradient of another shape."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:  # type: ignore[override]
        return g.sum().reshape(1, 1).expand(5, 5)


class Raising(Wrong):
    """A function whose backward raises."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:  # type: ignore[override]
        raise RuntimeError("no gradient today")


@pytest.mark.parametrize("anomaly", [False, True])
@pytest.mark.parametrize("function", [Wrong, Raising])
def test_the_backward_of_a_function_names_its_forward(function: Any, anomaly: bool) -> None:
    def program(d: Dialect) -> None:
        x = d.lib.randn(3, requires_grad=True)
        if anomaly:
            with nbgrad.detect_anomaly():
                function.apply(x).sum().backward()
        function.apply(x).sum().backward()

    found, notes = failed(program, TORCH)
    assert "function.apply(x).sum().backward()" in notes
    assert found.place is not None
    assert found.place.file == __file__


@pytest.mark.parametrize("program", [augmented, carried_state])
def test_an_anomaly_check_names_the_forward_of_torchs_errors_too(program: Callable[[Dialect], None]) -> None:
    def checked(d: Dialect) -> None:
        with nbgrad.detect_anomaly():
            program(d)

    found, notes = failed(checked, TORCH)
    assert found.remedy is not None
    assert found.remedy in notes


# The first bad number.


def spoiled(program: Callable[[Dialect], None], d: Dialect) -> Finding:
    """The finding about a NaN of ``program``."""
    d.lib.manual_seed(0)
    graph = nbgrad.AutogradGraph()
    with graph:
        program(d)
    return next(one for one in findings(graph) if one.kind == "nan")


def network(d: Dialect) -> tuple[Any, Any]:
    model = d.nn.Sequential(d.nn.Linear(30, 200), d.nn.ReLU(), d.nn.Linear(200, 100))
    return model, d.optim.SGD(model.parameters(), lr=0.01)


@BOTH
def test_one_step_names_the_op_of_the_forward(d: Dialect) -> None:
    def program(d: Dialect) -> None:
        model, optimizer = network(d)
        out = model(d.lib.randn(64, 30))
        loss = d.lib.log(out).mean()
        loss.backward()
        optimizer.step()

    found = spoiled(program, d)
    assert line_of(found) == "loss = d.lib.log(out).mean()"
    assert "log of a negative number" in found.text
    assert found.remedy == "x.clamp(min=1e-8).log()"


@BOTH
def test_one_step_names_the_rule_of_the_backward(d: Dialect) -> None:
    def program(d: Dialect) -> None:
        model, optimizer = network(d)
        out = model(d.lib.randn(64, 30))
        loss = d.lib.sqrt(out - out).mean()
        loss.backward()
        optimizer.step()

    found = spoiled(program, d)
    assert line_of(found) == "loss = d.lib.sqrt(out - out).mean()"
    assert "in the rule of sqrt" in found.text
    assert found.remedy == "(x + 1e-8).sqrt()"


@BOTH
def test_one_step_names_the_data(d: Dialect) -> None:
    def program(d: Dialect) -> None:
        model, optimizer = network(d)
        x = d.lib.randn(64, 30)
        x[3, 4] = float("nan")
        model(x).square().mean().backward()
        optimizer.step()

    found = spoiled(program, d)
    assert "in the data: 1 of the 1,920 numbers of x (64, 30), which linear" in found.text


@BOTH
@pytest.mark.parametrize("op", ["sqrt", "log"])
def test_a_long_loop_keeps_the_op_and_the_number_of_the_backward(op: str, d: Dialect) -> None:
    def program(d: Dialect) -> None:
        model, optimizer = network(d)
        for step in range(90):
            out = model(d.lib.randn(8, 30))
            seen = out - out if step == 57 else out.square() + 1e-3
            loss = getattr(d.lib, op)(seen).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    found = spoiled(program, d)
    assert "backward 58" in found.text
    assert line_of(found) == "loss = getattr(d.lib, op)(seen).mean()"
    assert "detect_anomaly" not in found.text


def test_a_forward_that_runs_again_changes_nothing() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 40), torch.nn.BatchNorm1d(40), torch.nn.Dropout(0.5))

    def statistics(record: bool) -> tuple[torch.Tensor, torch.Tensor]:
        torch.manual_seed(0)
        model[1].reset_running_stats()
        with nbgrad.AutogradGraph() if record else torch.enable_grad():
            out = model(torch.randn(60, 3))
            (out.log().mean()).backward()
        return model[1].running_mean.clone(), torch.rand(3)

    for recorded, plain in zip(statistics(True), statistics(False), strict=True):
        assert torch.equal(recorded, plain)

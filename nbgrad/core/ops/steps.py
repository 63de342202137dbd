"""Single steps of recurrent networks: one row for each kind of cell, where torch records a dozen ops.

A loop of one's own over time is made of these rows. The arithmetic of a step and of its gradients stands here for them
and for the layers of ``recurrent``.
"""

from typing import Any

import torch

from nbgrad.core.broadcast import Sums, for_gates
from nbgrad.core.op import op
from nbgrad.core.ops.activation import sigmoid, sigmoid_backward, tanh, tanh_backward
from nbgrad.core.ops.joining import cat
from nbgrad.core.ops.joint import total
from nbgrad.core.ops.rectifier import threshold_backward
from nbgrad.core.products import linear, product
from nbgrad.core.samples import Make, Sample
from nbgrad.core.tensor import Tensor

SIMPLE: dict[str, tuple[Any, Any]] = {
    "tanh": (torch.tanh, tanh_backward),
    "relu": (torch.relu, lambda g, y: threshold_backward(g, y, threshold=0)),
}
"""The activations of a network without gates, each with its gradient from what it gave."""

OF_BIASES: dict[str, Sums] = {"b_ih": for_gates, "b_hh": for_gates}
"""What the rules of recurrent ops sum: a bias is stretched over samples, and over steps."""


def own(state):
    """A state that autocast leaves in its element type, as torch does on a CPU: only products with it are cast."""
    return state.detach() if state.device.type == "cpu" else state


def alike(x, other):
    """In the element type of ``other``: under autocast a state may have another than the gates."""
    return x if x.dtype is other.dtype else x.to(dtype=other.dtype)


def drawn(make: Make, gates, biased):
    """Weights for samples, from 3 numbers and a state of 2."""
    return [make(gates * 2, 3), make(gates * 2, 2), *([make(gates * 2), make(gates * 2)] if biased else [])]


def _steps(gates, states):
    """With and without biases, and an empty batch."""

    def samples(make: Make):
        for batch, biased in ((3, True), (2, False), (0, True)):
            given = (make(batch, 3), *(make(batch, 2) for _ in range(states)))
            yield Sample.of(*given, *drawn(make, gates, biased))

    return samples


def weight_gradients(of_inputs, of_hidden, input, hx, biases):
    """The gradients of weights and biases from those of the gates before their activations, each (N, gates).

    ``biases`` are the two biases or their shapes, None for one that is not there.
    """
    i, h = of_inputs.transpose(0, 1), of_hidden.transpose(0, 1)
    w_ih, w_hh = product(i, input.conj()), product(h, alike(hx, h).conj())
    made = zip((of_inputs, of_hidden), biases, strict=True)
    return w_ih, w_hh, *(None if bias is None else one.sum(0) for one, bias in made)


def _products(made, weights, needed):
    """The gradients of input and state from that of the gates, those that are needed."""
    return [product(made, w.conj()) if wanted else None for w, wanted in zip(weights, needed, strict=False)]


def _summed(input, hx, w_ih, w_hh, b_ih, b_hh):
    """The gates before their activations, of inputs and of states, as recorded ops."""
    x, h = input @ w_ih.transpose(0, 1), alike(hx, w_hh) @ w_hh.transpose(0, 1)
    return (x if b_ih is None else x + b_ih), (h if b_hh is None else h + b_hh)


def _simple(kind, formula):
    """The row of a step with one activation."""
    activate, slope = SIMPLE[kind]

    def step(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        return activate(linear(hx, w_hh, b_hh).add_(linear(input, w_ih, b_ih)))

    step.__name__ = f"rnn_{kind}_step"
    step.__doc__ = f"""One step of a recurrent network with {kind}: see rnn_{kind}_layer (Elman 1990).

    Shapes: input (N, I), hx (N, H), w_ih (H, I), w_hh (H, H), biases (H,); output (N, H).
    """
    kernel = getattr(torch, f"rnn_{kind}_cell")
    row = op(formula=formula, sums=OF_BIASES, samples=_steps(1, 1), reference=kernel, holomorphic=False, method=False)(
        step
    )

    @row.joint_rule(
        input=r"\bar{a} W",
        hx=r"\bar{a} U",
        w_ih=r"\bar{a}^{\top} x",
        w_hh=r"\bar{a}^{\top} h",
        b_ih=r"\sum \bar{a}",
        b_hh=r"\sum \bar{a}",
    )
    def _(g, needed, input, hx, w_ih, w_hh, b_ih_shape, b_hh_shape, out):
        made = slope(g, out)
        of_states = _products(made, (w_ih, w_hh), needed)
        return *of_states, *weight_gradients(made, made, input, hx, (b_ih_shape, b_hh_shape))

    return row


rnn_tanh_step = _simple("tanh", r"\tanh(W x + b + U h + c)")
rnn_relu_step = _simple("relu", r"\max(0, W x + U h)")


def lstm_ahead(summed, cx, gates=None):
    """Output, cell, gates and the tanh of the cell, from the gates ``summed`` and without their activations.

    The activated ones are written into ``gates`` where that is given.
    """
    gates = torch.sigmoid(summed, out=gates)
    i, f, g, o = gates.chunk(4, 1)
    torch.tanh(summed.chunk(4, 1)[2], out=g)
    c = torch.addcmul(f * cx, i, g)
    shown = torch.tanh(c)
    return o * shown, c, gates, shown


def lstm_back(of_h, of_c, gates, shown, cx):
    """The gradients of the gates before their activations and of the cell, from those of output and cell."""
    i, f, g, o = gates
    if of_h is None:  # only the cell has a gradient
        of_o = o * 0
    else:
        of_c = total(of_c, tanh_backward(alike(of_h * o.conj(), shown), shown))
        of_o = sigmoid_backward(alike(of_h * shown.conj(), o), o)
    of_i, of_f, of_g = (alike(of_c * factor.conj(), i) for factor in (g, cx, i))
    return cat((sigmoid_backward(of_i, i), sigmoid_backward(of_f, f), tanh_backward(of_g, g), of_o), dim=1), of_c


@op(
    formula=r"c' = f \odot c + i \odot g \text{, } h' = o \odot \tanh c'",
    outputs=("h", "c"),
    aux=("gates", "shown"),
    sums=OF_BIASES,
    samples=_steps(4, 2),
    reference=lambda x, hx, cx, *weights: torch.lstm_cell(x, (hx, cx), *weights),
    holomorphic=False,  # the kernels in the rules conjugate by themselves
    method=False,
)
def lstm_step(input, hx, cx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of long short-term memory: see lstm_layer (Hochreiter and Schmidhuber 1997).

    Shapes: input (N, I), hx and cx (N, H), w_ih (4 H, I), w_hh (4 H, H), biases (4 H,); outputs (N, H) and (N, H).
    """
    return lstm_ahead(linear(own(hx), w_hh, b_hh).add_(linear(input, w_ih, b_ih)), own(cx))


@lstm_step.joint_rule(
    input=r"\bar{a} W",
    hx=r"\bar{a} U",
    cx=r"f \odot \bar{c}'",
    w_ih=r"\bar{a}^{\top} x",
    w_hh=r"\bar{a}^{\top} h",
    b_ih=r"\sum \bar{a}",
    b_hh=r"\sum \bar{a}",
)
def _(g_h, g_c, needed, input, hx, cx, w_ih, w_hh, b_ih, b_hh, gates, shown):
    if isinstance(input, Tensor):  # what is saved of the gates knows not where it came from
        x, h = _summed(input, hx, w_ih, w_hh, b_ih, b_hh)
        i, f, g, o = (x + h).chunk(4, 1)
        i, f, g, o = sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)
        shown = tanh(f * cx + i * g)
    else:
        i, f, g, o = gates.chunk(4, 1)
    made, of_c = lstm_back(g_h, g_c, (i, f, g, o), shown, cx)
    of_input, of_hx = _products(made, (w_ih, w_hh), needed)
    of_cx = of_c * f.conj() if needed[2] else None
    return of_input, of_hx, of_cx, *weight_gradients(made, made, input, hx, (b_ih, b_hh))


def gru_ahead(gates, hidden, hx):
    """Output and what the reset gate is multiplied with; the gates, summed of the input alone, are made in place."""
    size = hx.shape[1]
    gates[:, : 2 * size].add_(hidden[:, : 2 * size]).sigmoid_()
    r, z, n = gates.chunk(3, 1)
    shown = hidden[:, 2 * size :]
    n.addcmul_(r, shown).tanh_()
    return (hx - n).mul_(z).add_(n), shown


def gru_again(input, hx, *given):
    """The three gates and what the reset gate is multiplied with, from input, state and weights as recorded ops."""
    (xr, xz, xn), (hr, hz, shown) = (one.chunk(3, -1) for one in _summed(input, hx, *given))
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    return r, z, tanh(xn + r * shown), shown


def gru_back(of_h, gates, shown, hx):
    """The gradients of what inputs and state gave the gates, and what the state gets past them."""
    r, z, n = gates
    kept = of_h * z.conj()
    of_n = tanh_backward(alike(of_h - kept, n), n)
    of_r = sigmoid_backward(of_n * shown.conj(), r)
    of_z = sigmoid_backward(alike(of_h * (hx - n).conj(), z), z)
    return cat([of_r, of_z, of_n], dim=1), cat([of_r, of_z, of_n * r.conj()], dim=1), kept


@op(
    formula=r"h' = (1 - z) \odot n + z \odot h",
    outputs=("h",),
    aux=("gates", "shown"),
    sums=OF_BIASES,
    samples=_steps(3, 1),
    reference=torch.gru_cell,
    holomorphic=False,  # the kernels in the rules conjugate by themselves
    method=False,
)
def gru_step(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a gated recurrent unit: see gru_layer (Cho et al. 2014, https://arxiv.org/abs/1406.1078).

    Shapes: input (N, I), hx (N, H), w_ih (3 H, I), w_hh (3 H, H), biases (3 H,); output (N, H).
    """
    hx, gates = own(hx), linear(input, w_ih, b_ih)
    h, shown = gru_ahead(gates, linear(hx, w_hh, b_hh), hx)
    return h, gates, shown


@gru_step.joint_rule(
    input=r"\bar{a} W",
    hx=r"\bar{b} U + z \odot \bar{h}'",
    w_ih=r"\bar{a}^{\top} x",
    w_hh=r"\bar{b}^{\top} h",
    b_ih=r"\sum \bar{a}",
    b_hh=r"\sum \bar{b}",
)
def _(g, needed, input, hx, w_ih, w_hh, b_ih, b_hh, gates, shown):
    if isinstance(input, Tensor):  # what is saved of the gates knows not where it came from
        *gates, shown = gru_again(input, hx, w_ih, w_hh, b_ih, b_hh)
    else:
        gates = gates.chunk(3, 1)
    of_inputs, of_hidden, kept = gru_back(g, gates, shown, hx)
    of_input = product(of_inputs, w_ih.conj()) if needed[0] else None
    of_hx = product(of_hidden, w_hh.conj()) + kept if needed[1] else None
    return of_input, of_hx, *weight_gradients(of_inputs, of_hidden, input, hx, (b_ih, b_hh))

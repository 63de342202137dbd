"""Single steps of recurrent networks: one row for each kind of cell, where torch records a dozen ops.

What they do is what a layer of ``recurrent`` does at each step; a loop of one's own over time is made of these.
"""

import torch

from nbgrad.core.op import op
from nbgrad.core.ops.activation import sigmoid, sigmoid_backward, tanh, tanh_backward
from nbgrad.core.ops.joining import cat
from nbgrad.core.ops.joint import total
from nbgrad.core.ops.rectifier import threshold_backward
from nbgrad.core.ops.recurrent import alike, own
from nbgrad.core.samples import Make, Sample
from nbgrad.core.tensor import Tensor

_linear = torch.nn.functional.linear


def _steps(gates, states):
    """With and without biases, and an empty batch."""

    def samples(make: Make):
        for batch, biased in ((3, True), (2, False), (0, True)):
            weights = [make(gates * 2, 3), make(gates * 2, 2)]
            weights += [make(gates * 2), make(gates * 2)] if biased else []
            yield Sample.of(make(batch, 3), *(make(batch, 2) for _ in range(states)), *weights)

    return samples


def _of_weights(of_inputs, of_hidden, input, hx, biases):
    """The gradients of the weights from those of the gates before their activations, each (N, gates)."""
    i, h = of_inputs.transpose(0, 1), of_hidden.transpose(0, 1)
    w_ih, w_hh = i @ input.conj(), h @ alike(hx, h).conj()
    return w_ih, w_hh, *((of_inputs.sum(0), of_hidden.sum(0)) if biases is not None else (None, None))


def _summed(input, hx, w_ih, w_hh, b_ih, b_hh):
    """The gates before their activations, of inputs and of states, as recorded ops."""
    x, h = input @ w_ih.transpose(0, 1), alike(hx, w_hh) @ w_hh.transpose(0, 1)
    return (x, h) if b_ih is None else (x + b_ih, h + b_hh)


def _simple(kind, activate, slope, formula):
    """The row of a step with one activation."""

    def step(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        return activate(_linear(hx, w_hh, b_hh).add_(_linear(input, w_ih, b_ih)))

    step.__name__ = f"rnn_{kind}_step"
    step.__doc__ = f"""One step of a recurrent network with {kind}: see rnn_{kind}_layer (Elman 1990).

    Shapes: input (N, I), hx (N, H), w_ih (H, I), w_hh (H, H), biases (H,); output (N, H).
    """
    kernel = getattr(torch, f"rnn_{kind}_cell")
    row = op(formula=formula, samples=_steps(1, 1), reference=kernel, holomorphic=False, method=False)(step)

    @row.joint_rule(
        input=r"\bar{a} W",
        hx=r"\bar{a} U",
        w_ih=r"\bar{a}^{\top} x",
        w_hh=r"\bar{a}^{\top} h",
        b_ih=r"\sum \bar{a}",
        b_hh=r"\sum \bar{a}",
    )
    def _(g, needed, input, hx, w_ih, w_hh, b_ih_shape, out):
        made = slope(g, out)
        of_states = (made @ w.conj() if wanted else None for w, wanted in zip((w_ih, w_hh), needed, strict=False))
        return *of_states, *_of_weights(made, made, input, hx, b_ih_shape)

    return row


rnn_tanh_step = _simple("tanh", torch.tanh, tanh_backward, r"\tanh(W x + b + U h + c)")
rnn_relu_step = _simple("relu", torch.relu, lambda g, y: threshold_backward(g, y, threshold=0), r"\max(0, W x + U h)")


@op(
    formula=r"c' = f \odot c + i \odot g \text{, } h' = o \odot \tanh c'",
    outputs=("h", "c"),
    aux=("gates", "shown"),
    samples=_steps(4, 2),
    reference=lambda x, hx, cx, *weights: torch.lstm_cell(x, (hx, cx), *weights),
    holomorphic=False,  # the kernels in the rules conjugate by themselves
    method=False,
)
def lstm_step(input, hx, cx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of long short-term memory: see lstm_layer (Hochreiter and Schmidhuber 1997).

    Shapes: input (N, I), hx and cx (N, H), w_ih (4 H, I), w_hh (4 H, H), biases (4 H,); outputs (N, H) and (N, H).
    """
    hx, cx = own(hx), own(cx)
    summed = _linear(hx, w_hh, b_hh).add_(_linear(input, w_ih, b_ih))
    gates = torch.sigmoid(summed)
    i, f, g, o = gates.chunk(4, 1)
    torch.tanh(summed.chunk(4, 1)[2], out=g)
    c = torch.addcmul(f * cx, i, g)
    shown = torch.tanh(c)
    return o * shown, c, gates, shown


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
        i, f, g, o = sum(_summed(input, hx, w_ih, w_hh, b_ih, b_hh)).chunk(4, 1)
        i, f, g, o = sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)
        shown = tanh(f * cx + i * g)
    else:
        i, f, g, o = gates.chunk(4, 1)
    if g_h is None:  # only the cell has a gradient
        of_c, of_o = g_c, o * 0
    else:
        of_c = total(g_c, tanh_backward(alike(g_h * o.conj(), shown), shown))
        of_o = sigmoid_backward(alike(g_h * shown.conj(), o), o)
    of_i, of_f, of_g = (alike(of_c * factor.conj(), i) for factor in (g, cx, i))
    made = cat((sigmoid_backward(of_i, i), sigmoid_backward(of_f, f), tanh_backward(of_g, g), of_o), dim=1)
    of_input, of_hx = (made @ w.conj() if wanted else None for w, wanted in zip((w_ih, w_hh), needed, strict=False))
    of_weights = _of_weights(made, made, input, hx, b_ih)
    return of_input, of_hx, (of_c * f.conj() if needed[2] else None), *of_weights


@op(
    formula=r"h' = (1 - z) \odot n + z \odot h",
    outputs=("h",),
    aux=("gates", "shown"),
    samples=_steps(3, 1),
    reference=torch.gru_cell,
    holomorphic=False,  # the kernels in the rules conjugate by themselves
    method=False,
)
def gru_step(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a gated recurrent unit: see gru_layer (Cho et al. 2014, https://arxiv.org/abs/1406.1078).

    Shapes: input (N, I), hx (N, H), w_ih (3 H, I), w_hh (3 H, H), biases (3 H,); output (N, H).
    """
    hx, size = own(hx), hx.shape[1]
    gates, hidden = _linear(input, w_ih, b_ih), _linear(hx, w_hh, b_hh)
    gates[:, : 2 * size].add_(hidden[:, : 2 * size]).sigmoid_()
    r, z, n = gates.chunk(3, 1)
    shown = hidden[:, 2 * size :]
    n.addcmul_(r, shown).tanh_()
    return (hx - n).mul_(z).add_(n), gates, shown


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
        (xr, xz, xn), (hr, hz, shown) = (one.chunk(3, 1) for one in _summed(input, hx, w_ih, w_hh, b_ih, b_hh))
        r, z = sigmoid(xr + hr), sigmoid(xz + hz)
        n = tanh(xn + r * shown)
    else:
        r, z, n = gates.chunk(3, 1)
    kept = g * z.conj()
    of_n = tanh_backward(alike(g - kept, n), n)
    of_r = sigmoid_backward(of_n * shown.conj(), r)
    of_z = sigmoid_backward(alike(g * (hx - n).conj(), z), z)
    of_inputs, of_hidden = cat([of_r, of_z, of_n], dim=1), cat([of_r, of_z, of_n * r.conj()], dim=1)
    of_input = of_inputs @ w_ih.conj() if needed[0] else None
    of_hx = of_hidden @ w_hh.conj() + kept if needed[1] else None
    return of_input, of_hx, *_of_weights(of_inputs, of_hidden, input, hx, b_ih)

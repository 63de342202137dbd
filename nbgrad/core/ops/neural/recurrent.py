"""Recurrent layers over a whole sequence, and single steps of them: one row for each kind.

torch records a dozen ops for each step. Here a layer is one node, whose rule goes back through time: it saves what its
gates were, and the gradient of a weight is one product over all steps. A step is one node too: a user
who writes the loop over time calls the rows of steps.
"""

from typing import Any

import torch

from nbgrad.core.backend.aten import aten
from nbgrad.core.backend.gemm import linear, product
from nbgrad.core.backend.recurrent_cudnn import (
    GRU,
    LSTM,
    RNN_RELU,
    RNN_TANH,
    gradients_by_cudnn,
    layer_by_cudnn,
    runs_on_cudnn,
)
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.opaque import has_numbers
from nbgrad.core.dispatch.samples import Make, Sample
from nbgrad.core.engine.broadcast import Sums, for_gates
from nbgrad.core.ops._joint_rules import total
from nbgrad.core.ops.neural.activations import sigmoid, sigmoid_backward, tanh, tanh_backward
from nbgrad.core.ops.neural.rectifiers import threshold_backward
from nbgrad.core.ops.shape.joining import cat, stack
from nbgrad.core.tensor.tensor import Tensor

SIMPLE: dict[str, tuple[Any, Any]] = {
    "tanh": (torch.tanh, tanh_backward),
    "relu": (torch.relu, lambda g, y: threshold_backward(g, y, threshold=0)),
}
"""The activations of a network without gates, each with the function for its gradient, which takes its output."""

OF_BIASES: dict[str, Sums] = {"b_ih": for_gates, "b_hh": for_gates}
"""The sums in the rules of recurrent ops: a bias is stretched over samples, and over steps."""


def own(state):
    """The state. On a CPU it is detached, so that autocast casts it only in its products, as torch does there."""
    return state.detach() if state.device.type == "cpu" else state


def alike(x, other):
    """``x`` in the element type of ``other``: under autocast that of a state and of the gates may differ."""
    return x if x.dtype is other.dtype else x.to(dtype=other.dtype)


def in_one_kernel(x):
    """Whether torch has a kernel for a step of ``x`` after its products: on a GPU, for real numbers.

    It rounds once, and takes the place of eight kernels. A trace and a rule that is recorded take small steps.
    """
    raw = isinstance(x, torch.Tensor) and has_numbers(x)
    return raw and x.is_cuda and x.is_floating_point() and x.numel() > 0


def _both(b_ih, b_hh):
    """Two biases or none: the kernels do not take a single one."""
    given = b_hh if b_ih is None else b_ih
    return [given if given is None else given.new_zeros(len(given)) if b is None else b for b in (b_ih, b_hh)]


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


def _flat(x):
    """All steps of all samples as rows."""
    return x if x.ndim == 2 else x.reshape((x.shape[0] * x.shape[1], x.shape[2]))


def weight_gradients(of_inputs, of_hidden, input, hx, biases):
    """The gradients of weights and biases from those of the gates before their activations.

    Those of the gates are (N, gates), or (T, N, gates) for all steps; input and ``hx`` have the same leading sizes.
    ``biases`` are the two biases or their shapes, None for a missing one.
    """
    of_inputs, of_hidden, input, hx = map(_flat, (of_inputs, of_hidden, input, hx))
    i, h = of_inputs.transpose(0, 1), of_hidden.transpose(0, 1)
    w_ih, w_hh = product(i, input.conj()), product(h, alike(hx, h).conj())
    made = zip((of_inputs, of_hidden), biases, strict=True)
    return w_ih, w_hh, *(None if bias is None else one.sum(0) for one, bias in made)


def _products(made, weights, needed):
    """The gradients of input and state from that of the gates, those that are needed."""
    return [product(made, w.conj()) if wanted else None for w, wanted in zip(weights, needed, strict=False)]


def _summed(input, hx, w_ih, w_hh, b_ih, b_hh):
    """The parts of the gates that come from inputs and from states, before activations, as recorded ops."""
    x, h = input @ w_ih.transpose(0, 1), alike(hx, w_hh) @ w_hh.transpose(0, 1)
    return (x if b_ih is None else x + b_ih), (h if b_hh is None else h + b_hh)


_SYMBOLS = {"hx": "h", "w_ih": "W", "w_hh": "U", "b_ih": "b", "b_hh": "c"}
"""The symbols of the state, the weights and the biases in the formulas."""


def _simple_step(kind, formula):
    """The row of a step with one activation."""
    activate, slope = SIMPLE[kind]

    def step(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        return activate(linear(hx, w_hh, b_hh).add_(linear(input, w_ih, b_ih)))

    step.__name__ = f"rnn_{kind}_step"
    step.__doc__ = f"""One step of a recurrent network with {kind}: see rnn_{kind}_layer (Elman 1990).

    Shapes: input (N, I), hx (N, H), w_ih (H, I), w_hh (H, H), biases (H,); output (N, H).
    """
    kernel = getattr(torch, f"rnn_{kind}_cell")
    row = op(
        formula=formula,
        symbols=_SYMBOLS,
        sums=OF_BIASES,
        samples=_steps(1, 1),
        ranks=(2,),
        reference=kernel,
        holomorphic=False,
        method=False,
    )(step)

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


rnn_tanh_step = _simple_step("tanh", r"\tanh(W x + b + U h + c)")
rnn_relu_step = _simple_step("relu", r"\max(0, W x + b + U h + c)")


def lstm_ahead(summed, cx, gates=None):
    """Output, cell, gates and the tanh of the cell, from ``summed``, the gates before their activations.

    The activated ones are written into ``gates`` where that is given.
    """
    gates = torch.sigmoid(summed, out=gates)
    i, f, g, o = gates.chunk(4, 1)
    torch.tanh(summed.chunk(4, 1)[2], out=g)
    c = torch.addcmul(f * cx, i, g)
    shown = torch.tanh(c)
    return o * shown, c, gates, shown


def _lstm_kernel(of_input, hx, cx, w_hh, b_ih, b_hh):
    """Output, cell and gates, all by one kernel but the product of the state."""
    return aten._thnn_fused_lstm_cell(of_input, linear(hx, w_hh), cx, *_both(b_ih, b_hh))


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
    formula=r"c' = f \odot c + i \odot g \text{, } h' = o \odot \tanh c' \text{, gates of } a = W x + b + U h + d",
    symbols=_SYMBOLS | {"cx": "c", "b_hh": "d", "h": "h'", "c": "c'"},
    outputs=("h", "c"),
    aux=("gates", "shown", "cell"),
    sums=OF_BIASES,
    samples=_steps(4, 2),
    ranks=(2,),
    reference=lambda x, hx, cx, *weights: torch.lstm_cell(x, (hx, cx), *weights),
    holomorphic=False,  # the kernels in the rules conjugate by themselves
    method=False,
)
def lstm_step(input, hx, cx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of long short-term memory: see lstm_layer (Hochreiter and Schmidhuber 1997).

    Shapes: input (N, I), hx and cx (N, H), w_ih (4 H, I), w_hh (4 H, H), biases (4 H,); outputs (N, H) and (N, H).
    """
    none = input.new_empty(0)
    if in_one_kernel(input):
        h, c, gates = _lstm_kernel(linear(input, w_ih), hx, cx, w_hh, b_ih, b_hh)
        return h, c, gates, none, c.clone()  # the output may be changed in place
    return *lstm_ahead(linear(own(hx), w_hh, b_hh).add_(linear(input, w_ih, b_ih)), own(cx)), none


@lstm_step.joint_rule(
    input=r"\bar{a} W",
    hx=r"\bar{a} U",
    cx=r"f \odot \bar{c'}",
    w_ih=r"\bar{a}^{\top} x",
    w_hh=r"\bar{a}^{\top} h",
    b_ih=r"\sum \bar{a}",
    b_hh=r"\sum \bar{a}",
)
def _(g_h, g_c, needed, input, hx, cx, w_ih, w_hh, b_ih, b_hh, gates, shown, cell):
    if not isinstance(input, Tensor) and cell.ndim == 2:
        made, of_cx, _ = aten._thnn_fused_lstm_cell_backward_impl(g_h, g_c, cx, cell, gates, False)
        of_cx = of_cx if needed[2] else None
    else:
        if isinstance(input, Tensor):  # the saved gates have no history
            x, h = _summed(input, hx, w_ih, w_hh, b_ih, b_hh)
            i, f, g, o = (x + h).chunk(4, 1)
            i, f, g, o = sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)
            shown = tanh(f * cx + i * g)
        else:
            i, f, g, o = gates.chunk(4, 1)
        made, of_c = lstm_back(g_h, g_c, (i, f, g, o), shown, cx)
        of_cx = of_c * f.conj() if needed[2] else None
    of_input, of_hx = _products(made, (w_ih, w_hh), needed)
    return of_input, of_hx, of_cx, *weight_gradients(made, made, input, hx, (b_ih, b_hh))


def _gru_kernel(of_input, hx, w_hh, b_ih, b_hh):
    """Output, gates, and the factor of the reset gate, all by one kernel but the product of the state."""
    h, kept = aten._thnn_fused_gru_cell(of_input, linear(hx, w_hh), hx, *_both(b_ih, b_hh))
    size = hx.shape[1]
    return h, kept[:, : 3 * size], kept[:, 4 * size :]  # between them is hx


def gru_ahead(gates, hidden, hx):
    """The output, and the factor of the reset gate. ``gates`` has the part from the input, and is changed in place."""
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
    """The gradients of the two parts of the gates, from input and from state, and that of the state beside the gates.

    The last one does not go through the gates: it comes from ``z * hx`` in the output.
    """
    if in_one_kernel(gates):
        kept = torch.cat((gates, hx, shown), 1)
        return aten._thnn_fused_gru_cell_backward(of_h, kept, False)[:3]
    r, z, n = gates.chunk(3, 1)
    kept = of_h * z.conj()
    of_n = tanh_backward(alike(of_h - kept, n), n)
    of_r = sigmoid_backward(of_n * shown.conj(), r)
    of_z = sigmoid_backward(alike(of_h * (hx - n).conj(), z), z)
    return cat([of_r, of_z, of_n], dim=1), cat([of_r, of_z, of_n * r.conj()], dim=1), kept


@op(
    formula=r"h' = (1 - z) \odot n + z \odot h \text{, gates of } a = W x + b \text{ and } e = U h + c",
    symbols=_SYMBOLS | {"h": "h'"},
    outputs=("h",),
    aux=("gates", "shown"),
    sums=OF_BIASES,
    samples=_steps(3, 1),
    ranks=(2,),
    reference=torch.gru_cell,
    holomorphic=False,  # the kernels in the rules conjugate by themselves
    method=False,
)
def gru_step(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a gated recurrent unit: see gru_layer (Cho et al. 2014, https://arxiv.org/abs/1406.1078).

    Shapes: input (N, I), hx (N, H), w_ih (3 H, I), w_hh (3 H, H), biases (3 H,); output (N, H).
    """
    if in_one_kernel(input):
        return _gru_kernel(linear(input, w_ih), hx, w_hh, b_ih, b_hh)
    hx, gates = own(hx), linear(input, w_ih, b_ih)
    h, shown = gru_ahead(gates, linear(hx, w_hh, b_hh), hx)
    return h, gates, shown


@gru_step.joint_rule(
    input=r"\bar{a} W",
    hx=r"\bar{e} U + z \odot \bar{h'}",
    w_ih=r"\bar{a}^{\top} x",
    w_hh=r"\bar{e}^{\top} h",
    b_ih=r"\sum \bar{a}",
    b_hh=r"\sum \bar{e}",
)
def _(g, needed, input, hx, w_ih, w_hh, b_ih, b_hh, gates, shown):
    if isinstance(input, Tensor):  # the saved gates have no history
        *gates, shown = gru_again(input, hx, w_ih, w_hh, b_ih, b_hh)
        gates = cat(gates, dim=1)
    of_inputs, of_hidden, kept = gru_back(g, gates, shown, hx)
    of_input = product(of_inputs, w_ih.conj()) if needed[0] else None
    of_hx = product(of_hidden, w_hh.conj()) + kept if needed[1] else None
    return of_input, of_hx, *weight_gradients(of_inputs, of_hidden, input, hx, (b_ih, b_hh))


def _by_cudnn(kept):
    """Whether a layer saved the bytes that cuDNN needs for its gradient on a GPU. A loop over time saves gates."""
    return kept.dtype is torch.uint8 and kept.device.type == "cuda"


def _sequences(gates, states):
    """Both directions, with and without biases, one step, an empty batch."""

    def samples(make: Make):
        for steps, batch, biased, reverse, cudnn in (
            (3, 2, True, False, False),
            (2, 2, False, True, False),
            (1, 1, True, True, False),
            (2, 0, True, False, False),
            (3, 2, True, True, True),
            (2, 1, False, False, True),
        ):
            given = (make(steps, batch, 3), *(make(batch, 2) for _ in range(states)))
            yield Sample.of(*given, *drawn(make, gates, biased), reverse=reverse, cudnn=cudnn)

    return samples


def _order(steps, reverse):
    return range(steps - 1, -1, -1) if reverse else range(steps)


def _before(hidden, first, reverse):
    """The state that each step began with: that of the step before, in the order of steps."""
    return [*hidden[1:], first] if reverse else [first, *hidden[:-1]]


def _by_torch(kernel, states=1):
    """A layer by torch's function, which takes a sequence in one direction and the states of several layers."""

    def reference(input, *given, reverse=False, cudnn=False):
        begun, weights = [one.unsqueeze(0) for one in given[:states]], given[states:]
        sequence = (input.flip(0) if reverse else input, begun if states > 1 else begun[0])
        with torch.backends.cudnn.flags(enabled=False):  # torch has no second derivative of cuDNN's kernel
            out, *ends = kernel(*sequence, weights, len(weights) > 2, 1, 0.0, False, False, False)
        return (out.flip(0) if reverse else out), *(one.squeeze(0) for one in ends)

    return reference


# The simple one.


def _simple(kind, formula):
    """The row of a recurrent layer with one activation."""
    activate, slope = SIMPLE[kind]
    number = {"tanh": RNN_TANH, "relu": RNN_RELU}[kind]

    def layer(input, hx, w_ih, w_hh, b_ih=None, b_hh=None, *, reverse=False, cudnn=False):
        weights = (w_ih, w_hh, b_ih, b_hh)
        if cudnn and runs_on_cudnn(input, (hx, *weights)):
            made = layer_by_cudnn(number, input, hx, None, weights, reverse)
            return *made[:2], *made[3:]
        gates = linear(input, w_ih, b_ih)
        out = [gates] * len(gates)
        for step in _order(len(gates), reverse):
            hx = out[step] = activate(linear(hx, w_hh, b_hh).add_(gates[step]))
        none = input.new_empty(0)
        return torch.stack(out), hx.clone(), none, none

    layer.__name__ = f"rnn_{kind}_layer"
    layer.__doc__ = f"""One layer of a recurrent network with {kind}, over a whole sequence.

    Each state is made of the one before and of an input, by the same weights (Elman 1990). Its gradient is multiplied
    by these weights once for each step back, so it vanishes or explodes.

    Shapes: input (T, N, I), hx (N, H), w_ih (H, I), w_hh (H, H), biases (H,); outputs (T, N, H) and (N, H).
    """
    row = op(
        formula=formula,
        symbols=_SYMBOLS | {"hx": "h_0", "out": "h"},
        outputs=("out", "h"),
        aux=("reserve", "flat"),
        sums=OF_BIASES,
        samples=_sequences(1, 1),
        ranks=(3,),
        reference=_by_torch(getattr(torch, f"rnn_{kind}")),
        holomorphic=False,  # the kernels in the rule conjugate by themselves
        method=False,
    )(layer)

    @row.joint_rule(
        input=r"\bar{a} W",
        hx=r"\bar{a}_1 U",
        w_ih=r"\sum_t \bar{a}_t x_t^{\top}",
        w_hh=r"\sum_t \bar{a}_t h_{t-1}^{\top}",
        b_ih=r"\sum_t \bar{a}_t",
        b_hh=r"\sum_t \bar{a}_t",
    )
    def _(g_out, g_h, needed, input, hx, w_ih, w_hh, b_ih_shape, b_hh_shape, out, reserve, flat, reverse):
        if not isinstance(input, Tensor) and _by_cudnn(reserve):
            biases = [None if shape is None else w_ih.new_empty(shape) for shape in (b_ih_shape, b_hh_shape)]
            weights, kept = (w_ih, w_hh, *biases), (reserve, flat)
            arrived, needs = (g_out, g_h, None), any(needed[2:])
            found = gradients_by_cudnn(number, arrived, needs, input, (hx, None), weights, out, kept, reverse)
            return *found[:2], *found[3:]
        hidden = list(out.unbind(0))
        before = _before(hidden, hx, reverse)
        made = [None] * len(hidden)
        g = g_h
        for step in reversed(_order(len(hidden), reverse)):
            g = total(None if g_out is None else g_out[step], g)
            made[step] = slope(g, hidden[step])
            g = product(made[step], w_hh.conj())
        made = stack(made)
        of_weights = weight_gradients(made, made, input, stack(before), (b_ih_shape, b_hh_shape))
        return (product(made, w_ih.conj()) if needed[0] else None), g, *of_weights

    return row


rnn_tanh_layer = _simple("tanh", r"h_t = \tanh(W x_t + b + U h_{t-1} + c) \text{ from } h_0")
rnn_relu_layer = _simple("relu", r"h_t = \max(0, W x_t + b + U h_{t-1} + c) \text{ from } h_0")


# The long short-term memory.


def _lstms(make: Make):
    yield from _sequences(4, 2)(make)
    w = [make(8, 3), make(8, 1), make(8), make(8), make(1, 2)]
    yield Sample.of(make(3, 2, 3), make(2, 1), make(2, 2), *w, reverse=True)


@op(
    formula=(
        r"c_t = f_t \odot c_{t-1} + i_t \odot g_t \text{, } h_t = V (o_t \odot \tanh c_t) "
        r"\text{, gates of } a_t = W x_t + b + U h_{t-1} + d \text{, from } h_0 \text{ and } c_0"
    ),
    symbols=_SYMBOLS | {"hx": "h_0", "cx": "c_0", "b_hh": "d", "w_hr": "V", "out": "h"},
    outputs=("out", "h", "c"),
    aux=("gates", "cells"),
    sums=OF_BIASES,
    samples=_lstms,
    ranks=(3,),
    reference=_by_torch(torch.lstm, states=2),
    holomorphic=False,  # the kernels in the rule conjugate by themselves
)
def lstm_layer(input, hx, cx, w_ih, w_hh, b_ih=None, b_hh=None, w_hr=None, *, reverse=False, cudnn=False):
    """One layer of long short-term memory over a whole sequence.

    Gates control the parts of the cell that are forgotten, written and shown. A sum keeps the rest, and along this sum
    a gradient goes back without vanishing (Hochreiter and Schmidhuber 1997).

    Shapes: input (T, N, I), hx and cx (N, H), w_ih (4 H, I), w_hh (4 H, H), biases (4 H,); with w_hr (P, H) hx (N, P)
    and w_hh (4 H, P). Outputs (T, N, H or P), (N, H or P) and (N, H).
    """
    weights = (w_ih, w_hh, b_ih, b_hh, w_hr)
    if cudnn and runs_on_cudnn(input, (hx, cx, *weights)):
        return layer_by_cudnn(LSTM, input, hx, cx, weights, reverse)
    if _by_onednn(input, w_hr):
        # The kernel reads memory in order, whatever the strides say.
        input, hx, cx, w_ih, w_hh = (one.contiguous() for one in (input, hx, cx, w_ih, w_hh))
        weights = (w_ih, w_hh, *(w_ih.new_zeros(len(w_ih)) if b is None else b for b in (b_ih, b_hh)))
        biased = b_ih is not None or b_hh is not None
        settings = (reverse, (), LSTM, cx.shape[1], 1, biased, False, False, True)
        out, h, c, workspace = aten.mkldnn_rnn_layer(input, *weights, hx, cx, *settings)
        return out, h.reshape_as(hx), c.reshape_as(cx), workspace, input.new_empty(0)  # in place of the cells
    fused = in_one_kernel(input)
    hx, cx, gates = own(hx), own(cx), linear(input, w_ih, None if fused else b_ih)
    activated = list(gates)
    out, cells = [gates] * len(gates), [gates] * len(gates)
    for step in _order(len(gates), reverse):
        here = activated[step]
        if fused:
            hx, cx, activated[step] = _lstm_kernel(here, hx, cx, w_hh, b_ih, b_hh)
        else:
            hx, cx = lstm_ahead(linear(hx, w_hh, b_hh).add_(here), cx, here)[:2]
        cells[step] = cx
        hx = out[step] = hx if w_hr is None else linear(hx, w_hr)
    gates = torch.stack(activated) if fused else gates  # small steps change them in place
    return torch.stack(out), hx.clone(), cx.clone(), gates, torch.stack(cells)


@lstm_layer.joint_rule(
    input=r"\bar{a} W",
    hx=r"\bar{a}_1 U",
    cx=r"f_1 \odot \bar{c}_1",
    w_ih=r"\sum_t \bar{a}_t x_t^{\top}",
    w_hh=r"\sum_t \bar{a}_t h_{t-1}^{\top}",
    b_ih=r"\sum_t \bar{a}_t",
    b_hh=r"\sum_t \bar{a}_t",
    w_hr=r"\sum_t \bar{h}_t (o_t \odot \tanh c_t)^{\top}",
)
def _(g_out, g_h, g_c, needed, input, hx, cx, w_ih, w_hh, b_ih, b_hh, w_hr, out, h, c, gates, cells, reverse):
    if not isinstance(input, Tensor) and _by_cudnn(gates):
        weights, arrived, needs = (w_ih, w_hh, b_ih, b_hh, w_hr), (g_out, g_h, g_c), any(needed[3:])
        return gradients_by_cudnn(LSTM, arrived, needs, input, (hx, cx), weights, out, (gates, cells), reverse)
    if not isinstance(input, Tensor) and cells.ndim == 1:  # no cells were kept: empty ones have 3 dimensions
        given = (input, hx, cx, w_ih, w_hh, b_ih, b_hh)
        return *_onednn_gradients(g_out, g_h, g_c, given, (out, h, c, gates), reverse), None
    if isinstance(input, Tensor):  # the saved gates and cells have no history
        gates, cells = _lstm_states(input, hx, cx, out, (w_ih, w_hh, b_ih, b_hh), reverse)
    else:
        gates, cells = gates.unbind(0), list(cells.unbind(0))
    before, cells_before = _before(list(out.unbind(0)), hx, reverse), _before(cells, cx, reverse)
    made, shown, of_out = ([None] * len(cells) for _ in range(3))
    for step in reversed(_order(len(cells), reverse)):
        of_h = of_out[step] = total(None if g_out is None else g_out[step], g_h)
        if w_hr is not None:
            of_h = None if of_h is None else product(alike(of_h, w_hr), w_hr.conj())
            shown[step] = gates[step].chunk(4, 1)[3] * tanh(cells[step])
        made[step], g_c = _lstm_step_back(of_h, g_c, gates[step], cells[step], cells_before[step])
        g_h = product(made[step], w_hh.conj())
    made = stack(made)
    of_weights = weight_gradients(made, made, input, stack(before), (b_ih, b_hh))
    of_hr = _added_up(of_out, shown) if w_hr is not None and needed[7] else None
    return (product(made, w_ih.conj()) if needed[0] else None), g_h, g_c, *of_weights, of_hr


def _lstm_step_back(of_h, of_c, gates, cell, cell_before):
    """The gradients of the gates before their activations, and of the cell before."""
    if in_one_kernel(gates):
        return aten._thnn_fused_lstm_cell_backward_impl(of_h, of_c, cell_before, cell, gates, False)[:2]
    parts = gates.chunk(4, 1)
    made, of_c = lstm_back(of_h, of_c, parts, tanh(cell), cell_before)
    return made, of_c * parts[1].conj()


def _by_onednn(input, w_hr):
    """Whether torch too would hand the layer to oneDNN's kernel, which keeps a workspace in place of the gates."""
    if input.device.type != "cpu" or not input.numel() or w_hr is not None or not torch._C._get_mkldnn_enabled():
        return False
    short = input.dtype is torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return (short or input.dtype is torch.float32) and torch.backends.mkldnn.is_available()


def _onednn_gradients(g_out, g_h, g_c, given, results, reverse):
    """The gradients of the layer's inputs by oneDNN's kernel."""
    input, hx, cx, w_ih, w_hh = (one.contiguous() for one in given[:5])
    biases = given[5:]
    out, h, c, workspace = results
    weights = (w_ih, w_hh, *(w_ih.new_zeros(len(w_ih)) if b is None else b for b in biases))
    biased = any(b is not None for b in biases)
    settings = (reverse, LSTM, cx.shape[1], 1, biased, True, False, (), False)
    arrived = [None if g is None else g.contiguous() for g in (g_out, g_h, g_c)]
    arguments = (input, *weights, hx, cx, out, h, c, *arrived, *settings)
    of_input, of_ih, of_hh, of_b, of_c, of_hx, of_cx = aten.mkldnn_rnn_layer_backward(*arguments, workspace)
    of_biases = (of_b, of_c) if biased else (None, None)  # the engine leaves out gradients that nothing needs
    return of_input, of_hx.reshape_as(hx), of_cx.reshape_as(cx), of_ih, of_hh, *of_biases


def _added_up(gradients, states):
    """The gradient of a projection: the products over all steps, some of whose outputs may have no gradient."""
    pairs = zip(gradients, states, strict=True)
    return total(*(None if g is None else product(g.t(), alike(y, g).conj()) for g, y in pairs))


def _lstm_states(input, hx, cx, out, weights, reverse):
    """Gates and cells again, step by step from the inputs and the outputs before them, as recorded ops."""
    w_ih, w_hh, b_ih, b_hh = weights
    hidden = stack(_before(list(out.unbind(0)), hx, reverse))
    summed = input @ w_ih.transpose(0, 1) + alike(hidden, w_hh) @ w_hh.transpose(0, 1)
    bias = total(*(b for b in (b_ih, b_hh) if b is not None))
    summed = summed if bias is None else summed + bias
    i, f, g, o = summed.chunk(4, 2)
    gates = cat([sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)], dim=2).unbind(0)
    cells = [None] * len(gates)
    for step in _order(len(gates), reverse):
        i, f, g, _ = gates[step].chunk(4, 1)
        cx = cells[step] = f * cx + i * g
    return gates, cells


# The gated recurrent unit.


@op(
    formula=(
        r"h_t = (1 - z_t) \odot n_t + z_t \odot h_{t-1} "
        r"\text{, gates of } a_t = W x_t + b \text{ and } e_t = U h_{t-1} + c \text{, from } h_0"
    ),
    symbols=_SYMBOLS | {"hx": "h_0", "out": "h"},
    outputs=("out", "h"),
    aux=("gates", "shown"),
    sums=OF_BIASES,
    samples=_sequences(3, 1),
    ranks=(3,),
    reference=_by_torch(torch.gru),
    holomorphic=False,  # the kernels in the rule conjugate by themselves
)
def gru_layer(input, hx, w_ih, w_hh, b_ih=None, b_hh=None, *, reverse=False, cudnn=False):
    """One layer of gated recurrent units over a whole sequence.

    It does with two gates and one state what long short-term memory does with three gates and two states (Cho et al.
    2014, https://arxiv.org/abs/1406.1078).

    Shapes: input (T, N, I), hx (N, H), w_ih (3 H, I), w_hh (3 H, H), biases (3 H,); outputs (T, N, H) and (N, H).
    """
    weights = (w_ih, w_hh, b_ih, b_hh)
    if cudnn and runs_on_cudnn(input, (hx, *weights)):
        made = layer_by_cudnn(GRU, input, hx, None, weights, reverse)
        return *made[:2], *made[3:]
    fused = in_one_kernel(input)
    hx, gates = own(hx), linear(input, w_ih, None if fused else b_ih)
    activated = list(gates)
    out, shown = [gates] * len(gates), [gates] * len(gates)
    for step in _order(len(gates), reverse):
        if fused:
            hx, activated[step], shown[step] = _gru_kernel(activated[step], hx, w_hh, b_ih, b_hh)
        else:
            hx, shown[step] = gru_ahead(activated[step], linear(hx, w_hh, b_hh), hx)
        out[step] = hx
    gates = torch.stack(activated) if fused else gates  # small steps change them in place
    return torch.stack(out), hx.clone(), gates, torch.stack(shown)


@gru_layer.joint_rule(
    input=r"\bar{a} W",
    hx=r"\bar{a}_1 U + z_1 \odot \bar{h}_1",
    w_ih=r"\sum_t \bar{a}_t x_t^{\top}",
    w_hh=r"\sum_t \bar{e}_t h_{t-1}^{\top}",
    b_ih=r"\sum_t \bar{a}_t",
    b_hh=r"\sum_t \bar{e}_t",
)
def _(g_out, g_h, needed, input, hx, w_ih, w_hh, b_ih, b_hh, out, gates, shown, reverse):
    if not isinstance(input, Tensor) and _by_cudnn(gates):
        weights, arrived, needs = (w_ih, w_hh, b_ih, b_hh), (g_out, g_h, None), any(needed[2:])
        found = gradients_by_cudnn(GRU, arrived, needs, input, (hx, None), weights, out, (gates, shown), reverse)
        return *found[:2], *found[3:]
    before = _before(list(out.unbind(0)), hx, reverse)
    if isinstance(input, Tensor):  # the saved gates have no history
        *gates, shown = gru_again(input, stack(before), w_ih, w_hh, b_ih, b_hh)
        gates = cat(gates, dim=2)
    gates, shown = gates.unbind(0), shown.unbind(0)
    of_inputs, of_hidden = [None] * len(gates), [None] * len(gates)
    for step in reversed(_order(len(gates), reverse)):
        of_h = total(None if g_out is None else g_out[step], g_h)
        of_inputs[step], of_hidden[step], kept = gru_back(of_h, gates[step], shown[step], before[step])
        g_h = product(of_hidden[step], w_hh.conj()) + kept
    of_inputs, of_hidden = stack(of_inputs), stack(of_hidden)
    of_weights = weight_gradients(of_inputs, of_hidden, input, stack(before), (b_ih, b_hh))
    return (product(of_inputs, w_ih.conj()) if needed[0] else None), g_h, *of_weights

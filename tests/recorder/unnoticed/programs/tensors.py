"""Kinds of tensors, views, random numbers, numpy, linear algebra."""

import copy
import gc
import random
import weakref

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from tests.recorder.unnoticed.registry import program


@program("strided nested tensors: arithmetic, a linear layer, attention, to_padded_tensor")
def nested():
    parts = [torch.randn(2, 4), torch.randn(3, 4)]
    nt = torch.nested.nested_tensor(parts, requires_grad=True)
    doubled = nt * 2
    net = nn.Linear(4, 3)
    out = net(nt)
    padded = torch.nested.to_padded_tensor(out, 0.0)
    padded.sum().backward()
    return doubled, out, padded, net.weight.grad, nt.grad


@program("jagged nested tensors: arithmetic, a linear layer, unbind, a backward")
def jagged():
    nt = torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)], layout=torch.jagged, requires_grad=True)
    net = nn.Linear(4, 3)
    out = net(nt * 2).relu()
    loss = sum(one.sum() for one in out.unbind())
    loss.backward()
    return out.unbind(), loss, net.weight.grad, nt.grad.unbind(), nt.offsets(), out.is_nested


@program("attention of jagged tensors")
def jagged_attention():
    q = torch.nested.nested_tensor([torch.randn(2, 2, 4), torch.randn(3, 2, 4)], layout=torch.jagged).transpose(1, 2)
    with torch.no_grad():
        out = functional.scaled_dot_product_attention(q, q, q)
    return out.transpose(1, 2).unbind()


@program("sparse COO tensors: products, coalesce, a sparse gradient of an embedding")
def sparse():
    s = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3)).requires_grad_()
    d = torch.randn(3, 2, requires_grad=True)
    product = torch.sparse.mm(s, d)
    product.sum().backward()
    table = nn.Embedding(5, 2, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters())
    table(torch.tensor([1, 1, 3])).sum().backward()
    kept = table.weight.grad.clone()
    optimizer.step()
    return product, d.grad, s.grad, kept, table, s.detach().to_dense()


@program("compressed sparse tensors: CSR products and conversions")
def compressed():
    dense = torch.tensor([[1.0, 0, 2], [0, 0, 3]])
    csr, csc = dense.to_sparse_csr(), dense.to_sparse_csc()
    x = torch.randn(3, 2, requires_grad=True)
    y = csr @ x
    y.sum().backward()
    return csr, csc, y, x.grad, csr.to_dense()


@program("MaskedTensor: sums and products of what is not masked")
def masked():
    from torch.masked import as_masked_tensor, masked_tensor

    data = torch.randn(2, 3)
    mask = torch.tensor([[True, False, True], [False, True, True]])
    a = masked_tensor(data, mask, requires_grad=True)
    b = a * 2
    total = b.sum()
    total.backward()
    mean = torch.masked.mean(data, 1, mask=mask)
    return (
        b.get_data(),
        b.get_mask(),
        total.get_data(),
        a.grad.get_data(),
        as_masked_tensor(data, mask).get_mask(),
        mean,
    )


@program("complex numbers: conj views, real and imaginary parts, FFT, a real loss")
def complex_numbers():
    z = torch.randn(4, dtype=torch.complex64, requires_grad=True)
    y = torch.fft.fft(z) * z.conj()
    loss = (y.abs() ** 2).sum() + y.real.sum() + torch.view_as_real(z).pow(2).sum()
    loss.backward()
    return y, loss, z.grad, z.conj(), z.detach().conj().imag, torch.polar(torch.ones(2), torch.ones(2))


@program("quantised tensors and fake quantisation")
def quantised():
    x = torch.randn(3, 4, requires_grad=True)
    q = torch.quantize_per_tensor(x.detach(), 0.1, 2, torch.quint8)
    c = torch.quantize_per_channel(x.detach(), torch.tensor([0.1, 0.2, 0.3]), torch.zeros(3), 0, torch.qint8)
    fake = torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)
    fake.sum().backward()
    return q, c, q.dequantize(), fake, x.grad


@program("dynamic quantisation of a model")
def quantised_model():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    made = torch.ao.quantization.quantize_dynamic(net, {nn.Linear}, dtype=torch.qint8)
    return made(torch.randn(3, 4)), type(made[0]).__name__


@program("views and in-place changes: slices, transposes, chunks, index_put_, masked_fill_")
def views():
    x = torch.randn(4, 4, requires_grad=True)
    y = x.clone()
    y[0] = 1.0
    y[:, 1].mul_(2)
    y.t()[2].add_(x[0])
    a, b = y[:2], y[2:]
    a.sub_(b.detach())
    y.index_put_((torch.tensor([3]),), torch.zeros(4))
    y.masked_fill_(y > 2, 0.5)
    y.diagonal().fill_(0.1)
    y.view(-1)[5:7].zero_()
    y.relu_()
    (y * y).sum().backward()
    return y, x.grad, a, b, a._is_view(), a._base is y, y.data_ptr() == a.data_ptr()


@program("leaf tricks: detach_, requires_grad_ in the middle, set_, swap of .data, grad assigned by hand")
def leaf_tricks():
    x = torch.randn(3, requires_grad=True)
    y = (x * 2).detach_()
    y.requires_grad_()
    (y * y).sum().backward()
    x.data = torch.ones(3)
    x.grad = torch.full((3,), 0.5)
    (x * 3).sum().backward()
    z = torch.zeros(2)
    z.set_(torch.ones(4).untyped_storage(), 1, (2,), (1,))
    return x, y, z, x.grad is not None, y.is_leaf


@program("retain_grad, retain_graph, hooks on tensors, remove()")
def tensor_hooks():
    x = torch.randn(3, requires_grad=True)
    y = x * 2
    y.retain_grad()
    seen = []
    handle = y.register_hook(lambda grad: seen.append(grad.clone()))
    x.register_hook(lambda grad: grad * 10)
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.clone()))
    loss = y.pow(2).sum()
    loss.backward(retain_graph=True)
    handle.remove()
    loss.backward()
    return x, y, y.grad, seen


@program("hooks on nodes: register_hook and register_prehook of grad_fn, multi-grad hooks, metadata")
def node_hooks():
    x = torch.randn(3, requires_grad=True)
    y = x.exp()
    seen = []
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append(("post", len(inputs), len(outputs))))
    y.grad_fn.register_prehook(lambda outputs: seen.append(("pre", outputs[0].clone())))
    torch.autograd.graph.register_multi_grad_hook([x, y], lambda grads: seen.append([one is None for one in grads]))
    y.grad_fn.metadata["mine"] = 1
    y.sum().backward()
    return seen, x.grad, y.grad_fn.metadata["mine"], y.grad_fn.name(), y.grad_fn.next_functions[0][0].variable is x


@program("module hooks of all kinds, also global ones")
def module_hooks():
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    seen = []
    net.register_forward_pre_hook(lambda m, args: seen.append(("pre", len(args))))
    net[0].register_forward_hook(lambda m, args, out: out * 2)
    net[1].register_full_backward_hook(lambda m, gi, go: seen.append(("back", gi[0].clone(), go[0].clone())))
    net[0].register_full_backward_pre_hook(lambda m, go: seen.append(("back pre", go[0].clone())))
    net.register_forward_pre_hook(lambda m, args, kwargs: (args, kwargs), with_kwargs=True)
    net.register_forward_hook(lambda m, args, out: seen.append("always"), always_call=True)
    each = nn.modules.module.register_module_forward_hook(lambda m, args, out: seen.append(type(m).__name__))
    out = net(torch.randn(4, 2, requires_grad=True))
    out.sum().backward()
    each.remove()
    return seen, out, net


@program("old backward hooks on modules, of which torch warns")
def old_backward_hooks():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    seen = []
    net[0].register_backward_hook(lambda m, gi, go: seen.append([None if one is None else one.clone() for one in gi]))
    net(torch.randn(4, 2)).sum().backward()
    return seen


@program("Grad-CAM: activations and gradients kept by hooks, a map as an array")
def grad_cam():
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2)).eval()
    kept = {}
    net[1].register_forward_hook(lambda m, a, out: kept.update(act=out))
    net[1].register_full_backward_hook(lambda m, gi, go: kept.update(grad=go[0]))
    out = net(torch.rand(1, 1, 6, 6))
    out[0, out.argmax()].backward()
    weights = kept["grad"].mean((2, 3), keepdim=True)
    heat = functional.relu((weights * kept["act"]).sum(1)).squeeze().detach().numpy()
    return heat / (heat.max() + 1e-9), kept


@program("a subclass of Tensor with __torch_function__ that counts")
def tensor_subclass():
    class Logged(torch.Tensor):
        calls = []  # noqa: RUF012

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.calls.append((func.__name__, [one.__name__ for one in types]))
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(3).as_subclass(Logged)
    y = (x + 1) * torch.ones(3, requires_grad=True)
    z = functional.relu(y).sum()
    z.backward()
    net = nn.Linear(3, 2)
    out = net(x)
    return Logged.calls, type(y).__name__, type(out).__name__, z, net.weight.grad


@program("a wrapper subclass with __torch_dispatch__")
def dispatch_subclass():
    from torch.utils._pytree import tree_map

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.size(), dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            names.append(str(func))
            out = func(*tree_map(lambda one: one.inner if isinstance(one, cls) else one, args), **(kwargs or {}))
            return tree_map(lambda one: cls(one) if isinstance(one, torch.Tensor) else one, out)

    names = []
    x = Wrapper(torch.ones(3)).requires_grad_()
    y = (x * 2).sum()
    y.backward()
    return names, y.inner, x.grad.inner


@program("a TorchFunctionMode of the user's")
def function_mode():
    from torch.overrides import TorchFunctionMode

    class Count(TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.names.append(torch.overrides.resolve_name(func) or str(func))
            return func(*args, **(kwargs or {}))

    net = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))
    with Count() as mode:
        loss = functional.mse_loss(net(torch.ones(1, 2)), torch.zeros(1, 3))
        loss.backward()
    return mode.names, loss


@program("a TorchDispatchMode of the user's: the kernels of a step")
def dispatch_mode():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Kernels(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

    net = nn.Linear(2, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    with Kernels() as mode:
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(1, 2)).pow(2).sum().backward()
            optimizer.step()
    own = {"aten.addmm.default", "aten.mm.default"}  # the mode also sees the kernels with which the recorder copies
    return [one for one in mode.names if one in own], net


@program("custom Functions: several outputs, ctx.needs_input_grad, mark_dirty, once_differentiable, setup_context")
def custom_functions():
    from torch.autograd.function import once_differentiable

    class Both(torch.autograd.Function):
        @staticmethod
        def forward(x, y, scale):
            return x * y * scale, x + y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs[:2])
            ctx.scale = inputs[2]

        @staticmethod
        def backward(ctx, a, b):
            x, y = ctx.saved_tensors
            seen.append(ctx.needs_input_grad)
            return a * y * ctx.scale + b, a * x * ctx.scale + b, None

    class Clip(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.clamp_(-0.5, 0.5)

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            return grad

    seen = []
    x, y = torch.randn(3, requires_grad=True), torch.randn(3)
    a, b = Both.apply(x, y, 2.0)
    c = Clip.apply(a * 1)
    (c + b).sum().backward()
    return a, b, c, x.grad, seen, type(a.grad_fn).__name__


@program("higher order: a gradient of a gradient, a Hessian by rows, a physics-informed loss")
def higher_order():
    net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    t = torch.linspace(0, 1, 6).view(-1, 1).requires_grad_()
    u = net(t)
    (du,) = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)
    (ddu,) = torch.autograd.grad(du, t, torch.ones_like(du), create_graph=True)
    loss = (ddu + u).pow(2).mean() + (u[0] - 1) ** 2
    loss.sum().backward()
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (g,) = torch.autograd.grad((x**3).sum() * x.prod(), x, create_graph=True)
    rows = [torch.autograd.grad(one, x, retain_graph=True)[0] for one in g]
    return net, loss, torch.stack(rows)


@program("autograd.grad with allow_unused, materialize_grads, is_grads_batched, several outputs")
def grad_options():
    x, y, z = (torch.randn(3, requires_grad=True) for _ in range(3))
    out = (x * y).sum()
    first = torch.autograd.grad(out, [x, z], allow_unused=True, retain_graph=True)
    second = torch.autograd.grad(out, [x, z], materialize_grads=True, retain_graph=True)
    third = torch.autograd.grad([x.exp(), (x * y)], [x, y], [torch.ones(3), torch.ones(3)])
    fourth = torch.autograd.grad(x * y, x, torch.eye(3), is_grads_batched=True)
    torch.autograd.backward([out, (x**2).sum()], inputs=[x])
    return first, second, third, fourth, x.grad, y.grad


@program("random states: seeds, generators, fork_rng, get and set state, numpy and random beside it")
def random_states():
    torch.manual_seed(3)
    state = torch.get_rng_state()
    a = torch.rand(2)
    with torch.random.fork_rng():
        torch.manual_seed(9)
        b = torch.randn(2)
    torch.set_rng_state(state)
    c = torch.rand(2)
    generator = torch.Generator().manual_seed(5)
    d = torch.randperm(4, generator=generator), torch.bernoulli(torch.full((3,), 0.5), generator=generator)
    e = (
        functional.dropout(torch.ones(6), 0.5),
        nn.init.kaiming_uniform_(torch.empty(2, 2)),
        torch.normal(0.0, 1.0, (2,)),
    )
    return a, b, c, d, e, np.random.rand(2), random.random(), torch.initial_seed(), generator.get_state()


@program("default dtype and device changed and set back")
def defaults():
    torch.set_default_dtype(torch.float64)
    net = nn.Linear(2, 1)
    net(torch.ones(1, 2)).sum().backward()
    torch.set_default_dtype(torch.float32)
    torch.set_default_device("cpu")
    x = torch.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    with torch.device("meta"):
        far = torch.ones(3) * 2
    torch.set_default_device(None)
    return net, x.grad, far.device, torch.get_default_dtype(), torch.get_default_device()


@program("a default dtype and device that stay changed after the program")
def defaults_that_stay():
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("cpu")
    torch.set_grad_enabled(False)
    torch.set_printoptions(precision=2)
    net = nn.Linear(2, 1)
    torch.use_deterministic_algorithms(True)
    print(torch.rand(2), net.weight)
    return net(torch.ones(2))


@program("numpy: shared memory, __array__, ufuncs on tensors, asarray, dlpack")
def numpy_interop():
    a = np.arange(4, dtype=np.float32)
    t = torch.from_numpy(a)
    t[0] = 9
    w = torch.ones(4, requires_grad=True)
    y = (w * t).sum()
    y.backward()
    b = w.grad.numpy()
    b[1] = 7
    c = np.exp(t), np.asarray(t), t.numpy() is t.numpy(), torch.from_dlpack(a), np.add(a, 1), a + w.detach().numpy()
    try:
        w.numpy()
    except RuntimeError as error:
        print(error)
    return (
        a,
        t,
        b,
        w.grad,
        c,
        torch.as_tensor(a).data_ptr() == t.data_ptr(),
        t.tolist(),
        w[0].item(),
        np.array(w.detach()),
    )


@program("linalg: solve, svd, eigh, cholesky, det, pinv with gradients")
def linear_algebra():
    a = torch.randn(3, 3, dtype=torch.float64)
    s = (a @ a.T + 3 * torch.eye(3, dtype=torch.float64)).requires_grad_()
    b = torch.randn(3, 2, dtype=torch.float64)
    made = [
        torch.linalg.solve(s, b),
        torch.linalg.svdvals(s),
        torch.linalg.eigh(s)[0],
        torch.linalg.cholesky(s),
        torch.linalg.det(s),
        torch.linalg.slogdet(s)[1],
        torch.linalg.pinv(s),
        torch.linalg.inv(s),
        torch.linalg.norm(s),
        torch.linalg.matrix_exp(s / 10),
        torch.linalg.qr(s)[1],
        torch.trace(s),
        torch.einsum("ij,jk->", s, b),
    ]
    sum(one.sum() for one in made).backward()
    return made, s.grad


@program("fft, stft, istft, a spectral loss")
def fourier():
    x = torch.randn(64, requires_grad=True)
    window = torch.hann_window(16)
    spectrum = torch.stft(x, 16, 8, window=window, return_complex=True)
    back = torch.istft(spectrum, 16, 8, window=window, length=64)
    loss = spectrum.abs().pow(2).mean() + torch.fft.rfft(x).abs().sum() + (back - x).pow(2).sum()
    loss.backward()
    return spectrum, back, loss, x.grad, torch.fft.fftfreq(4)


@program("objects that are dropped: weak references die when the program drops its tensors")
def dropped():
    class Big:
        pass

    x = torch.randn(4, requires_grad=True)
    y = x * 2
    held = Big()
    net = nn.Linear(4, 1)
    out = net(y)
    references = [weakref.ref(one) for one in (y, held, out, net, out.grad_fn)]
    out.sum().backward()
    del y, held, out, net
    gc.collect()
    return [one() is None for one in references]


@program("repr and str of tensors, modules, parameters, optimizers, grad_fn")
def printed():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    x = torch.randn(2, 2, requires_grad=True)
    y = x * 2
    print(x, y, y.sum(), net, torch.optim.Adam(net.parameters()), nn.Parameter(torch.ones(2)), sep="\n")
    print(f"{y.sum():.3f} {y.sum().item():.2e} {y.grad_fn} {torch.ones(2, dtype=torch.int64)} {torch.Size([1, 2])}")
    return repr(y), str(net), f"{x.detach()[0, 0]}", repr(list(net.named_parameters())[0]), len(repr(y.grad_fn)) > 10  # noqa: RUF015


@program("Python's protocols on tensors: iter, len, in, bool, index, hash, dict keys, comparisons, pickle of a hash")
def protocols():
    x = torch.arange(4.0)
    keys = {x: "a"}
    n = torch.tensor(2)
    listed = [10, 20, 30][n]
    return (
        [float(one) for one in x],
        len(x),
        2.0 in x,
        bool(x[1] == 1),
        keys[x],
        listed,
        list(range(n)),
        x == x,  # noqa: PLR0124
        (x > 1).any().item(),
        max(x),
        sum(x),
        sorted(x, reverse=True),
        x[torch.tensor([True, False, True, False])],
        x[..., None].shape,
        divmod(7, 2),
        round(x[1].item(), 1),
        abs(-x),
        2**x,
        x // 2,
        x % 3,
        ~(x > 1),
        x.shape[0] * 2,
        isinstance(x, torch.FloatTensor),
        type(x[0]) is torch.Tensor,
    )


@program("iterating over rows, zip, enumerate, unpacking, any and all of Python on tensors")
def iterated():
    x = torch.randn(3, 2, requires_grad=True)
    a, b, c = x
    total = 0
    for at, row in enumerate(x):
        total = total + row.sum() * at
    for left, right in zip(a, b, strict=True):
        total = total + left * right
    (total + c.max()).backward()
    return total, x.grad, any(one > 10 for one in a), all(b == b), min(c), list(x.unbind(1)), [*x.split(2)]  # noqa: PLR0124


@program("copies: copy.copy of a parameter list, clone, new_tensor, torch.tensor of a tensor, of which torch warns")
def copies():
    x = torch.ones(2, requires_grad=True)
    a = torch.tensor(x)
    b = x.new_tensor(x)
    c = copy.deepcopy([x, x])
    d = x.clone().detach().requires_grad_(True)
    return a, b, c, c[0] is c[1], d, x.clone().is_leaf


@program("dtypes: half, bfloat16, mixed promotion, bool masks, integer division, overflow")
def dtypes():
    h, b = (
        torch.randn(3, dtype=torch.half, requires_grad=True),
        torch.randn(3, dtype=torch.bfloat16, requires_grad=True),
    )
    y = h * b + 1
    z = y.double().sum() + (torch.arange(3) / 2).sum()
    z.backward()
    return y, z, h.grad, b.grad, torch.tensor([200], dtype=torch.uint8) + 100, torch.ones(2).to(torch.float8_e4m3fn)


@program("memory formats: channels_last, contiguous, as_strided, expand, unfold")
def memory_formats():
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()).to(
        memory_format=torch.channels_last
    )
    x = torch.randn(2, 3, 5, 5).to(memory_format=torch.channels_last).requires_grad_()
    y = net(x)
    y.sum().backward()
    z = torch.arange(6.0, requires_grad=True)
    s = z.as_strided((2, 3), (1, 2))
    u = z.unfold(0, 3, 1)
    (s.sum() + u.pow(2).sum() + z.expand(2, 6).sum()).backward()
    return y, y.is_contiguous(memory_format=torch.channels_last), x.grad, z.grad, s, u


@program("named tensors, of which torch warns")
def named():
    try:
        x = torch.randn(2, 3, names=("N", "C"))
        return x.sum("C"), x.names, x.rename(None)
    except Exception as error:
        return repr(error)


@program("no_grad, enable_grad, inference_mode and set_grad_enabled as decorators, contexts and calls")
def grad_modes():
    x = torch.ones(2, requires_grad=True)

    @torch.no_grad()
    def quiet(y):
        return y * 2

    @torch.inference_mode()
    def fast(y):
        return y * 3

    made = [quiet(x), fast(x)]
    with torch.no_grad(), torch.enable_grad():
        made.append(x * 4)
    with torch.set_grad_enabled(False):
        made.append(x * 5)
    try:
        (made[1] * x).sum().backward()
    except RuntimeError as error:
        print(error)
    with torch.autograd._unsafe_preserve_version_counter(made[0]):
        made[0].add_(1)
    return made, [one.requires_grad for one in made]

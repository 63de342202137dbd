"""torch's own tools: compile, export, fx, jit, func, AMP, checkpoints, distributed, profiler."""

import copy
import io
import os
import pickle
import threading

import torch
from torch import nn
from torch.nn import functional
from torch.utils import checkpoint as checkpoints

from tests.recorder.unnoticed.registry import program


@program("torch.compile with the eager backend, trained for two steps")
def compiled_eager():
    net = torch.compile(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)), backend="eager")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        loss = net(torch.randn(5, 3)).pow(2).mean()
        loss.backward()
        optimizer.step()
    return [*net.state_dict().items()], loss


@program("torch.compile with aot_eager: a function with a gradient, and a graph break by print")
def compiled_aot():
    @torch.compile(backend="aot_eager")
    def step(x, w):
        y = torch.sin(x) @ w
        print("in the middle")
        return y.relu().sum()

    w = torch.randn(3, 2, requires_grad=True)
    losses = []
    for _ in range(2):
        loss = step(torch.randn(4, 3), w)
        loss.backward()
        losses.append(loss.item())
    return losses, w.grad


@program("torch.compile(fullgraph=True) of what cannot be traced: the error is caught")
def compiled_refused():
    @torch.compile(backend="eager", fullgraph=True)
    def step(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    try:
        step(torch.ones(3))
    except Exception as error:
        return type(error).__name__, str(error).splitlines()[0]


@program("torch.compiler.is_compiling, disable, and cudagraph marks")
def compiler_switches():
    seen = []

    @torch.compiler.disable
    def outside(x):
        seen.append(torch.compiler.is_compiling())
        return x * 2

    @torch.compile(backend="eager")
    def step(x):
        return outside(x) + (1 if torch.compiler.is_compiling() else 0)

    return step(torch.ones(2)), seen, torch.compiler.is_compiling()


@program("torch.export.export of a layer, strict and not")
def exported():
    net = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    x = torch.randn(3, 4)
    loose = torch.export.export(net, (x,))
    strict = torch.export.export(net, (x,), strict=True)
    return loose.graph_module.code, strict.graph_module.code, loose.module()(x), list(loose.state_dict)


@program("torch.export of a layer with parameters that need a gradient, run and differentiated")
def exported_linear():
    net = nn.Linear(4, 2)
    made = torch.export.export(net, (torch.randn(3, 4),))
    module = made.module()
    out = module(torch.ones(3, 4))
    out.sum().backward()
    return str(made.graph_signature), out, [one.grad for one in module.parameters()]


@program("torch.fx: a symbolic trace, its code and table, and a changed graph")
def traced_by_fx():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(x).relu() + functional.softmax(x, -1)

    graph = torch.fx.symbolic_trace(Model())
    print(graph.code)
    for node in graph.graph.nodes:
        if node.op == "call_method" and node.target == "relu":
            with graph.graph.inserting_after(node):
                new = graph.graph.call_method("sigmoid", (node.args[0],))
                node.replace_all_uses_with(new)
            graph.graph.erase_node(node)
    graph.recompile()
    out = graph(torch.randn(2, 3))
    out.sum().backward()
    return graph.code, out, [(node.op, str(node.target)) for node in graph.graph.nodes], graph.linear.weight.grad


@program("fx.Interpreter and make_fx")
def interpreted_by_fx():
    from torch.fx.experimental.proxy_tensor import make_fx

    def function(x):
        return (x.sin() * 2).sum()

    made = make_fx(function)(torch.randn(3))
    names = []

    class Printing(torch.fx.Interpreter):
        def run_node(self, node):
            names.append(node.name)
            return super().run_node(node)

    return made.code, Printing(torch.fx.symbolic_trace(function)).run(torch.ones(2)), names


@program("jit.trace, jit.script, saved and loaded")
def scripted():
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(x).tanh() * x

    net = Gate()
    traced = torch.jit.trace(net, torch.randn(2, 3))
    stream = io.BytesIO()
    torch.jit.save(traced, stream)
    stream.seek(0)
    loaded = torch.jit.load(stream)
    x = torch.randn(2, 3)
    loaded(x).sum().backward()
    return traced.code, loaded(x), net(x), [one.grad for one in loaded.parameters()]


@program("a scripted function with control flow, in an eager model")
def scripted_function():
    @torch.jit.script
    def clamped(x: torch.Tensor, low: float) -> torch.Tensor:
        if bool(x.sum() > 0):
            return x.clamp(min=low)
        return x * 2

    x = torch.randn(4, requires_grad=True)
    y = clamped(x * 3, 0.1)
    y.sum().backward()
    return y, x.grad, clamped.code


@program("AMP autocast on the CPU with a GradScaler")
def autocast():
    net = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    kinds = []
    for _ in range(2):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = net(torch.randn(6, 4))
            loss = functional.mse_loss(out, torch.zeros(6, 1))
            kinds.append((out.dtype, loss.dtype))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return net, kinds, scaler.state_dict()


@program("autocast: nested, disabled inside, its cache, custom_fwd")
def autocast_nested():
    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            return grad * 2

    a, w = torch.randn(3, 3), torch.randn(3, 3, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        first = a @ w
        with torch.autocast("cpu", enabled=False):
            second = a @ w
        third = Double.apply(first @ w)
        states = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    (first.float().sum() + second.sum() + third.sum()).backward()
    return first, second, third, w.grad, states


@program("vmap, grad, jacrev, jacfwd, hessian, jvp, vjp of torch.func")
def functional_transforms():
    from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

    w, x = torch.randn(3), torch.randn(4, 3)

    def loss(w, x):
        return torch.tanh(w @ x).pow(2)

    return (
        vmap(grad(loss), (None, 0))(w, x),
        jacrev(lambda w: torch.sin(w * x[0]))(w),
        jacfwd(lambda w: torch.sin(w * x[0]))(w),
        hessian(loss)(w, x[0]),
        jvp(torch.exp, (w,), (torch.ones(3),)),
        vjp(torch.exp, w)[1](torch.ones(3)),
        vmap(lambda a: a + torch.randn(1), randomness="different")(x),
    )


@program("functional_call and stacked models: an ensemble with vmap")
def ensemble():
    from torch.func import functional_call, grad, stack_module_state, vmap

    nets = [nn.Linear(3, 1) for _ in range(3)]
    params, buffers = stack_module_state(nets)
    base = copy.deepcopy(nets[0]).to("meta")
    x = torch.randn(4, 3)
    out = vmap(lambda p, b: functional_call(base, (p, b), (x,)))(params, buffers)

    def loss(p):
        return functional_call(nets[0], p, (x,)).pow(2).mean()

    each = grad(loss)({key: one.detach() for key, one in nets[0].named_parameters()})
    out.sum().backward()
    return out, each, {key: one.grad for key, one in params.items()}


@program("jacobian, hessian, hvp of torch.autograd.functional")
def autograd_functional():
    from torch.autograd.functional import hessian, hvp, jacobian, vhp

    x = torch.randn(3, requires_grad=True)
    return (
        jacobian(lambda x: x.exp() * x.sum(), x),
        jacobian(lambda x: x.exp(), x, create_graph=True),
        jacobian(lambda x: x.sin(), x, vectorize=True),
        hessian(lambda x: (x**3).sum(), x),
        hvp(lambda x: (x**3).sum(), x, torch.ones(3)),
        vhp(lambda x: (x**4).sum(), x, torch.ones(3)),
    )


@program("forward mode: dual levels, make_dual and unpack_dual")
def forward_mode():
    from torch.autograd import forward_ad

    net = nn.Linear(3, 2)
    x = torch.randn(4, 3)
    with forward_ad.dual_level():
        out = net(forward_ad.make_dual(x, torch.ones_like(x))).tanh()
        primal, tangent = forward_ad.unpack_dual(out)
    return primal, tangent


@program("checkpoints of activations: both kinds, nested, with random numbers inside")
def checkpointed():
    net = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Tanh()) for _ in range(3)])
    x = torch.randn(2, 4, requires_grad=True)
    calls = []

    def inner(y):
        calls.append(1)
        return net[1](y)

    y = checkpoints.checkpoint(net[0], x, use_reentrant=True)
    y = checkpoints.checkpoint(lambda z: checkpoints.checkpoint(inner, z, use_reentrant=False), y, use_reentrant=False)
    y = checkpoints.checkpoint_sequential(net[2], 2, y, use_reentrant=False)
    y.pow(2).sum().backward()
    return net, x.grad, y, calls


@program("a checkpoint without use_reentrant, of which torch warns")
def checkpoint_that_warns():
    net = nn.Linear(2, 2)
    x = torch.randn(3, 2)
    y = checkpoints.checkpoint(net, x, use_reentrant=True)
    return y.requires_grad, y


@program("saved_tensors_hooks: tensors packed on disk, and save_on_cpu")
def saved_tensors():
    packed = []

    def pack(x):
        packed.append(tuple(x.shape))
        return x.numpy()

    x = torch.randn(3, 3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, torch.from_numpy):
        y = (x * x).exp().sum()
    with torch.autograd.graph.save_on_cpu():
        z = (x @ x).sigmoid().sum()
    (y + z).backward()
    try:
        with (
            torch.autograd.graph.disable_saved_tensors_hooks("not here"),
            torch.autograd.graph.saved_tensors_hooks(pack, torch.from_numpy),
        ):
            pass
    except RuntimeError as error:
        print(error)
    return packed, x.grad, y.grad_fn._raw_saved_self if hasattr(y.grad_fn, "_raw_saved_self") else None


@program("torch.save and torch.load of a checkpoint, with weights_only and strict=False")
def checkpoint_files():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.randn(4, 2)).sum().backward()
    optimizer.step()
    torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, "checkpoint.pt")
    loaded = torch.load("checkpoint.pt", weights_only=True)
    other = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    print(other.load_state_dict(loaded["model"]))
    later = torch.optim.Adam(other.parameters())
    later.load_state_dict(loaded["optimizer"])
    found = other.load_state_dict({"0.weight": torch.ones(3, 2), "extra": torch.ones(1)}, strict=False)
    try:
        other.load_state_dict({"0.weight": torch.ones(1, 2)})
    except RuntimeError as error:
        print(error)
    return other, later, found, sorted(os.listdir("."))  # noqa: PTH208


@program("pickle and deepcopy of a trained model and of a tensor with a gradient")
def pickled():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Dropout(0.1))
    net(torch.ones(1, 2)).sum().backward()
    again = pickle.loads(pickle.dumps(net))
    copied = copy.deepcopy(net)
    leaf = torch.ones(2, requires_grad=True)
    leaf.sum().backward()
    both = copy.deepcopy(leaf), pickle.loads(pickle.dumps(leaf)), copy.copy(leaf)
    try:
        copy.deepcopy(leaf * 2)
    except RuntimeError as error:
        print(str(error).splitlines()[0])
    return again, copied, both, pickle.dumps(net.state_dict()) == pickle.dumps(copied.state_dict())


@program("DataLoader in this process: shuffled, with a sampler, a collate function, a generator")
def loader():
    from torch.utils import data

    pairs = data.TensorDataset(torch.randn(10, 3), torch.arange(10))
    first, second = data.random_split(pairs, [7, 3], generator=torch.Generator().manual_seed(4))
    net = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    seen = []
    for x, y in data.DataLoader(first, batch_size=3, shuffle=True, drop_last=True):
        optimizer.zero_grad()
        functional.mse_loss(net(x).squeeze(1), y.float()).backward()
        optimizer.step()
        seen.append(y.tolist())
    sampler = data.WeightedRandomSampler([1.0, 2.0, 3.0], 4)
    for x, y in data.DataLoader(second, batch_size=2, sampler=sampler, collate_fn=data.default_collate):
        seen.append((x.shape, y))
    return net, seen


class _Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((2,), float(index)) ** 2, os.getpid() != _PARENT


_PARENT = os.getpid()


@program("DataLoader with worker processes, and a seed for each")
def loader_with_workers():
    from torch.utils import data

    net = nn.Linear(2, 1)
    drawn = []
    for x, _ in data.DataLoader(
        _Squares(),
        batch_size=2,
        num_workers=2,
        worker_init_fn=lambda number: torch.rand(number),  # noqa: PLW0108
    ):
        net(x).sum().backward()
        drawn.append((x, x.is_shared()))
    return net, drawn


@program("an IterableDataset, and an error of a dataset that is caught")
def iterable():
    from torch.utils import data

    class Stream(data.IterableDataset):
        def __iter__(self):
            yield from (torch.tensor([float(i)]) for i in range(5))

    class Broken(data.Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            raise KeyError(f"no item {index}")

    got = [x * 2 for x in data.DataLoader(Stream(), batch_size=2)]
    try:
        list(data.DataLoader(Broken()))
    except KeyError as error:
        print(repr(error))
    return got


@program("DDP in a single process with gloo")
def one_process_ddp():
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    net = DistributedDataParallel(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        net(torch.randn(4, 3)).pow(2).mean().backward()
        optimizer.step()
    total = torch.ones(2)
    distributed.all_reduce(total)
    with net.no_sync():
        net(torch.ones(1, 3)).sum().backward()
    distributed.destroy_process_group()
    return net.module, total


@program("DTensor and a device mesh of one process")
def dtensor():
    from torch import distributed
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    w = distribute_tensor(torch.randn(4, 2), mesh, [Shard(0)]).requires_grad_()
    x = DTensor.from_local(torch.ones(3, 4), mesh, [Replicate()])
    out = (x @ w).full_tensor()
    out.sum().backward()
    distributed.destroy_process_group()
    return out, w.grad.to_local(), repr(w.placements)


@program("the profiler, record_function and export of a trace")
def profiled():
    from torch.profiler import ProfilerActivity, profile, record_function

    net = nn.Linear(3, 3)
    with profile(activities=[ProfilerActivity.CPU]) as measured, record_function("my block"):
        net(torch.randn(2, 3)).relu().sum().backward()
    names = {one.key for one in measured.key_averages()}
    return {"my block", "aten::linear", "aten::relu", "aten::sum"} <= names, net.weight.grad


@program("profile of autograd: how many ops of each kind ran")
def counted_by_profiler():
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    with torch.autograd.profiler.profile() as measured:
        net(torch.randn(2, 3)).sum().backward()
    own = {"aten::linear", "aten::addmm", "aten::tanh", "aten::tanh_backward", "aten::mm"}
    return sorted((one.key, one.count) for one in measured.key_averages() if one.key in own)


@program("FLOPs counted by a dispatch mode of torch")
def flops():
    from torch.utils.flop_counter import FlopCounterMode

    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    with FlopCounterMode(display=False) as counter:
        net(torch.randn(4, 8)).sum().backward()
    return counter.get_total_flops(), {str(key): value for key, value in counter.get_flop_counts()["Global"].items()}


@program("FakeTensorMode: shapes without memory")
def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        net = nn.Linear(1000, 10)
        out = net(torch.randn(8, 1000))
        out.sum().backward()
    return out.shape, net.weight.grad.shape, type(out).__name__


@program("the meta device: a model without memory, then to_empty")
def meta_device():
    with torch.device("meta"):
        net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    out = net(torch.randn(5, 3, device="meta"))
    out.sum().backward()
    net.zero_grad()
    real = net.to_empty(device="cpu")
    for one in real.parameters():
        nn.init.ones_(one)
    return out.shape, out.device, real, real(torch.ones(1, 3))


@program("a Thread that trains, and its result in a list")
def trained_in_a_thread():
    made = []

    def work():
        net = nn.Linear(3, 1)
        net(torch.ones(2, 3)).sum().backward()
        made.append((net, torch.is_grad_enabled()))

    one = threading.Thread(target=work)
    one.start()
    one.join()
    w = torch.ones(2, requires_grad=True)
    (w * 2).sum().backward()
    return made, w.grad


@program("a pool of threads that evaluates, with no_grad in each")
def pool_of_threads():
    from concurrent.futures import ThreadPoolExecutor

    net = nn.Linear(3, 1)

    @torch.no_grad()
    def score(seed):
        return net(torch.full((2, 3), float(seed)))

    with ThreadPoolExecutor(2) as pool:
        scores = list(pool.map(score, range(4)))
    net(torch.ones(1, 3)).backward()
    return net, scores


@program("torch.jit.fork and wait, and autograd in the backward of a user's function")
def nested_backward():
    class Energy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = (ctx.x**3).sum()
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, grad):
            return torch.autograd.grad(ctx.y, ctx.x)[0] * grad

    x = torch.randn(3, requires_grad=True)
    Energy.apply(x * 2).backward()
    waited = torch.jit.wait(torch.jit.fork(torch.sin, torch.ones(2)))
    return x.grad, waited

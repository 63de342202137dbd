"""The functions that the processes run: each gets the rank, and returns what the test checks."""

import copy
import io
import os
import signal
import time
from typing import Any

import torch
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

import nbgrad
from benchmarks import distributed
from nbgrad import nn
from nbgrad.nn.parallel import DistributedDataParallel as Parallel

X = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(6, 4)


class Branches(nn.Module):
    """A network that uses only the parts which its call names."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.left, self.right, self.never = (nn.Linear(4, 4).double() for _ in range(4))

    def forward(self, x: Any, way: str) -> Any:
        h = self.first(x).tanh()
        return sum(getattr(self, name)(h) for name in way.split())


class TorchBranches(torch.nn.Module):
    """The same network in torch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.left, self.right, self.never = (torch.nn.Linear(4, 4).double() for _ in range(4))

    forward = Branches.forward


def pair(**settings: Any) -> tuple[Parallel, torch.nn.parallel.DistributedDataParallel]:
    """The network in nbgrad's wrapper and in torch's, with the same values."""
    torch.manual_seed(0)
    theirs = TorchBranches()
    ours = Branches()
    ours.load_state_dict(theirs.state_dict())
    return Parallel(ours, **settings), torch.nn.parallel.DistributedDataParallel(theirs, **settings)


def gradients(net: Any) -> dict[str, torch.Tensor | None]:
    """The gradient of each parameter."""
    return {name: None if one.grad is None else one.grad.data.clone() for name, one in net.module.named_parameters()}


def check_alike(ours: Any, theirs: Any) -> None:
    """Raise unless both have the same gradients."""
    for (name, mine), other in zip(gradients(ours).items(), gradients(theirs).values(), strict=True):
        assert (mine is None) == (other is None), name
        if mine is not None:
            torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12, msg=name)


def step(net: Any, x: torch.Tensor, *args: Any) -> None:
    """One backward."""
    net(nbgrad.tensor(x) if isinstance(net, Parallel) else x, *args).square().sum().backward()


def unused(rank: int, settings: dict[str, Any]) -> None:
    """Parameters that one process does not use, and one that none uses."""
    ways = ["left", "left right"] if settings.get("static_graph") is None else ["left", "left"]
    for net in (nets := pair(**settings)):
        for number in range(3):
            if number == 1:
                with net.no_sync():
                    step(net, X + rank, ways[rank])
            step(net, X * (rank + 1), ways[rank])
    check_alike(*nets)
    assert nets[0].module.never.weight.grad is None
    both = gradients(nets[0])
    for net in nets:
        net.zero_grad()
        step(net, X, "left")
    check_alike(*nets)
    assert both.keys() == gradients(nets[0]).keys()


def added_up(rank: int, settings: dict[str, Any]) -> None:
    """Gradients that accumulate over several backwards, and are then kept, replaced or set to zero."""
    nets = pair(find_unused_parameters=True, **settings)
    for net in nets:
        step(net, X * (rank + 1), "left right")
        step(net, X + rank, "left right")  # this gradient is added to an average
        with net.no_sync():
            step(net, X - rank, "left right")
        with net.no_sync():
            step(net, X - 2 * rank, "left right")
        step(net, X, "left")
    check_alike(*nets)
    for net in nets:
        net.zero_grad(set_to_none=False)
        step(net, X * (rank + 2), "right")
    check_alike(*nets)
    for net in nets:
        net.zero_grad()
        loss = net(nbgrad.tensor(X) if net is nets[0] else X, "left").sum()
        with net.no_sync():
            loss.backward()  # the forward ran outside of no_sync
    check_alike(*nets)


def twice(rank: int) -> tuple[torch.Tensor, ...]:
    """Two backwards of one forward, and two forwards of one backward."""
    net = Parallel(nn.Linear(4, 1).double())
    x = nbgrad.tensor(X * (rank + 1))
    loss = net(x).square().sum()
    loss.backward(retain_graph=True)
    once = net.module.weight.grad.data.clone()
    loss.backward()
    second = net.module.weight.grad.data.clone()
    net.zero_grad()
    (net(x).square().sum() + net(x).square().sum()).backward()
    return once, second, net.module.weight.grad.data


def held_gradients(rank: int) -> dict[str, bool]:
    """Whether gradients that somebody still holds survive the next average."""
    net = Parallel(nn.Linear(4, 2).double(), bucket_cap_mb=1.0)
    weight, bias = net.module.weight, net.module.bias
    inputs = nbgrad.tensor(X * (rank + 1))

    def backward(times: float) -> None:
        (net(inputs) * times).sum().backward()

    backward(1.0)
    first = weight.grad.data.clone()
    array = weight.grad.data.numpy()  # holds the memory, and no tensor
    net.zero_grad()
    backward(2.0)
    found = {
        "array": bool((torch.from_numpy(array) == first).all()),
        "doubled": torch.equal(weight.grad.data, 2 * first),
    }
    other, kept = bias.grad, bias.grad.data.clone()
    net.zero_grad()
    backward(4.0)
    found["of the same bucket"] = torch.equal(other.data, kept) and torch.equal(weight.grad.data, 4 * first)
    del array, other
    net.zero_grad()
    address = net._reducer.buckets[0].flat.data_ptr()
    backward(1.0)
    found["memory is used again"] = net._reducer.buckets[0].flat.data_ptr() == address
    found["no copy"] = any(weight.grad.data_ptr() == view.data_ptr() for view in net._reducer.buckets[0].views)
    before, alias = weight.grad, weight.grad.data.clone()

    def fail(_: Any) -> None:
        raise ValueError("stop")

    handle = bias.register_hook(fail)
    try:
        backward(1.0)
    except ValueError:
        found["failed"] = weight.grad is before and torch.equal(before.data, alias)
    handle.remove()
    return found


def seen_by_hooks(rank: int) -> dict[str, Any]:
    """The gradients that hooks on a parameter get, also in backwards that do not average."""
    torch.manual_seed(0)
    net = Parallel(nn.Linear(4, 1).double())
    weight = net.module.weight
    seen: dict[str, Any] = {}
    before = weight.register_hook(lambda grad: seen.update(before=grad.data.clone()))
    after = weight.register_post_accumulate_grad_hook(lambda one: seen.update(after=one.grad.data.clone()))
    x = nbgrad.tensor(X * (rank + 1))
    net(x).sum().backward()
    before.remove()
    after.remove()
    weight.register_hook(lambda grad: grad * 2)
    net.zero_grad()
    net(x).sum().backward()
    seen["doubled"] = weight.grad.data.clone()
    (alone,) = nbgrad.autograd.grad(net(x).sum(), [weight])
    seen["alone"] = alone.data
    return seen


def refused(rank: int) -> list[str]:
    """The messages of calls that are refused. Processes may run one after the other: none of these calls sends."""
    found = []
    for attempt in attempts(Parallel(nn.Linear(4, 1).double()), nbgrad.tensor(X)):
        try:
            attempt()
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
        else:
            found.append("nothing")
    again = Parallel(nn.Linear(4, 1).double())  # the processes still agree
    again(nbgrad.tensor(X)).sum().backward()
    return found


def attempts(net: Parallel, x: Any) -> tuple[Any, ...]:
    """Calls that each raise an error."""
    return (
        lambda: net(x).square().sum().backward(create_graph=True),
        lambda: Parallel(net),
        lambda: Parallel(nn.Sequential(net)),
        lambda: Parallel(nn.Sequential(net.module)),
        lambda: Parallel(nn.ReLU()),
        lambda: Parallel(nn.Linear(2, 2).requires_grad_(False)),
        lambda: Parallel(nn.LazyLinear(2)),
        lambda: Parallel(torch.nn.Linear(2, 2)),
        lambda: Parallel("net"),
        lambda: Parallel(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, device="meta"))),
        lambda: Parallel(nn.Linear(2, 2), device_ids=[0]),
        lambda: Parallel(nn.Linear(2, 2), mixed_precision=torch.float16),
        lambda: net.register_comm_hook(None, 3),
        lambda: torch.nn.parallel.DistributedDataParallel(nn.Linear(2, 2)),
        lambda: torch.nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm1d(2))),
    )


def wrapped_again(rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A module after its wrapper is gone."""
    inner = nn.Linear(4, 1).double()
    net = Parallel(inner)
    net(nbgrad.tensor(X)).sum().backward()
    del net
    inner.zero_grad()
    inner(nbgrad.tensor(X * (rank + 1))).sum().backward()
    alone = inner.weight.grad.data.clone()
    inner.zero_grad()
    Parallel(inner)(nbgrad.tensor(X * (rank + 1))).sum().backward()  # the wrapper is gone before the backward begins
    return alone, inner.weight.grad.data


# Communication hooks.


def comm_hooks(rank: int) -> dict[str, float]:
    """The differences between the gradients with torch's hooks and the average."""
    far = {}
    group = torch.distributed.group.WORLD
    power = powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=2, start_powerSGD_iter=2)
    for name, state, hook in (
        ("average", None, default_hooks.allreduce_hook),
        ("fp16", None, default_hooks.fp16_compress_hook),
        ("bf16", None, default_hooks.bf16_compress_hook),
        ("wrapped", group, default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)),
        ("power", power, powerSGD_hook.powerSGD_hook),
    ):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 1))
        plain, hooked = Parallel(copy.deepcopy(net)), Parallel(net, bucket_cap_mb=0.0001)
        hooked.register_comm_hook(state, hook)
        for one in (plain, hooked):
            for _ in range(2):
                one(nbgrad.tensor(X.float() * (rank + 1))).sum().backward()
        pairs = zip(gradients(plain).values(), gradients(hooked).values(), strict=True)
        far[name] = max(float((a - b).abs().max() / a.abs().max()) for a, b in pairs)
    return far


def own_hook(rank: int) -> list[Any]:
    """The arguments that a hook of the user's gets."""
    seen: list[Any] = []

    def hook(state, bucket):
        names = [name for name, one in net.module.named_parameters() if any(one is two for two in bucket.parameters())]
        seen.append((bucket.index(), bucket.is_last(), names, [tuple(one.shape) for one in bucket.gradients()]))
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        future.set_result(torch.full_like(bucket.buffer(), 7.0))
        return future

    net = Parallel(nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 1)), bucket_cap_mb=0.00001)
    net.register_comm_hook(None, hook)
    net(nbgrad.tensor(X.float())).sum().backward()
    assert all(bool((one == 7).all()) for one in gradients(net).values())
    return seen


# Other things that programs do to parameters and gradients.


def tools(rank: int) -> dict[str, Any]:
    """Clipping, scaling, averages of parameters, copies and checkpoints."""
    torch.manual_seed(rank)
    net = Parallel(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)))
    optimizer = nbgrad.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    scaler = nbgrad.amp.GradScaler("cpu", init_scale=2.0**40, growth_interval=3)
    average = nbgrad.optim.swa_utils.AveragedModel(net)
    x = nbgrad.tensor(X.float() * (rank + 1))
    found: dict[str, Any] = {"norms": [], "scales": []}
    for number in range(8):
        optimizer.zero_grad()
        with nbgrad.autocast("cpu", dtype=torch.bfloat16):
            loss = net(x).float().square().mean()
        if rank == 0 and number == 0:
            loss = loss * float("inf")  # only this process has the infinity, and all processes skip the step
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        found["norms"].append(float(nn.utils.clip_grad_norm_(net.parameters(), 0.5)))
        scaler.step(optimizer)
        scaler.update()
        found["scales"].append(scaler.get_scale())
        average.update_parameters(net)
    file = io.BytesIO()
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    loaded = torch.load(file)
    assert all(name.startswith("module.") for name in loaded["net"])
    other = copy.deepcopy(net)
    other.load_state_dict(loaded["net"])
    other(x).sum().backward()
    found["copy"] = [one.grad.data for one in other.parameters()]
    found["state"] = [*net.state_dict().values(), *average.module.state_dict().values()]
    return found


def converted(rank: int) -> list[torch.Tensor]:
    """A converted torch module with torch's optimizer, compared with torch's own wrapper."""
    torch.manual_seed(rank)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1)).double()
    other = torch.nn.parallel.DistributedDataParallel(copy.deepcopy(net))
    ours = Parallel(nbgrad.from_torch(net), gradient_as_bucket_view=True)
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in (net, other)]
    for number in range(3):
        x = X * (rank + 1) + number
        for optimizer in optimizers:
            optimizer.zero_grad()
        ours(nbgrad.tensor(x)).square().sum().backward()
        other(x).square().sum().backward()
        for optimizer in optimizers:
            optimizer.step()
    for mine, theirs in zip(net.state_dict().values(), other.module.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)
    # Without the check: torch's own SyncBatchNorm does not run on a CPU.
    synchronized = nbgrad.from_torch(
        torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.SyncBatchNorm(2)).double(), check=False
    )
    Parallel(synchronized)(nbgrad.tensor(X + rank)).square().sum().backward()
    return [one.clone() for one in synchronized.state_dict().values()]


def buffers(rank: int) -> list[Any]:
    """Each process uses rank 0's running statistics in a forward, or its own if ``forward_sync_buffers`` is False."""
    found = []
    for settings in ({}, {"forward_sync_buffers": False}):
        net = Parallel(nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 1)), **settings)
        for number in range(2):
            net(nbgrad.tensor(X.float() * (rank + 1) + number)).sum().backward()
            found.append(net.module[0].running_mean.data.clone())
        net.eval()
        with nbgrad.no_grad():
            net(nbgrad.tensor(X.float()))
        found.append(net.module[0].running_mean.data.clone())
    net = nn.Linear(4, 1)
    Parallel._set_params_and_buffers_to_ignore_for_model(net, ["bias"])
    net.bias.data.fill_(rank)
    wrapped = Parallel(net)
    wrapped(nbgrad.tensor(X.float() * (rank + 1))).square().sum().backward()
    return [*found, net.bias.data.clone(), net.bias.grad.data, net.weight.grad.data]


def sampled(rank: int) -> list[int]:
    """The rows of a data set that torch's sampler gives this process."""
    rows = torch.utils.data.TensorDataset(torch.arange(10))
    sampler = torch.utils.data.DistributedSampler(rows, shuffle=True, seed=3)
    sampler.set_epoch(2)
    loader = torch.utils.data.DataLoader(rows, batch_size=2, sampler=sampler)
    return [int(one) for (batch,) in loader for one in batch]


def overlapping(rank: int) -> tuple[int, list[int]]:
    """The number of buckets, and how many are on their way whenever the gradient of a layer's output is there."""
    layers = [nn.Linear(16, 16) for _ in range(6)]
    net = Parallel(nn.Sequential(*layers), bucket_cap_mb=0.001)
    on_their_way: list[int] = []

    def count(_: Any) -> None:
        on_their_way.append(sum(one.work is not None for one in net._reducer.buckets))

    def watch(_module: Any, _args: Any, out: Any) -> None:
        out.register_hook(count)

    for layer in layers:
        layer.register_forward_hook(watch)
    for _ in range(2):
        on_their_way.clear()
        net(nbgrad.randn(2, 16)).sum().backward()
    return len(net._reducer.buckets), on_their_way


def measured(rank: int, name: str) -> tuple[list[list[float]], Any]:
    """The losses of both libraries in a benchmark, and a trace."""
    steps = [distributed.wrapped(distributed.STEPS[name][0], library) for library in (torch, nbgrad)]
    losses = [[float(step().detach()) for _ in range(4)] for step in steps]
    return losses, distributed.traced(steps[1])


class Backwards(nn.Module):
    """A network that calls its parts in the reverse order of their creation."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(4, 4).double() for _ in range(4)])

    def forward(self, x: Any) -> Any:
        for part in reversed(list(self.parts)):
            x = part(x).tanh()
        return x


def rebuilt(rank: int) -> tuple[list[Any], ...]:
    """The order of buckets before the first backward, and after it."""
    torch.manual_seed(0)
    net = Parallel(Backwards(), bucket_cap_mb=0.0001)
    before = [bucket.numbers for bucket in net._reducer.buckets]
    totals = []
    for _ in range(3):
        net.zero_grad()
        net(nbgrad.tensor(X * (rank + 1))).sum().backward()
        totals.append(sum(float(one.grad.sum()) for one in net.parameters()))
    return before, [bucket.numbers for bucket in net._reducer.buckets], totals


# Uneven inputs.


def joined(rank: int, settings: dict[str, Any], divide_by_all: bool) -> None:
    """Four batches in rank 0 and fewer in the others: nbgrad's wrapper and torch's do the same."""
    nets = pair(find_unused_parameters=True, **settings)
    optimizers = [nbgrad.optim.SGD(nets[0].parameters(), lr=0.1), torch.optim.SGD(nets[1].parameters(), lr=0.1)]
    for net, optimizer in zip(nets, optimizers, strict=True):
        with net.join(divide_by_initial_world_size=divide_by_all):
            for number in range(4 - 3 * rank):
                optimizer.zero_grad()
                step(net, X * 0.1 * (number + rank + 1), "left right")
                optimizer.step()
    for mine, other in zip(nets[0].module.parameters(), nets[1].module.parameters(), strict=True):
        torch.testing.assert_close(mine.data, other.data, rtol=1e-12, atol=1e-12)


def joined_with_buffers(rank: int) -> list[torch.Tensor]:
    """A process that never has a batch. Its module has buffers and several buckets."""
    torch.manual_seed(rank)
    net = Parallel(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)), bucket_cap_mb=0.00001)
    optimizer = nbgrad.optim.SGD(net.parameters(), lr=0.1)
    with net.join():
        for number in range(3 * rank):
            optimizer.zero_grad()
            if number == 1:
                with net.no_sync():
                    net(nbgrad.tensor(X.float())).sum().backward()
            net(nbgrad.tensor(X.float() + number)).sum().backward()
            optimizer.step()
    return list(net.state_dict().values())


def thrown(rank: int) -> None:
    """A loop that ends in all processes when it ends in one."""
    net = Parallel(nn.Linear(4, 1).double())
    with net.join(throw_on_early_termination=True):
        for _ in range(1 + rank):
            net(nbgrad.tensor(X)).sum().backward()


# Processes that fail.


def different(rank: int, kind: str) -> None:
    """Modules that are not the same in each process."""
    nets = {
        "shape": lambda: nn.Linear(4, 2 + rank),
        "count": lambda: nn.Linear(4, 2, bias=rank == 0),
        "type": lambda: nn.Linear(4, 2, dtype=torch.float64 if rank else torch.float32),
        "frozen": lambda: nn.Sequential(nn.Linear(4, 2).requires_grad_(rank == 0), nn.Linear(2, 2)),
    }
    Parallel(nets[kind]())


def missing(rank: int, ranks: tuple[int, ...], settings: dict[str, Any]) -> None:
    """Gradients that never arrive in some processes."""
    torch.manual_seed(0)
    net = Parallel(Branches(), bucket_cap_mb=0.0001, **settings)
    net.module.never.requires_grad_(True)
    step(net, X, "left right never")
    held = gradients(net)
    try:
        step(net, X, "left right" if rank in ranks else "left right never")
    except RuntimeError:
        after = gradients(net)
        assert all(torch.equal(held[name], after[name]) for name in held)  # nothing has been written
        raise


def failing(rank: int, how: str, where: str) -> None:
    """One process that ends, at some point of its work; the others go on."""
    torch.manual_seed(0)
    size = torch.distributed.get_world_size()
    culprit = 0 if how == "keeper dies" else size - 1
    norm = [nn.SyncBatchNorm(4)] if where == "norm" else [nn.BatchNorm1d(4)]
    net = Parallel(nn.Sequential(nn.Linear(4, 4), *norm, nn.Tanh(), nn.Linear(4, 1)), bucket_cap_mb=0.00001)
    x = nbgrad.tensor(X.float())

    def end(*_: Any) -> None:
        if rank != culprit:
            return
        if how == "raises":
            raise ValueError("the seventh row is broken")
        if how == "is interrupted":
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)  # another thread may get the signal, and a busy computer takes its time
        os.kill(os.getpid(), signal.SIGKILL)

    for number in range(6):
        if number == 3:
            if where == "step":
                end()
            place = net.module[0 if where == "norm" else 3]
            if where == "norm":
                place.register_forward_hook(end)
            elif where == "backward":
                net.module[0].weight.register_hook(end)  # at this time the first bucket is on its way
        net(x).square().sum().backward()


def slow(rank: int) -> float:
    """A process is slower than one wait of the others: this is no error."""
    net = Parallel(nn.Linear(4, 1).double())
    if rank == 1:
        time.sleep(1.6)
    net(nbgrad.tensor(X)).sum().backward()
    return float(net.module.weight.grad.sum())


# SyncBatchNorm.


def normalized(rank: int, dims: int, empty: bool) -> None:
    """The output, gradients and statistics of each process, next to those of one with the whole batch."""
    torch.manual_seed(3)
    size = torch.distributed.get_world_size()
    whole = torch.randn(9, 3, *(2,) * dims, dtype=torch.float64) * 2 + 1
    target = torch.randn_like(whole)
    sizes = [0, 9] if empty else [2, 7] if size == 2 else [1, 2, 5, 1]
    part = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    kinds = {0: nn.BatchNorm1d, 1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
    plain = kinds[dims](3, dtype=torch.float64, momentum=None if dims == 1 else 0.1)
    plain.weight.data.uniform_(0.5, 2)
    plain.bias.data.uniform_()
    ours = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain))
    assert isinstance(ours, nn.SyncBatchNorm)
    x = nbgrad.tensor(whole, requires_grad=True)
    mine = nbgrad.tensor(whole[part].clone(), requires_grad=True)
    for net, given, wanted in ((plain, x, target), (ours, mine, target[part])):
        for _ in range(2):
            out = net(given)
            loss = (out * nbgrad.tensor(wanted)).tanh().sum()
            loss.backward(retain_graph=True)
    check = lambda a, b: torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)  # noqa: E731
    check(mine.grad.data, x.grad.data[part])
    for a, b in zip(ours.buffers(), plain.buffers(), strict=True):
        check(a.data, b.data)
    for a, b in zip(ours.parameters(), plain.parameters(), strict=True):
        total = a.grad.data.clone()
        torch.distributed.all_reduce(total)
        check(total, b.grad.data)
    seconds = []
    for net, given, wanted in ((plain, x, target), (ours, mine, target[part])):
        (first,) = nbgrad.autograd.grad((net(given) * nbgrad.tensor(wanted)).tanh().sum(), [given], create_graph=True)
        seconds.append(nbgrad.autograd.grad(first.square().sum(), [given])[0].data)
    check(seconds[1], seconds[0][part])
    ours.eval()
    plain.eval()
    check(ours(mine).data, plain(x).data[part])


def half(rank: int) -> tuple[torch.dtype, torch.dtype]:
    """Images of bfloat16, in the layout of channels last."""
    net = nn.SyncBatchNorm(3)
    x = torch.randn(2, 3, 4, 4, dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    given = nbgrad.tensor(x, requires_grad=True)
    out = net(given)
    assert out.data.is_contiguous(memory_format=torch.channels_last)
    out.sum().backward()
    return out.dtype, given.grad.dtype


def lone_value(rank: int) -> None:
    """One value per channel in all processes together."""
    nn.SyncBatchNorm(3)(nbgrad.randn(1 - rank, 3))

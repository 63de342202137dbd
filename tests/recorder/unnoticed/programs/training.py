"""Training loops, as tutorials write them."""

import copy
import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from tests.recorder.unnoticed.registry import program


@program("linear regression by hand: backward, update under no_grad, grad.zero_()")
def by_hand():
    x = torch.linspace(-1, 1, 20)
    y = 3 * x + 1 + 0.1 * torch.randn(20)
    w, b = torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    losses = []
    for _ in range(10):
        loss = ((w * x + b - y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
            b -= 0.1 * b.grad
        w.grad.zero_()
        b.grad.zero_()
        losses.append(loss.item())
    print(f"w {w.item():.4f} b {b.item():.4f}")
    return w, b, losses


@program("update through .data and grad.data.zero_()")
def by_data():
    w = torch.randn(3, 1, requires_grad=True)
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    for _ in range(4):
        loss = (x.mm(w) - y).pow(2).sum()
        loss.backward()
        w.data -= 0.01 * w.grad.data
        w.grad.data.zero_()
    return w, w.grad, loss


@program("MLP with Adam, zero_grad, loss.item() printed")
def mlp():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    for epoch in range(5):
        optimizer.zero_grad()
        loss = nn.CrossEntropyLoss()(net(x), y)
        loss.backward()
        optimizer.step()
        print("epoch", epoch, loss.item())
    return net, optimizer, loss


@program("convolutional network with batch norm and dropout, train and eval")
def convnet():
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(36, 5),
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3, nesterov=True)
    x, y = torch.randn(6, 1, 8, 8), torch.randint(0, 5, (6,))
    for _ in range(3):
        net.train()
        optimizer.zero_grad(set_to_none=False)
        loss = functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        accuracy = (net(x).argmax(1) == y).float().mean()
    return net, optimizer, accuracy, net(x)


@program("every optimizer of torch, some steps each")
def optimizers():
    made = {}
    for name in ("SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "RMSprop", "Rprop", "ASGD", "NAdam", "RAdam", "Adamax"):
        torch.manual_seed(1)
        net = nn.Linear(3, 2)
        optimizer = getattr(torch.optim, name)(net.parameters(), lr=0.05)
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.randn(4, 3)).square().mean().backward()
            optimizer.step()
        made[name] = net, optimizer, sorted(optimizer.defaults.items(), key=str)
    return made


@program("foreach, fused, capturable, maximize and amsgrad choices of optimizers")
def optimizer_choices():
    made = []
    for settings in ({"foreach": True}, {"foreach": False}, {"fused": True}, {"amsgrad": True}, {"maximize": True}):
        torch.manual_seed(2)
        net = nn.Linear(3, 3)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.05, **settings)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.randn(5, 3)).tanh().sum().backward()
            optimizer.step()
        made.append((net, optimizer))
    return made


@program("LBFGS with a closure")
def lbfgs():
    x = torch.tensor([-1.2, 1.0], requires_grad=True)
    optimizer = torch.optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=8)
    calls = []

    def closure():
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        calls.append(loss.item())
        return loss

    for _ in range(2):
        optimizer.step(closure)
    return x, calls, optimizer


@program("Adam with a closure that returns the loss")
def closure_of_adam():
    net = nn.Linear(2, 1)
    optimizer = torch.optim.Adam(net.parameters())

    def closure():
        optimizer.zero_grad()
        loss = net(torch.ones(3, 2)).pow(2).mean()
        loss.backward()
        return loss

    losses = [optimizer.step(closure) for _ in range(3)]
    return net, losses


@program("learning rate schedulers, and printed rates")
def schedulers():
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    kinds = [
        torch.optim.lr_scheduler.StepLR(optimizer, 2),
        torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5),
        torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.9**epoch),
        torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95),
    ]
    rates = []
    for _ in range(4):
        optimizer.zero_grad()
        net(torch.randn(3, 2)).sum().backward()
        optimizer.step()
        for one in kinds:
            one.step()
        rates.append(optimizer.param_groups[0]["lr"])
    print(rates)
    return net, rates, [one.state_dict() for one in kinds if not isinstance(one, torch.optim.lr_scheduler.LambdaLR)]


@program("ReduceLROnPlateau and early stopping with the best weights kept")
def plateau():
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    x = torch.randn(10, 2)
    y = x.sum(1, keepdim=True)
    best, kept, waited = math.inf, None, 0
    for epoch in range(12):  # noqa: B007
        optimizer.zero_grad()
        loss = functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step(loss)
        if loss.item() < best - 1e-3:
            best, kept, waited = loss.item(), copy.deepcopy(net.state_dict()), 0
        else:
            waited += 1
        if waited > 2:
            break
    return epoch, best, kept, optimizer


@program("a scheduler that steps before its optimizer: torch warns")
def scheduler_before_optimizer():
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    scheduler.step()
    scheduler.step()
    return optimizer.param_groups[0]["lr"]


@program("a scheduler after optimizer.step(), which must not warn")
def scheduler_after_optimizer():
    net = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=5)
    for _ in range(4):
        optimizer.zero_grad()
        net(torch.randn(2, 2)).sum().backward()
        optimizer.step()
        scheduler.step()
    return optimizer, scheduler.get_last_lr()


@program("clip_grad_norm_ and clip_grad_value_")
def clipped():
    net = nn.LSTM(3, 4, 2)
    optimizer = torch.optim.RMSprop(net.parameters())
    norms = []
    for _ in range(3):
        optimizer.zero_grad()
        out, _ = net(torch.randn(5, 2, 3))
        (out**2).sum().backward()
        norms.append(torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5))
        torch.nn.utils.clip_grad_value_(net.parameters(), 0.1)
        optimizer.step()
    return net, norms


@program("gradient accumulation over small batches")
def accumulated():
    net = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(6):
        loss = net(torch.randn(2, 3)).square().mean() / 3
        loss.backward()
        if (step + 1) % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
    return net, [one.grad for one in net.parameters()]


@program("exponential moving average of the weights")
def moving_average():
    net = nn.Linear(3, 3)
    shadow = copy.deepcopy(net)
    for one in shadow.parameters():
        one.requires_grad_(False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.randn(4, 3)).pow(2).sum().backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(shadow.parameters(), net.parameters(), strict=True):
                slow.mul_(0.9).add_(fast, alpha=0.1)
    return net, shadow


@program("torch.optim.swa_utils: an averaged model and its batch norm")
def averaged():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    average = torch.optim.swa_utils.AveragedModel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scheduler = torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.randn(6, 3)).pow(2).mean().backward()
        optimizer.step()
        average.update_parameters(net)
        scheduler.step()
    torch.optim.swa_utils.update_bn([torch.randn(6, 3)], average)
    return net, average


@program("layers frozen, and an optimizer over the others")
def frozen():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    for one in net[0].parameters():
        one.requires_grad = False
    optimizer = torch.optim.Adam(filter(lambda one: one.requires_grad, net.parameters()))
    net(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    return net, net[0].weight.grad, optimizer


@program("parameter groups with their own rates, and a group that is added later")
def groups():
    net = nn.ModuleDict({"body": nn.Linear(3, 3), "head": nn.Linear(3, 1)})
    optimizer = torch.optim.AdamW([{"params": net["body"].parameters(), "lr": 1e-3}], lr=1e-2)
    optimizer.add_param_group({"params": net["head"].parameters(), "weight_decay": 0.0})
    for _ in range(2):
        optimizer.zero_grad()
        net["head"](net["body"](torch.randn(4, 3)).relu()).mean().backward()
        optimizer.step()
    return net, optimizer


@program("numpy batches, shuffled with numpy's generator")
def numpy_batches():
    data = np.random.randn(20, 3).astype(np.float32)
    net = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(2):
        for part in np.array_split(np.random.permutation(20), 4):
            batch = torch.from_numpy(data[part])
            optimizer.zero_grad()
            loss = (net(batch) - batch.sum(1, keepdim=True)).abs().mean()
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
    return net, np.array(losses)


@program("optimizer hooks before and after a step, and of state dicts")
def optimizer_hooks():
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)
    seen = []
    optimizer.register_step_pre_hook(
        lambda one, args, kwargs: seen.append(("before", type(one).__name__, args, kwargs))
    )
    optimizer.register_step_post_hook(lambda one, args, kwargs: seen.append(("after", len(one.state))))
    optimizer.register_state_dict_post_hook(lambda one, state: seen.append(sorted(state)))
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    return seen, optimizer


@program("a user's own optimizer, a subclass of torch's")
def own_optimizer():
    class Sign(torch.optim.Optimizer):
        def __init__(self, params, lr=0.01):
            super().__init__(params, {"lr": lr})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for one in group["params"]:
                    if one.grad is not None:
                        self.state[one]["steps"] = self.state[one].get("steps", 0) + 1
                        one.add_(one.grad.sign(), alpha=-group["lr"])

    net = nn.Linear(3, 1)
    optimizer = Sign(net.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.randn(4, 3)).sum().backward()
        optimizer.step()
    return net, dict(optimizer.state_dict()["state"])


@program("the optimizer steps in the hook of each gradient")
def step_in_backward():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    optimizers = {one: torch.optim.SGD([one], lr=0.1) for one in net.parameters()}

    def update(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for one in net.parameters():
        one.register_post_accumulate_grad_hook(update)
    for _ in range(3):
        net(torch.randn(4, 3)).pow(2).mean().backward()
    return net, [one.grad for one in net.parameters()]

"""The parts that all optimizers share: groups, gradients, state, errors."""

import copy
import pickle

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

import nbgrad
from nbgrad import nn, optim
from nbgrad.optim.torch_optimizer import TorchOptimizer


def stepped(momentum=0.9):
    """An optimizer that has made one step on two parameters in two groups."""
    params = [nn.Parameter([1.0, 2.0]), nn.Parameter([[3.0]])]
    for param in params:
        param.grad = torch.ones(param.shape)
    sgd = optim.SGD([{"params": params[0]}, {"params": params[1:], "lr": 0.5}], lr=0.1, momentum=momentum)
    sgd.step()
    return sgd, params


def test_groups_have_settings_of_their_own():
    sgd, params = stepped()
    assert [group["lr"] for group in sgd.param_groups] == [0.1, 0.5]
    torch.testing.assert_close(params[0].data, torch.tensor([0.9, 1.9]))
    torch.testing.assert_close(params[1].data, torch.tensor([[2.5]]))
    sgd.param_groups[0]["lr"] = 0
    sgd.step()
    torch.testing.assert_close(params[0].data, torch.tensor([0.9, 1.9]))


def test_a_group_can_be_added_later():
    sgd = optim.SGD(nn.Linear(2, 3).parameters(), lr=0.1)
    late = nn.Parameter([1.0])
    sgd.add_param_group({"params": late, "lr": 1.0})
    late.grad = torch.ones(1)
    sgd.step()
    assert late.item() == 0
    assert sgd.param_groups[1]["momentum"] == 0


def test_zero_grad_drops_or_fills_in_place():
    sgd, params = stepped()
    held = params[0].grad.data
    sgd.zero_grad(set_to_none=False)
    assert held.eq(0).all()
    assert params[0].grad.data.data_ptr() == held.data_ptr()
    sgd.zero_grad()
    assert [param.grad for param in params] == [None, None]
    sgd.zero_grad(set_to_none=False)
    assert params[0].grad is None


def test_zero_grad_cuts_a_gradient_from_its_history():
    param = nn.Parameter([2.0])
    (param**3).sum().backward(create_graph=True)
    assert param.grad.requires_grad
    optim.SGD([param]).zero_grad(set_to_none=False)
    assert (param.grad.requires_grad, param.grad.item()) == (False, 0)


def test_a_step_without_gradients_changes_nothing():
    param = nn.Parameter([1.0])
    sgd = optim.SGD([param], lr=1, momentum=0.9, weight_decay=0.1)
    assert sgd.step() is None
    assert param.item() == 1
    assert sgd.state_dict()["state"] == {}


def test_a_closure_is_run_with_recording_on_and_its_loss_returned():
    param = nn.Parameter([3.0])
    sgd = optim.SGD([param], lr=0.5)

    def closure():
        sgd.zero_grad()
        loss = (param**2).sum()
        loss.backward()
        return loss

    with nbgrad.no_grad():
        assert sgd.step(closure).item() == 9
    assert param.item() == 0


def test_any_leaf_tensor_can_be_optimized():
    x = nbgrad.tensor([4.0], requires_grad=True)
    (x**2).sum().backward()
    optim.SGD([x], lr=0.25).step()
    assert x.item() == 2


def test_state_dict_is_torchs():
    sgd, params = stepped()
    theirs = [torch.nn.Parameter(param.data.clone()) for param in params]
    for param in theirs:
        param.grad = torch.ones_like(param)
    torchs = torch.optim.SGD([{"params": theirs[0]}, {"params": theirs[1:], "lr": 0.5}], lr=0.1, momentum=0.9)
    torchs.step()
    ours, expected = sgd.state_dict(), torchs.state_dict()
    torch.testing.assert_close(ours["state"], expected["state"])
    for mine, yours in zip(ours["param_groups"], expected["param_groups"], strict=True):
        assert mine == {name: yours[name] for name in mine}


def test_loaded_state_is_a_copy_in_the_parameters_dtype():
    sgd, _ = stepped()
    params = [nn.Parameter(torch.zeros(2, dtype=torch.float64)), nn.Parameter(torch.zeros(1, 1, dtype=torch.float64))]
    other = optim.SGD([{"params": params[:1]}, {"params": params[1:]}], lr=7)
    saved = sgd.state_dict()
    other.load_state_dict(saved)
    buffer = other.state[params[0]]["momentum_buffer"]
    assert (buffer.dtype, [group["lr"] for group in other.param_groups]) == (torch.float64, [0.1, 0.5])
    assert other.param_groups[0]["params"][0] is params[0]
    buffer.zero_()
    assert saved["state"][0]["momentum_buffer"].eq(1).all()


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))], ids=["deepcopy", "pickle"]
)
def test_a_copy_is_independent(duplicate):
    sgd, params = stepped()
    copied = duplicate(sgd)
    other = copied.param_groups[0]["params"][0]
    assert other is not params[0]
    torch.testing.assert_close(copied.state[other], sgd.state[params[0]])
    other.grad = torch.ones(2)
    copied.step()
    torch.testing.assert_close(params[0].data, torch.tensor([0.9, 1.9]))


def test_repr_is_torchs_without_its_switches():
    text = repr(optim.SGD([nn.Parameter(1.0)], lr=0.1))
    torchs = repr(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1))
    assert set(text.splitlines()) <= set(torchs.splitlines())
    assert "    lr: 0.1" in text


ERRORS = {
    "a module that is a sequence": (
        lambda: optim.SGD(nn.Sequential(nn.Linear(1, 1))),
        TypeError,
        "got a Sequential: pass the parameters of a model as model.parameters()",
    ),
    "nothing": (lambda: optim.SGD([]), ValueError, "empty parameter list.*nn.ModuleList.*nn.Parameter"),
    "no parameters": (lambda: optim.SGD(nn.ReLU().parameters()), ValueError, "empty parameter list"),
    "one tensor": (lambda: optim.SGD(nn.Parameter(1.0)), TypeError, "got one Parameter: put it in a list"),
    "one torch tensor": (lambda: optim.SGD(torch.ones(1)), TypeError, r"got one torch\.Tensor: put it in a list"),
    "a model": (lambda: optim.SGD(nn.Linear(2, 2)), TypeError, r"got a Linear: pass .* model\.parameters\(\)"),
    "one group": (lambda: optim.SGD({"params": []}), TypeError, "got one dict: put it in a list"),
    "torch's parameter": (
        lambda: optim.SGD(torch.nn.Linear(2, 3).parameters()),
        TypeError,
        "can only optimize nbgrad tensors, but got torch.FloatTensor",
    ),
    "names": (lambda: optim.SGD(["weight"]), TypeError, "can only optimize nbgrad tensors, but got str"),
    "not a leaf": (
        lambda: optim.SGD([nn.Parameter(1.0) * 2]),
        ValueError,
        "can't optimize a non-leaf tensor: it was made by <mul>",
    ),
    "twice": (
        lambda: optim.SGD([tied := nn.Parameter([1.0]), tied]),
        ValueError,
        r"a parameter of shape \(1,\) appears more than once",
    ),
    "in two groups": (
        lambda: optim.SGD([{"params": [tied := nn.Parameter([1.0])]}, {"params": tied}]),
        ValueError,
        r"a parameter of shape \(1,\) appears more than once",
    ),
    "group without params": (
        lambda: optim.SGD([{"lr": 1}]),
        TypeError,
        "a group must be a dict with the key 'params', got dict",
    ),
    "a set": (
        lambda: optim.SGD([{"params": {nn.Parameter(1.0), nn.Parameter(2.0)}}]),
        TypeError,
        "the parameters of a group must be in a list: a set has another order in each run",
    ),
    "half named": (
        lambda: optim.SGD([("weight", nn.Parameter(1.0)), nn.Parameter(2.0)]),
        ValueError,
        "some parameters have names and others have none",
    ),
    "a group with names": (
        lambda: stepped()[0].add_param_group({"params": [("weight", nn.Parameter(1.0))]}),
        ValueError,
        "some parameters have names and others have none",
    ),
    "a group that is to be differentiated": (
        lambda: stepped()[0].add_param_group({"params": nn.Parameter(1.0), "differentiable": True}),
        NotImplementedError,
        r"SGD\(differentiable=True\): a step works on the data, outside of any graph",
    ),
    "a state_dict that is to be differentiated": (
        lambda: optim.SGD([nn.Parameter(1.0)]).load_state_dict(
            torch.optim.SGD([torch.nn.Parameter(torch.ones(()))], differentiable=True).state_dict()
        ),
        NotImplementedError,
        r"SGD\(differentiable=True\)",
    ),
    "groups and tensors": (
        lambda: optim.SGD([{"params": nn.Parameter(1.0)}, nn.Parameter(1.0)]),
        TypeError,
        "a group must be a dict with the key 'params', got Parameter",
    ),
    "no update": (
        lambda: optim.Optimizer([stepped()[1][0]], {}).step(),
        NotImplementedError,
        'Optimizer has no "update"',
    ),
    "other groups": (
        lambda: stepped()[0].load_state_dict(optim.SGD(nn.Linear(2, 3).parameters()).state_dict()),
        ValueError,
        r"the optimizer has groups of \[1, 1\] parameters, the loaded state_dict of \[2\]",
    ),
}


@pytest.mark.parametrize(("act", "kind", "message"), ERRORS.values(), ids=list(ERRORS))
def test_errors_say_what_is_wrong(act, kind, message):
    with pytest.raises(kind, match=message):
        act()


def test_names_are_kept_beside_the_parameters():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    theirs = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    ours = optim.Adam(model.named_parameters()).state_dict()
    assert ours == torch.optim.Adam(theirs.named_parameters()).state_dict()
    assert ours["param_groups"][0]["param_names"] == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_step_hooks_are_torchs():
    sgd, params = stepped()
    seen = []
    handles = [
        sgd.register_step_pre_hook(lambda optimizer, args, kwargs: seen.append(("before", params[0][0].item()))),
        sgd.register_step_post_hook(lambda optimizer, args, kwargs: seen.append(("after", params[0][0].item()))),
    ]
    sgd.param_groups[0].update(lr=1.0, momentum=0)
    sgd.step()
    assert seen == [("before", pytest.approx(0.9)), ("after", pytest.approx(-0.1))]
    for handle in handles:
        handle.remove()
    sgd.step()
    assert len(seen) == 2


def test_a_hook_of_all_optimizers_is_called_once_a_step():
    seen = []
    handle = register_optimizer_step_post_hook(lambda one, args, kwargs: seen.append(one))
    try:
        sgd, _ = stepped()
    finally:
        handle.remove()
    assert seen == [sgd]


def test_a_pre_hook_may_change_the_arguments():
    sgd, _ = stepped()
    sgd.register_step_pre_hook(lambda optimizer, args, kwargs: ((optimizer, lambda: 7), {}))
    assert sgd.step() == 7


def test_state_dict_hooks_are_torchs():
    sgd, _ = stepped()
    seen = []
    sgd.register_state_dict_pre_hook(lambda optimizer: seen.append("asked"))
    sgd.register_state_dict_post_hook(lambda optimizer, saved: {**saved, "epoch": 3})
    sgd.register_load_state_dict_pre_hook(lambda optimizer, saved: {**saved, "state": {}})
    sgd.register_load_state_dict_post_hook(lambda optimizer: seen.append(len(optimizer.state)))
    saved = sgd.state_dict()
    assert (saved["epoch"], len(saved["state"])) == (3, 2)
    sgd.load_state_dict(saved)
    assert seen == ["asked", 0]


def test_whatever_takes_an_optimizer_of_torch_takes_ours():
    sgd, _ = stepped()
    assert isinstance(sgd, torch.optim.Optimizer)


def test_data_may_be_replaced_between_steps():
    adam = optim.Adam([weight := nn.Parameter([1.0])])
    weight.grad = torch.ones(1)
    adam.step()
    weight.data = torch.tensor([5.0])  # as model.to() does
    weight.grad = torch.ones(1)
    adam.step()
    assert weight.item() == pytest.approx(5 - 1e-3)
    assert adam.state[weight]["step"].item() == 2


def test_an_error_in_a_step_leaves_no_gradient_at_the_data():
    params = [nn.Parameter([1.0]), nn.Parameter([1.0])]
    adam = optim.Adam(params)
    for param in params:
        param.grad = torch.ones(1)
    params[1].data = torch.ones(1, dtype=torch.float64)  # its gradient stays one of float32
    with pytest.raises(RuntimeError, match="dtype"):
        adam.step()
    assert [param.data.grad for param in params] == [None, None]


@pytest.mark.cuda
@pytest.mark.parametrize("settings", [{}, {"fused": True}, {"capturable": True}, {"foreach": False}], ids=str)
@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RAdam"])
def test_steps_on_a_gpu_are_torchs(name, settings):
    if "fused" in settings and name in {"NAdam", "RAdam"}:
        settings = {}
    walks = [
        (optim, [nn.Parameter(torch.ones(3, device="cuda")) for _ in range(8)]),
        (torch.optim, [torch.nn.Parameter(torch.ones(3, device="cuda")) for _ in range(8)]),
    ]
    for module, params in walks:
        optimizer = getattr(module, name)(params, lr=0.1, **settings)
        for number in range(10):
            for param in params:
                param.grad = param.data.sin() + number
            optimizer.step()
        other = getattr(module, name)(params)
        other.load_state_dict(optimizer.state_dict())
        other.step()
    for ours, theirs in zip(walks[0][1], walks[1][1], strict=True):
        torch.testing.assert_close(ours.data, theirs.data)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "LBFGS"])
def test_a_learning_rate_may_be_a_tensor_of_ours(kind):
    def walked(lr):
        x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        optimizer = getattr(nbgrad.optim, kind)([x], lr=lr)
        for _ in range(3):
            optimizer.zero_grad()
            optimizer.step(lambda: (optimizer.zero_grad(), loss := (x * x).sum(), loss.backward())[1])
        return x.data

    assert torch.equal(walked(nbgrad.tensor(0.1)), walked(torch.tensor(0.1)))


@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize(
    "kind", sorted(kind.__name__ for kind in TorchOptimizer.__subclasses__() if kind is not optim.LBFGS)
)
def test_a_step_leaves_the_gradients_as_they_are(kind, count):
    settings = {"momentum": 0.9, "nesterov": True} if kind == "SGD" else {}
    params = [nn.Parameter(torch.ones(2, 2)) for _ in range(count)]  # Muon takes matrices
    optimizer = getattr(optim, kind)(params, **settings)
    for _ in range(2):
        optimizer.zero_grad()
        sum((param * 3).sum() for param in params).backward()
        optimizer.step()
        assert all(torch.equal(param.grad.data, torch.full((2, 2), 3.0)) for param in params)

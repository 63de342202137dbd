"""Hooks of modules: around calls, backwards, saving and loading, each next to torch's."""

import pytest
import torch

import nbgrad
from nbgrad import nn


def net(lib):
    torch.manual_seed(3)
    return lib.Sequential(lib.Linear(3, 4), lib.Tanh(), lib.Linear(4, 2)).double()


def leaf(lib, grad=True):
    data = torch.linspace(-1, 1, 6, dtype=torch.float64).reshape(2, 3)
    return nbgrad.tensor(data, requires_grad=grad) if lib is nn else data.requires_grad_(grad)


def raw(value):
    if isinstance(value, tuple | list):
        return [raw(one) for one in value]
    return value.data.detach().clone() if isinstance(value, torch.Tensor | nbgrad.Tensor) else value


def told(lib, use):
    """The values that the hooks of ``use(module, seen)`` write into ``seen``, and the gradients after a backward."""
    module, seen, x = net(lib), [], leaf(lib)
    use(module, seen)
    (module(x) * 2).sum().backward()
    return raw(seen), raw([x.grad, *[parameter.grad for parameter in module.parameters()]])


def alike(ours, theirs):
    if isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for mine, yours in zip(ours, theirs, strict=True):
            alike(mine, yours)
    elif isinstance(theirs, torch.Tensor):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    else:
        assert ours == theirs


def pre(module, seen):
    module[1].register_forward_pre_hook(lambda m, args: seen.append((type(m).__name__, args)))
    module[1].register_forward_pre_hook(lambda m, args: args[0] * 3)
    module.register_forward_pre_hook(lambda m, args, kwargs: ((args[0] + 1,), kwargs), with_kwargs=True)


def post(module, seen):
    module[1].register_forward_hook(lambda m, args, out: seen.append((args, out)))
    module[1].register_forward_hook(lambda m, args, out: out * 3)
    module.register_forward_hook(lambda m, args, kwargs, out: seen.append((kwargs, out)), with_kwargs=True)


def order(module, seen):
    for number in (1, 2):
        module.register_forward_hook(lambda *_, number=number: seen.append(number))
        module.register_forward_pre_hook(lambda *_, number=number: seen.append(-number), prepend=True)
    module.register_forward_hook(lambda *_: seen.append(3), prepend=True)


def removed(module, seen):
    with module.register_forward_hook(lambda *_: seen.append(1)):
        pass
    module.register_forward_pre_hook(lambda *_: seen.append(2)).remove()


def backward(module, seen):
    module[2].register_full_backward_hook(lambda m, into, out: seen.append(("in", into, out)))
    module[2].register_full_backward_pre_hook(lambda m, out: seen.append(("before", out)))
    module.register_full_backward_hook(lambda m, into, out: seen.append(("net", into, out)))


def backward_changes(module, seen):
    module[2].register_full_backward_hook(lambda m, into, out: (into[0] * 3,))
    module[2].register_full_backward_pre_hook(lambda m, out: (out[0] * 5,))
    module[0].register_full_backward_hook(lambda m, into, out: seen.append((into, out)))


@pytest.mark.parametrize("use", [pre, post, order, removed, backward, backward_changes])
def test_hooks_see_and_change_what_torchs_do(use):
    ours, theirs = told(nn, use), told(torch.nn, use)
    alike(ours, theirs)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # torch's
def test_a_backward_hook_of_a_module_whose_input_needs_no_gradient():
    found = []
    for lib in (nn, torch.nn):
        module, seen = net(lib), []
        module.register_full_backward_hook(lambda m, into, out, seen=seen: seen.append((into, out)))
        module(leaf(lib, grad=False)).sum().backward()
        found.append(raw(seen))
    alike(*found)
    assert found[0][0][0] == [None]


def test_backward_hooks_keep_nothing_and_cost_no_gradient_of_gradients():
    module, x = net(nn), leaf(nn)
    seen = []
    module.register_full_backward_hook(lambda m, into, out: seen.append(into[0]))
    (gradient,) = nbgrad.grad(module(x).sum(), [x], create_graph=True)
    assert seen[0].requires_grad
    (gradient**2).sum().backward()
    assert module[0].weight.grad is not None


@pytest.mark.parametrize("lib", [nn, torch.nn])
def test_always_call_runs_after_an_error(lib):
    module, seen = net(lib), []
    module.register_forward_hook(lambda *_: seen.append("plain"))
    module.register_forward_hook(lambda *_: seen.append("always"), always_call=True)
    with pytest.raises((RuntimeError, TypeError)):
        module(5)
    assert seen == ["always"]


def test_a_pre_hook_with_kwargs_returns_both():
    for lib in (nn, torch.nn):
        module = net(lib)
        module.register_forward_pre_hook(lambda m, args, kwargs: args[0], with_kwargs=True)
        with pytest.raises(RuntimeError, match=r"forward pre-hook must return None or a tuple"):
            module(leaf(lib))


def test_too_many_gradients_from_a_backward_hook():
    module = net(nn)
    module.register_full_backward_hook(lambda m, into, out: (into[0], into[0]))
    with pytest.raises(RuntimeError, match="2 gradients for grad_input, which has 1"):
        module(leaf(nn)).sum().backward()


# Saving and loading.


def saving(lib):
    seen = []
    module = net(lib)
    module[0].register_state_dict_pre_hook(lambda m, prefix, keep: seen.append((prefix, keep)))
    module[0].register_state_dict_post_hook(lambda m, state, prefix, facts: state.__delitem__(prefix + "bias"))
    module.register_state_dict_post_hook(
        lambda m, state, prefix, facts: seen.append((list(state), prefix, dict(facts)))
    )
    state = module.state_dict(prefix="net.")
    return seen, list(state), dict(state._metadata)


def test_saving_hooks_are_torchs():
    assert saving(nn) == saving(torch.nn)


def loading(lib):
    seen, module = [], net(lib)

    def rename(m, state, prefix, facts, *rest):
        seen.append((prefix, dict(facts), rest[0], *map(list, rest[1:])))
        state[prefix + "weight"] = state.pop(prefix + "kernel")

    module[0].register_load_state_dict_pre_hook(rename)
    module.register_load_state_dict_post_hook(lambda m, keys: seen.append((m is module, *map(list, keys))))
    module.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    state = net(lib).state_dict()
    state["0.kernel"] = state.pop("0.weight") * 2
    del state["2.bias"]
    module.load_state_dict(state)
    return seen, {key: value.clone() for key, value in module.state_dict().items()}


def test_loading_hooks_are_torchs():
    (seen, state), (expected, theirs) = loading(nn), loading(torch.nn)
    assert seen == expected
    torch.testing.assert_close(state, theirs)


def with_extra(lib):
    class Counting(lib.Module):
        count = 3

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    return Counting()


@pytest.mark.parametrize("lib", [nn, torch.nn])
def test_extra_state_goes_along(lib):
    module, other = lib.Sequential(with_extra(lib)), lib.Sequential(with_extra(lib))
    module[0].count = 7
    state = module.state_dict()
    assert state == {"0._extra_state": {"count": 7}}
    other.load_state_dict(state)
    assert other[0].count == 7
    with pytest.raises(RuntimeError, match=r"Missing key\(s\).*0\._extra_state"):
        other.load_state_dict({})


def test_assign_takes_memory_and_dtype_and_keeps_the_objects():
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    before = list(module.parameters())
    state = {key: value.double() if value.is_floating_point() else value for key, value in module.state_dict().items()}
    module.load_state_dict(state, assign=True)
    assert all(old is new for old, new in zip(before, module.parameters(), strict=True))
    assert module[0].weight.data.data_ptr() == state["0.weight"].data_ptr()
    assert module[1].running_mean.dtype is torch.float64
    assert all(parameter.requires_grad for parameter in before)


def test_old_files_lack_the_number_of_batches():
    module = nn.BatchNorm1d(2)
    state = {key: value for key, value in module.state_dict().items() if key != "num_batches_tracked"}
    assert not any(module.load_state_dict(state))
    state = module.state_dict()
    del state["num_batches_tracked"]
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        module.load_state_dict(state)


def test_keep_vars_gives_the_parameters():
    module = nn.Linear(2, 2)
    assert module.state_dict(keep_vars=True)["weight"] is module.weight
    assert str(module.load_state_dict(module.state_dict())) == "<All keys matched successfully>"

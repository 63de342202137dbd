"""Programs override methods of ``torch.nn.Module``, also private ones. nbgrad calls them as torch does, or raises."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from tests.core.programs import plain


def raw(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: raw(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [raw(one) for one in value]
    value = plain(value)
    return value.detach().tolist() if isinstance(value, torch.Tensor) else value


def leaf(lib: Any, *values: float) -> Any:
    data = torch.tensor(values)
    return nbgrad.tensor(data) if lib is nn else data


def frozen(lib: Any) -> Any:
    """A batch normalization with constants, as in torchvision. It loads the state of an ordinary one."""

    class FrozenBatchNorm(lib.Module):  # type: ignore[name-defined, misc]
        def __init__(self, count: int) -> None:
            super().__init__()
            for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
                self.register_buffer(name, torch.full((count,), value))

        def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
            state_dict.pop(f"{prefix}num_batches_tracked", None)
            super()._load_from_state_dict(state_dict, prefix, *rest)

        def forward(self, x: Any) -> Any:
            return (x - self.running_mean) / (self.running_var + 1e-5).sqrt() * self.weight + self.bias

    torch.manual_seed(1)
    trained = lib.Sequential(lib.Linear(2, 3), lib.BatchNorm1d(3))
    with torch.no_grad():
        for one in trained.parameters():
            one.data.normal_()
    for _ in range(3):
        trained(leaf(lib, *torch.randn(8).tolist()).reshape(4, 2))
    made = lib.Sequential(lib.Linear(2, 3), FrozenBatchNorm(3))
    keys = made.load_state_dict(trained.state_dict())
    return [list(keys), raw(made.state_dict()), raw(made(leaf(lib, 1.0, 2.0).reshape(1, 2)))]


def quantized(lib: Any) -> Any:
    """Weights that are saved as integers and a scale, and restored from these."""

    class Quantized(lib.Linear):  # type: ignore[name-defined, misc]
        _version = 3

        def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
            super()._save_to_state_dict(destination, prefix, keep_vars)
            weight = destination.pop(f"{prefix}weight")
            scale = weight.abs().max() / 127
            destination[f"{prefix}scale"] = scale
            destination[f"{prefix}packed"] = (weight / scale).round().to(torch.int8)

        def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
            metadata, strict = rest[:2]
            self.versions = metadata.get("version"), strict, "assign_to_params_buffers" in metadata
            state_dict[f"{prefix}weight"] = state_dict.pop(f"{prefix}packed").float() * state_dict.pop(f"{prefix}scale")
            super()._load_from_state_dict(state_dict, prefix, *rest)
            self.weight.data.mul_(2)  # the loaded value is there now

    torch.manual_seed(2)
    first, second = lib.Sequential(Quantized(3, 2), lib.ReLU()), lib.Sequential(Quantized(3, 2), lib.ReLU())
    state = first.state_dict()
    second.load_state_dict(state)
    found = [list(state), raw(state), raw(second.state_dict()), second[0].versions]
    second.load_state_dict(first.state_dict(), assign=True)
    return [*found, raw(second.state_dict()), second[0].versions, dict(state._metadata)]


def moved(lib: Any) -> Any:
    """A module that also moves a tensor which is neither parameter nor buffer."""
    seen = []

    class Anchored(lib.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.grid = lib.Linear(1, 1), leaf(lib, 1.0, 2.0)

        def _apply(self, fn: Any, *rest: Any) -> Any:
            seen.append(type(self).__name__)
            super()._apply(fn, *rest)
            self.grid = fn(self.grid)
            return self

    made = lib.Sequential(Anchored(), lib.BatchNorm1d(2))
    found = []
    for move in (
        made.double,
        lambda: made.to(torch.float16),
        made.float,
        made.cpu,
        lambda: made.to("meta"),
        lambda: made.to_empty(device="cpu"),
    ):
        assert move() is made
        found.append(
            [str(made[0].grid.dtype), str(made[0].grid.device), *(str(one.dtype) for one in made.parameters())]
        )
    return [seen, found, type(made[0].grid) is (nbgrad.Tensor if lib is nn else torch.Tensor)]


def halved(lib: Any) -> Any:
    """The user's function changes all data. A shared parameter is changed once for each module that has it."""
    made = lib.Sequential(lib.Linear(2, 2), lib.Linear(2, 2))
    made[1].weight = made[0].weight
    with torch.no_grad():
        for one in made.parameters():
            one.data.fill_(8.0)
    made._apply(lambda t: t / 2)
    made[0]._apply(lambda t: t / 2, False)
    return raw([*made.parameters()])


def hooks(lib: Any) -> Any:
    """Hooks registered under torch's older names."""
    seen: list[Any] = []
    made = lib.Sequential(lib.Linear(2, 1), lib.Sequential(lib.Linear(1, 1)))

    def rename(state_dict: Any, prefix: str, metadata: Any, *rest: Any) -> None:
        seen.append((prefix, sorted(state_dict), metadata.get("version"), rest))
        for key in [key for key in state_dict if key.startswith(f"{prefix}old_")]:
            state_dict[key.replace("old_", "")] = state_dict.pop(key)

    def told(module: Any, state_dict: Any, prefix: str, *_: Any) -> None:
        seen.append((type(module).__name__, prefix, sorted(state_dict)))

    made[0]._register_load_state_dict_pre_hook(rename)
    handle = made[1]._register_load_state_dict_pre_hook(told, with_module=True)
    made[1][0]._register_load_state_dict_pre_hook(rename)
    made._register_state_dict_hook(lambda module, state, prefix, _: {f"{prefix}{len(state)}": 1, **state})
    made[1]._register_state_dict_hook(lambda *given: seen.append((type(given[0]).__name__, *given[2:])))
    state = made.state_dict()
    seen.append((type(state).__name__, list(state)))
    del state["4"]
    state["0.old_weight"] = state.pop("0.weight") + 1
    state["1.0.old_bias"] = state.pop("1.0.bias") * 0
    made.load_state_dict(state)
    handle.remove()
    keys = made.load_state_dict({"0.old_weight": state["0.old_weight"], "1.0.x": 1, "1.5.y": 2}, strict=False)
    sizes = [len(getattr(made[1], f"_{name}_hooks")) for name in ("state_dict", "load_state_dict_pre")]
    return [seen, list(keys), raw(made[0].state_dict()), sizes]


def walks(lib: Any) -> Any:
    """A module with its own ways to walk over its parts."""

    class Hides(lib.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.shown, self.hidden = lib.Linear(1, 1), lib.Linear(1, 1)
            self.register_buffer("seen", torch.zeros(1), persistent=False)

        def named_modules(self, memo: Any = None, prefix: str = "", remove_duplicate: bool = True) -> Any:
            for name, module in super().named_modules(memo, prefix, remove_duplicate):
                if "hidden" not in name:
                    yield name, module

        def named_children(self) -> Any:
            yield "shown", self.shown

    class Twice(lib.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = Hides()

        def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
            for name, parameter in super().named_parameters(*args, **kwargs):
                yield f"my_{name}", parameter

    made = Twice()
    made.inner.hidden.train(False)
    made.train(False).train()
    members = made._named_members(lambda module: [("kind", type(module).__name__)], prefix="p")
    return [
        [name for name, _ in made.named_modules()],
        [name for name, _ in made.named_parameters()],
        len([*made.parameters()]),
        [name for name, _ in made.named_buffers()],
        [made.inner.shown.training, made.inner.hidden.training],
        list(members),
        list(made.state_dict()),
    ]


def kinds(lib: Any) -> Any:
    """Names, texts, copies, and what of the buffers is saved."""

    class Named(lib.Module):  # type: ignore[name-defined, misc]
        def __init__(self, size: int) -> None:
            super().__init__()
            self.size, self.inner = size, lib.ReLU()
            self.register_buffer("here", torch.zeros(2))
            self.register_buffer("there", torch.ones(1), persistent=False)

        def _get_name(self) -> str:
            return "Renamed"

        def extra_repr(self) -> str:
            return f"size={self.size}"

        def train(self, mode: bool = True) -> Any:
            return super().train(mode=False)

        def __getstate__(self) -> Any:
            return {**super().__getstate__(), "old": 5}

        def __setstate__(self, state: Any) -> None:
            self.taken = state.pop("old")
            super().__setstate__(state)

        def get_extra_state(self) -> Any:
            return {"size": self.size}

        def set_extra_state(self, state: Any) -> None:
            self.size = state["size"]

    made = lib.Sequential(Named(3), lib.Linear(1, 1))
    found = [repr(made), made.train()[0].training, made[1].training, "extra_repr" in dir(made[0])]
    twin = copy.deepcopy(made)
    twin[0].size = 7
    found += [twin[0].taken, list(twin.state_dict()), twin[0].inner is not made[0].inner]
    made.load_state_dict(twin.state_dict())
    names = made[0]._non_persistent_buffers_set
    found += [made[0].size, sorted(names), "there" in names, len(names)]
    names.discard("there")
    names.add("here")
    return [*found, list(made.state_dict()), sorted(names), raw(dict(made[0].named_buffers()))]


def bases(lib: Any) -> Any:
    class Mixin:
        def __init__(self, size: int) -> None:
            self.size = size

    class Both(lib.Module, Mixin):  # type: ignore[name-defined, misc]
        call_super_init = True

        def __init__(self, size: int) -> None:
            super().__init__(size)
            self.inner = lib.Linear(size, 1)

    raised = []
    for given in (((1,), {}), ((), {"size": 1})):
        with pytest.raises(TypeError) as caught:
            lib.Module(*given[0], **given[1])
        raised.append(caught.type)
    return [Both(3).size, len([*Both(2).parameters()]), raised]


@pytest.mark.filterwarnings("ignore:.*will be removed")
@pytest.mark.parametrize(
    "program",
    [frozen, quantized, moved, halved, hooks, walks, kinds, bases],
    ids=lambda program: program.__name__,
)
def test_what_is_overridden_is_called_as_in_torch(program: Callable[[Any], Any]) -> None:
    torch.manual_seed(0)
    mine = program(nn)
    torch.manual_seed(0)
    yours = program(torch.nn)
    assert mine == yours


class Pickled(nn.Linear):
    """At the top of a module, where a pickle finds it."""

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self.taken = True


def test_a_pickle_is_taken_by_the_modules_own_method() -> None:
    made = pickle.loads(pickle.dumps(nn.Sequential(Pickled(2, 1))))
    assert made[0].taken
    assert [*made.state_dict()] == ["0.weight", "0.bias"]


# A call does all or nothing.


def values(module: nn.Module) -> Any:
    return raw([*module.parameters(), *module.buffers()])


SPOILED: list[tuple[str, Any, str]] = [
    ("sparse", lambda: torch.zeros(2).to_sparse(), "sparse"),
    ("quantized", lambda: torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8), "quantized"),
    ("meta", lambda: torch.zeros(2, device="meta"), "meta"),
    ("shape", lambda: torch.zeros(3), "size mismatch"),
    ("no tensor", lambda: [0.0, 0.0], "expected a tensor"),
]


@pytest.mark.filterwarnings("ignore:.*[qQ]uantiz")
@pytest.mark.parametrize(("make", "text"), [one[1:] for one in SPOILED], ids=[one[0] for one in SPOILED])
def test_a_value_that_cannot_be_loaded_leaves_all_as_it_was(make: Callable[[], Any], text: str) -> None:
    made, other = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    before = values(made)
    with pytest.raises(RuntimeError, match=text):
        made.load_state_dict({**other.state_dict(), "1.bias": make()})
    assert values(made) == before
    keys = made.load_state_dict({**other.state_dict(), "1.bias": other.state_dict()["1.bias"]})
    assert keys.missing_keys == []


def test_assigned_values_have_to_be_what_a_parameter_can_be() -> None:
    made, twin = nn.Linear(2, 2), torch.nn.Linear(2, 2)
    before = raw(made.state_dict())
    for data in (torch.zeros(2, dtype=torch.int64), torch.zeros(2, dtype=torch.bool)):
        for module in (made, twin):
            with pytest.raises(RuntimeError, match=r"bias"):
                module.load_state_dict({"weight": torch.ones(2, 2), "bias": data}, assign=True)
    assert raw(made.state_dict()) == before


def test_memory_that_cannot_be_written_is_found_before() -> None:
    made = nn.Linear(2, 2)
    made.bias = nn.Parameter(torch.zeros(1).expand(2))
    before = values(made)
    with pytest.raises(RuntimeError, match=r"bias share one number in memory"):
        made.load_state_dict(nn.Linear(2, 2).state_dict())
    with torch.inference_mode():
        made.bias = nn.Parameter(torch.zeros(2), requires_grad=False)
    with pytest.raises(RuntimeError, match=r"bias was made in inference_mode"):
        made.load_state_dict(nn.Linear(2, 2).state_dict())
    assert values(made) == before


def test_tied_parameters_stay_one_when_values_are_assigned() -> None:
    """torch splits a tied parameter in two: they then learn separately."""
    made, twin = (
        nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)),
        torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)),
    )
    for module in (made, twin):
        module[1].weight = module[0].weight
    state = {key: value.clone() + 1 for key, value in twin.state_dict().items()}
    for module in (made, twin):
        module.load_state_dict(state, assign=True)
    assert made[1].weight is made[0].weight
    assert made[1].weight.grad is twin[1].weight.grad is None
    assert twin[1].weight is not twin[0].weight
    assert raw(made.state_dict()) == raw(twin.state_dict())
    before = values(made)
    state["1.weight"] = state["1.weight"] + 1
    with pytest.raises(RuntimeError, match=r"1\.weight is a parameter with several names"):
        made.load_state_dict(state, assign=True)
    assert values(made) == before


# Every attribute of torch's Module class.

SAME = """
T_destination __annotations__ __class__ __delattr__ __dict__ __dir__ __doc__ __eq__ __format__ __ge__
__getattribute__ __getstate__ __gt__ __hash__ __init__ __init_subclass__ __le__ __lt__ __module__ __ne__ __new__
__reduce__ __reduce_ex__ __repr__ __setattr__ __setstate__ __sizeof__ __str__ __subclasshook__ __weakref__
__call__ __getattr__ _apply _backward_hooks _backward_pre_hooks _buffers _forward_hooks _forward_pre_hooks
_get_name _load_from_state_dict _load_state_dict_post_hooks _load_state_dict_pre_hooks _modules _named_members
_non_persistent_buffers_set _parameters _register_load_state_dict_pre_hook _register_state_dict_hook
_save_to_state_dict _state_dict_hooks _state_dict_pre_hooks _version add_module apply bfloat16 buffers
call_super_init children cpu cuda double eval extra_repr float forward get_buffer get_extra_state get_parameter
get_submodule half load_state_dict modules named_buffers named_children named_modules named_parameters
parameters register_buffer register_forward_hook register_forward_pre_hook register_full_backward_hook
register_full_backward_pre_hook register_load_state_dict_post_hook register_load_state_dict_pre_hook
register_module register_parameter register_state_dict_post_hook register_state_dict_pre_hook requires_grad_
set_extra_state set_submodule share_memory state_dict to to_empty train training type zero_grad
"""
"""nbgrad has these, with torch's meaning. ``__getattr__`` and ``T_destination`` are below."""

REFUSED = {
    "_call_impl": TypeError,
    "_get_backward_hooks": TypeError,
    "_get_backward_pre_hooks": TypeError,
    "_maybe_warn_non_full_backward_hook": TypeError,
    "_replicate_for_data_parallel": TypeError,
    "_slow_forward": TypeError,
    "_wrapped_call_impl": TypeError,
}
"""A class that overrides one of these raises an error, because nbgrad would never call it."""

ABSENT = """
T_destination __getattr__ _compiled_call_impl _forward_hooks_always_called _forward_hooks_with_kwargs
_forward_pre_hooks_with_kwargs _is_full_backward_hook compile dump_patches ipu mtia xpu __constants__
"""
"""nbgrad lacks these: to use one is an AttributeError. They are about compilation, other devices and hook options."""


def test_every_attribute_of_torchs_module_is_decided() -> None:
    theirs = {*dir(torch.nn.Module), *dir(torch.nn.Linear(1, 1))} - {"in_features", "out_features", "weight", "bias"}
    theirs -= {"reset_parameters"}
    theirs = {name for name in theirs if not name.startswith("___")}  # torch.compile has added these
    same, absent = SAME.split(), ABSENT.split()
    assert theirs - {*same, *REFUSED, *absent, "register_backward_hook"} == set()
    ours = nn.Linear(1, 1)
    for name in {*same} - {*absent}:
        assert name in ("__annotations__", "__weakref__") or hasattr(ours, name), name
    for name in absent:
        assert not hasattr(ours, name), name
    for name, kind in REFUSED.items():
        with pytest.raises(kind, match=rf"{name}\(\), which nbgrad never calls"):
            type("Mine", (nn.Module,), {name: lambda self: None})
    with pytest.raises(NotImplementedError, match="register_full_backward_hook"):
        ours.register_backward_hook(print)


def test_an_attribute_that_is_asked_of_the_base_is_an_error_as_in_torch() -> None:
    for lib in (nn, torch.nn):

        class Passes(lib.Module):  # type: ignore[name-defined, misc]
            def __init__(self, inner: Any) -> None:
                super().__init__()
                self.inner = inner

            def __getattr__(self, name: str) -> Any:
                try:
                    return super().__getattr__(name)
                except AttributeError:
                    return getattr(self.inner, name)

        made = Passes(lib.Linear(3, 2))
        assert made.in_features == 3
        assert made.weight is made.inner.weight
        with pytest.raises(AttributeError):
            made.nothing  # noqa: B018


def test_a_module_that_loads_in_its_own_way_beside_others() -> None:
    class Own(nn.Linear):
        def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
            with nbgrad.no_grad():
                self.weight.fill_(5.0)
            super()._load_from_state_dict(state_dict, prefix, *rest)

    made = nn.Sequential(nn.Linear(2, 2), Own(2, 2), nn.Linear(2, 2))
    other = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    held, state = list(made.parameters()), other.state_dict()
    for spoiled in ({**state, "2.weight": torch.zeros(3)}, {**state, "3.bias": torch.zeros(1)}):
        with pytest.raises(RuntimeError, match=r"Error\(s\) in loading"):
            made.load_state_dict(spoiled)
    made.load_state_dict(state)
    assert values(made) == values(other)
    assert all(one is two for one, two in zip(made.parameters(), held, strict=True))

"""Random trees of modules, and random things done to them, the same to torch's and to nbgrad's."""

import copy
import pickle
import warnings
from collections.abc import Callable
from io import BytesIO
from math import isnan
from random import Random
from typing import Any, ClassVar

import torch
from torch.nn.modules import module as every_module

import nbgrad
from nbgrad import nn

LOG: list[Any] = []
"""The calls that hooks and overridden methods have seen in the current run."""

LARGE = 60
"""With this many modules in a tree, no more are shared: a shared module and all below it have several places."""

NAMES = ("a", "b", "c", "weight", "bias", "inner")


class Note:
    """A hook that writes down what it was called with, and changes nothing; it can be copied and pickled."""

    def __init__(self, kind: str, number: int) -> None:
        self.kind, self.number = kind, number

    def __call__(self, *given: Any) -> None:
        if self.kind.endswith("registration_hook"):  # the block is being made: its values come later
            *given_first, value = given
            LOG.append((self.kind, self.number, [told(one) for one in given_first], list(getattr(value, "shape", ()))))
        else:
            LOG.append((self.kind, self.number, [told(one) for one in given]))


class Twice:
    """A hook that gives twice what it gets."""

    def __call__(self, _module: Any, given: Any, *result: Any) -> Any:
        if result:
            return result[0] * 2
        return tuple(one * 2 for one in given)


class Visit:
    """A function for ``Module.apply``."""

    def __call__(self, module: Any) -> None:
        LOG.append(("visit", type(module).__name__))


def told(value: Any) -> Any:
    """A value as plain data: the element type and numbers of a tensor, the class of a module."""
    if isinstance(value, dict):
        return {key: told(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [told(one) for one in value]
    if isinstance(value, nbgrad.Tensor | torch.Tensor):
        return [str(value.dtype), value.detach().double().tolist()]
    if isinstance(value, nn.Module | torch.nn.Module):
        return type(value).__name__.removeprefix("Parametrized")  # torch renames first, nbgrad registers first
    return value


def tensors(module: Any) -> list[Any]:
    """The parameters and buffers of one module."""
    return [one for one in (*module._parameters.values(), *module._buffers.values()) if one is not None]


def classes(lib: Any, made: str) -> dict[str, type]:  # noqa: C901  # several classes, each of them small
    """Module classes: each overrides one method that programs often override."""

    class Own(lib.Module):  # type: ignore[name-defined, misc]
        """Runs its children one after the other."""

        shift: ClassVar[float] = 1.0

        def __init__(self) -> None:
            super().__init__()
            self.scale = lib.Parameter(torch.tensor([1.0, 2.0]))
            self.register_buffer("kept", torch.tensor([0.5, 0.25]))
            self.register_buffer("passing", torch.tensor([3.0, 1.0]), persistent=False)
            self.first = lib.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            for child in self.children():
                x = child(x)
            return x * self.scale + self.kept * self.shift if hasattr(self, "scale") and hasattr(self, "kept") else x

    class Packs(Own):
        """Saves a value under another name, and loads it from there."""

        _version = 2

        def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
            super()._save_to_state_dict(destination, prefix, keep_vars)
            LOG.append(("saves", prefix, keep_vars))
            if f"{prefix}kept" in destination:
                destination[f"{prefix}packed"] = destination.pop(f"{prefix}kept") * 2

        def _load_from_state_dict(self, state_dict: Any, prefix: str, facts: Any, *rest: Any) -> None:
            LOG.append(("loads", prefix, facts.get("version"), rest[0]))
            if f"{prefix}packed" in state_dict:
                state_dict[f"{prefix}kept"] = state_dict.pop(f"{prefix}packed") / 2
            super()._load_from_state_dict(state_dict, prefix, facts, *rest)

    class Moves(Own):
        """Holds a tensor of its own that moves along."""

        def __init__(self) -> None:
            super().__init__()
            data = torch.tensor([1.0, 1.5])
            self.grid = nbgrad.tensor(data) if lib is nn else data

        def _apply(self, fn: Any, *rest: Any) -> Any:
            super()._apply(fn, *rest)
            self.grid = fn(self.grid)
            LOG.append(("moved", told(self.grid)))
            return self

    class Stays(Own):
        """Is never in training mode, and has extra state that is no tensor."""

        def __init__(self) -> None:
            super().__init__()
            self.counted = 0

        def train(self, mode: bool = True) -> Any:
            LOG.append(("train", mode))
            return super().train(mode=False)

        def get_extra_state(self) -> Any:
            return self.counted

        def set_extra_state(self, state: Any) -> None:
            self.counted = state + 1

        def extra_repr(self) -> str:
            return f"counted={self.counted}"

    class Hides(Own):
        """Hides some modules and parameters from its walks, and adds to its pickled state."""

        def named_modules(self, *args: Any, **kwargs: Any) -> Any:
            for name, module in super().named_modules(*args, **kwargs):
                if not name.endswith("first"):
                    yield name, module

        def __getstate__(self) -> Any:
            return {**super().__getstate__(), "more": 1}

        def __setstate__(self, state: Any) -> None:
            LOG.append(("taken", state.pop("more")))
            super().__setstate__(state)

    found: dict[str, type] = {}
    for kind in (Own, Packs, Moves, Stays, Hides):
        kind.__qualname__ = f"{made}[{kind.__name__!r}]"  # where a pickle finds it, by way of __reduce__ below
        found[kind.__name__] = kind
    return found


class Library:
    """One of the two libraries: its blocks and the classes above."""

    def __init__(self, lib: Any, made: str) -> None:
        self.lib, self.own = lib, classes(lib, made)

    def block(self, random: Random, depth: int) -> Any:
        """A random module that takes (N, 2) to (N, 2)."""
        lib = self.lib
        leaves: list[Callable[[], Any]] = [
            lambda: lib.Linear(2, 2, bias=random.random() < 0.7),
            lambda: lib.BatchNorm1d(2),
            lambda: lib.LayerNorm(2),
            lib.PReLU,
            lib.Tanh,
            lambda: lib.utils.parametrizations.weight_norm(lib.Linear(2, 2)),
        ]
        if depth == 0 or random.random() < 0.4:
            return random.choice(leaves)()
        if random.random() < 0.5:
            return lib.Sequential(*[self.block(random, depth - 1) for _ in range(random.randint(0, 3))])
        made = self.own[random.choice(sorted(self.own))]()
        for name in random.sample(NAMES, random.randint(0, 2)):
            setattr(made, name, self.block(random, depth - 1))
        return made

    def tensor(self, data: torch.Tensor) -> Any:
        return nbgrad.tensor(data) if self.lib is nn else data


OURS = Library(nn, "OURS.own")
THEIRS = Library(torch.nn, "THEIRS.own")


class _Pickler(pickle._Pickler):  # type: ignore[name-defined, misc]  # the one in Python, for a local class
    """Pickles classes that are made in a function, by the place where they are kept."""

    def save_global(self, obj: Any, name: Any = None) -> None:
        for number, side in enumerate((OURS, THEIRS)):
            if side.own.get(getattr(obj, "__name__", None)) is obj:
                self.save_reduce(_found, (number, obj.__name__), obj=obj)
                return
        super().save_global(obj, name)

    dispatch: ClassVar[Any] = {**pickle._Pickler.dispatch, type: save_global}  # type: ignore[attr-defined]


def _found(side: int, name: str) -> type:
    return (OURS, THEIRS)[side].own[name]


class Run:
    """A random tree, and random things done to it."""

    def __init__(self, side: Library, seed: int) -> None:
        self.side, self.lib, self.random = side, side.lib, Random(seed)
        torch.manual_seed(seed)
        self.root = side.lib.Sequential(*[side.block(self.random, 3) for _ in range(self.random.randint(1, 3))])
        self.root.double()
        LOG.clear()
        self.handles: list[Any] = []
        self.results: list[Any] = []
        self.numbers = 0

    # The actions.

    def module(self) -> Any:
        """One of the modules in the tree."""
        return self.random.choice(self.everything())

    def everything(self, root: Any = None) -> list[Any]:
        """Every module, also those that a module hides. A shared module occurs once under each of its parents."""
        found, waiting = [], [self.root if root is None else root]
        while waiting:
            found.append(waiting.pop())
            waiting += [child for child in found[-1]._modules.values() if child is not None]
        return found

    def plain_module(self) -> Any:
        """A module whose attributes may be changed: it does not belong to a parametrization."""
        module = self.module()
        return self.root if "parametriz" in str(type(module)).lower() or "Norm" in type(module).__name__ else module

    def forward(self) -> Any:
        if self.random.random() < 0.7:
            self.root.double()
        dtypes = {one.dtype for module in self.everything() for one in tensors(module)}
        if dtypes - {torch.float64, torch.int64}:
            return "others would differ by rounding"
        x = self.side.tensor(torch.arange(6.0).reshape(3, 2).sin().double()).requires_grad_()
        y = self.root(x)
        if y.requires_grad:
            (y * y).sum().backward()
        return told([y, [None if one.grad is None else one.grad for one in (x, *self.root.parameters())]])

    def saved(self) -> Any:
        state = self.root.state_dict(keep_vars=self.random.random() < 0.3, prefix=self.random.choice(["", "p."]))
        return [list(state), told(list(state.values())), dict(state._metadata)]

    def loaded(self) -> Any:
        random, before = self.random, self.contents()
        state = self.root.state_dict()
        for key in [key for key in state if isinstance(state[key], torch.Tensor)]:
            state[key] = state[key] + 1
            chance = random.random()
            if chance < 0.05:
                del state[key]
            elif chance < 0.07:
                state[key] = torch.zeros(7)
            elif chance < 0.1:
                state[key] = state[key].double()
        if random.random() < 0.15:
            state[random.choice(["more", "0.more", "1.more.x", "0.first.weight.y"])] = torch.ones(1)
        strict, assign = random.random() < 0.6, random.random() < 0.3
        assign = assign and not self.tied()
        try:
            keys = self.root.load_state_dict(state, strict=strict, assign=assign)
        except RuntimeError as error:
            LOG.clear()  # torch goes on after the error, to the last key
            if self.lib is torch.nn and self.loads_plainly():
                self.put_back(before)  # torch has already written some values; nbgrad, only with code of the user's
            if assign:
                self.drop_gradients()  # torch's new parameters have none
            text = "Error(s) in loading" in str(error)
            return ["error", text, told([values for *_, values in self.contents()])]
        if assign:  # torch registers assigned tensors again
            LOG[:] = [one for one in LOG if "registration" not in one[0]]
        return [list(keys), told(self.root.state_dict())]

    def loads_plainly(self) -> bool:
        """Whether no code of these modules takes part in loading; this tree is torch's."""
        return not any(
            module._load_state_dict_post_hooks
            or type(module).get_extra_state is not torch.nn.Module.get_extra_state
            or not type(module)._load_from_state_dict.__module__.startswith("torch.")
            for module in self.everything()
        )

    def drop_gradients(self) -> None:
        for module in self.everything():
            for one in tensors(module):
                one.grad = None

    @staticmethod
    def put_back(contents: list[Any]) -> None:
        for module, counted, values in contents:
            if counted is not None:
                module.counted = counted
            for name, data in values.items():
                getattr(module, name).data = data.clone()

    def contents(self) -> list[Any]:
        """Every module with its extra state and copies of its own values."""
        found = []
        for module in self.everything():
            held = [*module._parameters.items(), *module._buffers.items()]
            values = {name: value.data.clone() for name, value in held if value is not None}
            found.append((module, getattr(module, "counted", None), values))
        return found

    def tied(self) -> bool:
        """Whether a parameter has several places: with assign=True, torch makes several parameters of it."""
        places = {(id(m), name, id(one)) for m in self.everything() for name, one in m._parameters.items()}
        parameters = [place[2] for place in places if place[2] != id(None)]
        return len(set(parameters)) < len(parameters)

    def converted(self) -> Any:
        move = self.random.choice(["double", "float", "to", "half", "type", "cpu", "_apply"])
        module = self.module()
        if move == "to":
            module.to(self.random.choice([torch.float64, torch.float32, torch.bfloat16]))
        elif move == "type":
            module.type(self.random.choice([torch.float64, torch.float32]))
        elif move == "_apply":
            module._apply(lambda t: t * 2)
        else:
            getattr(module, move)()
        return told(self.root.state_dict())

    def copied(self) -> Any:
        self.root = copy.deepcopy(self.root)
        return told(self.root.state_dict())

    def pickled(self) -> Any:
        if any("Parametrized" in type(module).__name__ for module in self.root.modules()):
            return "no pickle"
        file = BytesIO()
        _Pickler(file, 4).dump(self.root)
        self.root = pickle.loads(file.getvalue())
        return told(self.root.state_dict())

    def mode(self) -> Any:
        self.module().train(self.random.random() < 0.5)
        return [module.training for module in self.root.modules()]

    def frozen(self) -> Any:
        self.module().requires_grad_(self.random.random() < 0.6)
        return [one.requires_grad for one in self.root.parameters()]

    def zeroed(self) -> Any:
        self.module().zero_grad(set_to_none=self.random.random() < 0.5)
        return [told(one.grad) for one in self.root.parameters()]

    def visited(self) -> Any:
        self.module().apply(Visit())

    def walked(self) -> Any:
        random, module = self.random, self.module()
        once, recurse = random.random() < 0.5, random.random() < 0.7
        return [
            [(name, type(one).__name__) for name, one in module.named_modules(remove_duplicate=once)],
            [name for name, _ in module.named_parameters("p", recurse, once)],
            [name for name, _ in module.named_buffers("", recurse, once)],
            [name for name, _ in module.named_children()],
            len([*module.parameters()]),
            [sorted(getattr(module, held)) for held in ("_parameters", "_buffers", "_non_persistent_buffers_set")],
            [[*getattr(module, f"_{kind}_hooks").values()] != [] for kind in ("forward", "forward_pre", "backward")],
        ]

    def shown(self) -> Any:
        return repr(self.root)

    def hooked(self) -> Any:
        module, random = self.module(), self.random
        kind = random.choice(
            [
                *("forward_pre_hook", "forward_hook", "full_backward_hook", "full_backward_pre_hook"),
                *("state_dict_pre_hook", "state_dict_post_hook", "load_state_dict_post_hook"),
                "load_state_dict_pre_hook",
            ]
        )
        self.numbers += 1
        given: dict[str, Any] = {}
        if kind.startswith(("forward", "full")):
            given["prepend"] = random.random() < 0.3
        hook: Any = Note(kind, self.numbers)
        if kind.startswith("forward") and random.random() < 0.3:
            hook = Twice()
        elif kind.startswith("forward"):
            given["with_kwargs"] = random.random() < 0.3
        if kind == "load_state_dict_pre_hook" and random.random() < 0.5:
            self.handles.append(module._register_load_state_dict_pre_hook(hook, with_module=random.random() < 0.5))
        else:
            self.handles.append(getattr(module, f"register_{kind}")(hook, **given))
        return kind

    def hooked_everywhere(self) -> Any:
        kind = self.random.choice(
            ["forward_pre_hook", "forward_hook", "full_backward_hook", "full_backward_pre_hook"]
            + [f"{what}_registration_hook" for what in ("buffer", "parameter", "module")]
        )
        self.numbers += 1
        register = getattr(every_module if self.lib is torch.nn else nn.modules.module, f"register_module_{kind}")
        self.handles.append(register(Note(f"every {kind}", self.numbers)))

    def unhooked(self) -> Any:
        if self.handles:
            self.handles.pop(self.random.randrange(len(self.handles))).remove()

    def put(self) -> Any:
        random, module = self.random, self.plain_module()
        name = random.choice([*NAMES, "0", "scale", "kept", "first"])
        kind = random.choice(["module", "parameter", "buffer", "transient", "none", "shared", "tied", "held"])
        value = torch.tensor([random.random(), 1.0], dtype=torch.float64)
        if kind == "module":
            module.add_module(name, self.side.block(random, 0))
        elif kind == "parameter":
            setattr(module, name, self.lib.Parameter(value))
        elif kind in ("buffer", "transient"):
            module.register_buffer(name, value, persistent=kind == "buffer")
        elif kind == "none":
            random.choice([module.register_parameter, module.register_buffer, module.add_module])(name, None)
        elif kind == "shared":
            other = self.module()
            circle = any(one is module for one in self.everything(other)) or name in module._parameters
            if circle or type(other).__name__ == "ParametrizationList" or len(self.everything()) > LARGE:
                return "not shared"
            setattr(module, name, other)
        elif kind == "tied":
            parameters = [one for one in self.root.parameters() if tuple(one.shape) == (2,)]
            if parameters:
                setattr(module, name, random.choice(parameters))
        elif name in module._buffers or not hasattr(module, name):
            module._buffers[name] = self.side.tensor(value)
            LOG.clear()  # here, but not in torch, this calls the registration hooks
        return [kind, sorted(module._modules), sorted(module._parameters), sorted(module._buffers)]

    def taken_out(self) -> Any:
        module = self.plain_module()
        names = [*module._modules, *module._parameters, *module._buffers]
        if names:
            delattr(module, self.random.choice(names))
        return [sorted(module._modules), sorted(module._parameters), sorted(module._buffers)]

    def turned(self) -> Any:
        """A buffer begins or ceases to be saved."""
        module = self.plain_module()
        names = module._non_persistent_buffers_set
        for name in list(module._buffers):
            (names.add if self.random.random() < 0.5 else names.discard)(name)
        return [sorted(names), list(self.root.state_dict())]

    def by_path(self) -> Any:
        paths = [name for name, _ in self.root.named_modules()]
        path = self.random.choice([*paths, "0.x", "9"])
        found = self.root.get_submodule(path)
        names = [name for name, _ in found.named_parameters()]
        return [type(found).__name__, [told(found.get_parameter(name)) for name in names]]

    STEPS: ClassVar[dict[str, int]] = {
        "forward": 4,
        "saved": 2,
        "loaded": 4,
        "converted": 2,
        "copied": 1,
        "pickled": 1,
        "mode": 2,
        "frozen": 1,
        "zeroed": 1,
        "visited": 1,
        "walked": 2,
        "shown": 1,
        "hooked": 4,
        "hooked_everywhere": 1,
        "unhooked": 1,
        "put": 3,
        "taken_out": 1,
        "turned": 1,
        "by_path": 1,
    }

    def outcome(self, step: str) -> Any:
        """The result of one step. For an error, its kind."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of some hooks
            try:
                return getattr(self, step)()
            except (KeyError, AttributeError, TypeError, RuntimeError, ValueError, IndexError) as error:
                return type(error).__name__

    def run(self, steps: int) -> list[Any]:
        """Do ``steps`` random things, and return the result of each."""
        LOG.clear()
        try:
            for _ in range(steps):
                step = self.random.choices([*self.STEPS], [*self.STEPS.values()])[0]
                self.results.append((step, self.outcome(step), list(LOG)))
                LOG.clear()
        finally:
            for handle in self.handles:
                handle.remove()
            every_module._global_is_full_backward_hook = None
        return self.results


def difference(mine: Any, yours: Any, path: str = "") -> str:
    """The first place where two results differ, numbers by more than a tolerance. Empty if they agree."""
    if isinstance(yours, dict) and isinstance(mine, dict):
        mine, yours = [*mine.items()], [*yours.items()]
    if isinstance(yours, list | tuple) and isinstance(mine, list | tuple) and len(mine) == len(yours):
        parts = [difference(*both, f"{path}[{at}]") for at, both in enumerate(zip(mine, yours, strict=True))]
        return next(filter(None, parts), "")
    if isinstance(yours, float) and isinstance(mine, float):
        same = mine == yours or abs(mine - yours) <= 1e-4 * max(1.0, abs(yours)) or (isnan(mine) and isnan(yours))
    else:
        same = mine == yours
    return "" if same else f"{path}: {mine} instead of {yours}"

"""Optimizer: what all optimizers share, the parameters in groups and the state kept for each."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import partial
from typing import Any, ClassVar

import torch

from nbgrad.core.backend.function_mode import unheard
from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.state import current, enable_grad, restoring
from nbgrad.core.graph.training import params_of
from nbgrad.core.recorder.switches import OPTIMIZERS
from nbgrad.core.suggestions import kind_of
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.parameter import check_several

Tensors = list[torch.Tensor] | tuple[torch.Tensor, ...]
Params = Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[dict[str, Any]]


class Optimizer(torch.optim.Optimizer):
    """Changes parameters by their gradients; a subclass says how, in ``update``.

    Hooks, printing and pickling are those of torch's base class. Code that requires a ``torch.optim.Optimizer`` and
    reads only the settings of the groups accepts it; every scheduler is such code.

    Args:
        params: the parameters, as ``model.parameters()`` or ``model.named_parameters()`` gives them; or groups of them,
            dicts with the key "params" and settings of their own.
        defaults: the settings of groups that have none of their own.

    Attributes:
        param_groups: the groups with all their settings; change ``param_groups[0]["lr"]`` to change a learning rate.
        state: the memory of each parameter, such as its momentum.

    Raises:
        ValueError: there are no parameters, a parameter is in two groups, or it was computed and cannot be changed.
        TypeError: a parameter is no ``Tensor`` of nbgrad, or a setting is no number where it has to be one.
        NotImplementedError: a setting asks for updates that a graph records; nbgrad has no such updates.
    """

    state: Any  # its keys are Tensor objects, torch's are torch.Tensor
    param_groups: list[dict[str, Any]]
    _event: ClassVar[str]
    """The name of a step for observers."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        cls._event = f"{cls.__name__}.step()"

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor | torch.Tensor | dict):
            raise TypeError(
                f"params must be a list of tensors or of dicts, got one {kind_of(params)}: put it in a list"
            )
        check_several("params", params, "a list of tensors or of dicts")
        given: Any = list(params)
        if not given:
            raise ValueError(
                "optimizer got an empty parameter list. Modules in a plain list are not found: keep them in an "
                "nn.ModuleList. A plain tensor is not found: assign nn.Parameter(tensor). A generator such as "
                "model.parameters() is empty after its first use."
            )
        super().__init__(given, raw(defaults))
        OPTIMIZERS[id(self)] = self

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        OPTIMIZERS[id(self)] = self  # a copy, or out of a pickle

    def add_param_group(self, param_group: Any) -> None:
        """Let the optimizer change more parameters, such as those of a layer that was frozen so far.

        Args:
            param_group: a dict with the parameters under "params", one or a list, and settings that differ from the
                defaults. If you give pairs of a name and a parameter, the group keeps the names under "param_names".
        """
        if not isinstance(param_group, dict) or "params" not in param_group:
            raise TypeError(f"a group must be a dict with the key 'params', got {kind_of(param_group)}")
        given = param_group["params"]
        if isinstance(given, set):
            raise TypeError("the parameters of a group must be in a list: a set has another order in each run")
        pairs = [one if isinstance(one, tuple) else (None, one) for one in ([given] if _is_one(given) else given)]
        names, params = [name for name, _ in pairs if name is not None], [param for _, param in pairs]
        self._check_params(params)
        group = {"params": params, **raw({key: value for key, value in param_group.items() if key != "params"})}
        if names:
            group["param_names"] = names
        if len(names) not in (0, len(params)) or any(
            ("param_names" in group) != ("param_names" in other) for other in self.param_groups
        ):
            raise ValueError("some parameters have names and others have none: give all of them names, or none")
        group = {**group, **{key: value for key, value in self.defaults.items() if key not in group}}
        self._check_settings(group)
        self.param_groups.append(group)

    def _check_settings(self, settings: dict[str, Any]) -> None:
        if settings.get("differentiable"):
            raise NotImplementedError(
                f"{type(self).__name__}(differentiable=True): a step works on the data, outside of any graph. To "
                "differentiate through an update write it with nbgrad's ops, on the result of nbgrad.grad(...)"
            )

    def _check_params(self, params: list[Any]) -> None:
        known = {held for group in self.param_groups for held in group["params"]}
        for param in params:
            if not isinstance(param, Tensor):
                raise TypeError(f"optimizer can only optimize nbgrad tensors, but got {torch.typename(param)}")
            if not param.is_leaf:
                raise ValueError(f"can't optimize a non-leaf tensor: it was made by {param.grad_fn}, not by the user")
            if param in known:
                raise ValueError(f"a parameter of shape {tuple(param.shape)} appears more than once: give each once")
            known.add(param)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradient of every parameter, or fill it with zeros in place with ``set_to_none=False``."""
        for observer in current().observers:
            unheard(observer.on_optimizer_call, self, "zero_grad")
        grads = []
        for param in params_of(self):
            if set_to_none:
                param.grad = None
            elif param.grad is not None:
                param.grad = param.grad.detach()
                grads.append(param.grad.data)
        if grads:
            unheard(torch._foreach_zero_, grads)

    @restoring
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient.

        Args:
            closure: computes the loss anew with its gradients, and returns it.

        Returns:
            The result of ``closure``.

        Raises:
            RuntimeError: a gradient is sparse.
        """
        loss, idle = None, True
        if closure is not None:
            with enable_grad():
                loss = closure()
        tracer = current().tracer
        for group in self.param_groups if tracer is None else tracer.groups(self):
            held = [(param, grad._data) for param in group["params"] if (grad := param._grad) is not None]
            if held:
                idle = False
                params, grads = [param for param, _ in held], [grad for _, grad in held]
                if tracer is not None and not tracer.sees_into(self):
                    tracer.write_update(self, params, grads, group)
                    continue
                self._observed(params, partial(self._update, params, grads, group))
        for observer in current().observers if idle else ():
            unheard(observer.on_idle_step, params_of(self), self._event)
        return loss

    def update(self, params: list[Tensor], grads: Tensors, group: dict[str, Any]) -> None:
        """Change the data of ``params`` in place by their gradients ``grads``, with the settings of ``group``."""
        raise NotImplementedError(f'{type(self).__name__} has no "update": define it to say how parameters change')

    def _update(self, params: list[Tensor], grads: list[torch.Tensor], group: dict[str, Any]) -> None:
        self.update(params, self._dense(grads), group)

    def _dense(self, grads: list[torch.Tensor]) -> list[torch.Tensor]:
        if any([grad.layout is not torch.strided for grad in grads]):  # noqa: C419  # in half the time of a generator
            raise RuntimeError(
                f"{type(self).__name__} does not support sparse gradients: use param.grad = param.grad.data.to_dense()"
            )
        return grads

    def _observed(self, params: list[Tensor], change: Callable[[], Any], *, evaluates: bool = False) -> Any:
        """Run ``change``, which changes the data of ``params``, and notify observers of its beginning and end."""
        observers = current().observers
        for observer in observers:
            unheard(observer.on_step_begin, params, evaluates)
        result = change() if evaluates else unheard(change)  # a change that evaluates the loss runs the user's code
        for observer in observers:
            unheard(observer.on_step_end, params, self._event)
        return result

    def state_dict(self) -> dict[str, Any]:
        """The state and the settings in torch's format: parameters are numbers, in the order of the groups."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers = {param: number for number, param in enumerate(params_of(self))}
        groups = [{**group, "params": [numbers[param] for param in group["params"]]} for group in self.param_groups]
        made = {"state": {numbers[param]: held for param, held in self.state.items()}, "param_groups": groups}
        for change in self._optimizer_state_dict_post_hooks.values():
            made = change(self, made) or made
        return made

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where the optimizer that ``state_dict`` came from had stopped, torch's own optimizer included.

        Raises:
            ValueError: it has another number of groups, or of parameters in a group.
            NotImplementedError: a setting asks for updates that a graph records; nbgrad has no such updates.

        After any error the optimizer is unchanged.
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            state_dict = hook(self, state_dict) or state_dict
        loaded = deepcopy(state_dict)
        sizes = [len(group["params"]) for group in self.param_groups]
        loaded_sizes = [len(group["params"]) for group in loaded["param_groups"]]
        if sizes != loaded_sizes:
            raise ValueError(f"the optimizer has groups of {sizes} parameters, the loaded state_dict of {loaded_sizes}")
        state, groups = {}, []
        for group, other in zip(self.param_groups, loaded["param_groups"], strict=True):
            self._check_settings(other)
            on_device = bool(other.get("capturable") or other.get("fused"))
            for number, param in zip(other["params"], group["params"], strict=True):
                if number in loaded["state"]:
                    held = loaded["state"][number]
                    state[param] = {key: _fit(value, param, key, on_device) for key, value in held.items()}
            groups.append({**group, **other, "params": group["params"]})
        before = dict(self.state), [dict(group) for group in self.param_groups]
        try:
            self._continue(state, groups)  # everything fits by now
            for loaded_hook in self._optimizer_load_state_dict_post_hooks.values():
                loaded_hook(self)
        except BaseException:
            self._continue(*before)
            raise

    def _continue(self, state: dict[Tensor, Any], groups: list[dict[str, Any]]) -> None:
        """Take over the state of the parameters and the settings of the groups."""
        self.state.clear()
        self.state.update(state)
        for group, settings in zip(self.param_groups, groups, strict=True):
            group.clear()
            group.update(settings)


def _is_one(given: Any) -> bool:
    return isinstance(given, Tensor | torch.Tensor)


def _fit(value: Any, param: Tensor, key: str, on_device: bool) -> Any:
    """A loaded value on the device of its parameter, in its element type.

    As in torch, a count of steps stays as it is, or becomes float32 on the device with ``on_device``.
    """
    if isinstance(value, list):
        return [_fit(one, param, key, on_device) for one in value]
    if not isinstance(value, torch.Tensor):
        return value
    if key == "step":
        return value.to(device=param.device, dtype=torch.float32) if on_device else value
    return value.to(device=param.device, dtype=param.dtype if param.is_floating_point() else None)


def raw(settings: dict[str, Any]) -> dict[str, Any]:
    """``settings`` with torch's tensors in the place of ours: a learning rate may be one."""
    return {name: raw_of(value) for name, value in settings.items()}

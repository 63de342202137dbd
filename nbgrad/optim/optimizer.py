"""Optimizer: what all optimizers share, the parameters in groups and the state kept for each."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import torch

from nbgrad.core.modes import current, enable_grad
from nbgrad.core.tensor import Tensor

Tensors = list[torch.Tensor] | tuple[torch.Tensor, ...]
Params = Iterable[Tensor] | Iterable[dict[str, Any]]


class Optimizer:
    """Changes parameters by their gradients; a subclass says how, in ``update``.

    Args:
        params: the parameters, as ``model.parameters()`` gives them; or groups of them, dicts with the key "params"
            and settings of their own.
        defaults: the settings of groups that have none of their own.

    Attributes:
        param_groups: the groups with all their settings; change ``param_groups[0]["lr"]`` to change a learning rate.
        state: what is remembered about each parameter, such as its momentum.

    Raises:
        ValueError: there are no parameters, a parameter is in two groups, or it was computed and cannot be changed.
        TypeError: a parameter is no ``Tensor`` of nbgrad.
    """

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor | torch.Tensor | dict):
            raise TypeError(
                f"params must be a list of tensors or of dicts, got one {type(params).__name__}: put it in a list"
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        given: list[Any] = list(params)
        if not given:
            raise ValueError("optimizer got an empty parameter list: was model.parameters() used up before?")
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: Any) -> None:
        """Let the optimizer change more parameters, such as those of a layer that was frozen so far.

        Args:
            param_group: a dict with the parameters under "params", one or a list, and settings that differ from the
                defaults.
        """
        if not isinstance(param_group, dict) or "params" not in param_group:
            raise TypeError(f"a group must be a dict with the key 'params', got {type(param_group).__name__}")
        params = param_group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        known = {held for group in self.param_groups for held in group["params"]}
        for param in params:
            if not isinstance(param, Tensor):
                raise TypeError(f"optimizer can only optimize nbgrad tensors, but got {torch.typename(param)}")
            if not param.is_leaf:
                raise ValueError(f"can't optimize a non-leaf tensor: it was made by {param.grad_fn}, not by the user")
            if param in known:
                raise ValueError(f"a parameter of shape {tuple(param.shape)} appears more than once: give each once")
            known.add(param)
        self.param_groups.append({**self.defaults, **param_group, "params": params})

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradient of every parameter, or fill it with zeros in place with ``set_to_none=False``."""
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none:
                    param.grad = None
                elif param.grad is not None:
                    param.grad = param.grad.detach()
                    param.grad.data.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient.

        Args:
            closure: computes the loss anew with its gradients, and returns it.

        Returns:
            What ``closure`` returned.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [param for param in group["params"] if param.grad is not None]
            if params:
                self.update(params, [param.grad.data for param in params], group)
                for observer in current().observers:
                    for param in params:
                        observer.on_change(param.data, f"{type(self).__name__}.step()")
        return loss

    def update(self, params: list[Tensor], grads: Tensors, group: dict[str, Any]) -> None:
        """Change the data of ``params`` in place by their gradients ``grads``, with the settings of ``group``."""
        raise NotImplementedError(f'{type(self).__name__} has no "update": define it to say how parameters change')

    def state_dict(self) -> dict[str, Any]:
        """The state and the settings in torch's format: parameters are numbers, in the order of the groups."""
        numbers = {param: number for number, param in enumerate(self._all_params())}
        groups = [{**group, "params": [numbers[param] for param in group["params"]]} for group in self.param_groups]
        return {"state": {numbers[param]: held for param, held in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where the optimizer that ``state_dict`` came from had stopped, torch's own optimizer included.

        Raises:
            ValueError: it has another number of groups, or of parameters in a group.
        """
        loaded = deepcopy(state_dict)
        sizes = [len(group["params"]) for group in self.param_groups]
        loaded_sizes = [len(group["params"]) for group in loaded["param_groups"]]
        if sizes != loaded_sizes:
            raise ValueError(f"the optimizer has groups of {sizes} parameters, the loaded state_dict of {loaded_sizes}")
        params = self._all_params()
        numbers = [number for group in loaded["param_groups"] for number in group["params"]]
        self.state.clear()
        for number, param in zip(numbers, params, strict=True):
            if number in loaded["state"]:
                self.state[param] = {key: _fit(value, param) for key, value in loaded["state"][number].items()}
        for group, other in zip(self.param_groups, loaded["param_groups"], strict=True):
            group.update({**other, "params": group["params"]})

    def _all_params(self) -> list[Tensor]:
        return [param for group in self.param_groups for param in group["params"]]

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])


def _fit(value: Any, param: Tensor) -> Any:
    """A loaded value where its parameter lives, in its element type."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    return value.to(device=param.device, dtype=param.dtype)

"""L-BFGS: Newton's method by the memory of a few gradients."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from nbgrad.core.engine.state import enable_grad, restoring, tell_changed
from nbgrad.optim.torch_optimizer import TorchOptimizer


class LBFGS(TorchOptimizer):
    """Approximates the direction of Newton's method from the changes of the gradients in the last steps.

    Use it for smooth losses of all data, such as a fit with few parameters. There it needs far fewer evaluations than
    gradient descent (Liu and Nocedal 1989). A step is many iterations, each of which calls the closure.

    Args:
        params: the parameters, one group of them.
        lr: the learning rate; 1 is Newton's own step.
        max_iter: the most iterations in a step.
        max_eval: the most calls of the closure in a step; default: 5/4 of ``max_iter``.
        tolerance_grad: stop where no element of the gradient is larger.
        tolerance_change: stop where parameters or loss change by less.
        history_size: how many changes of the gradient are remembered.
        line_search_fn: "strong_wolfe" to search along the direction, or None to step by ``lr``.

    Raises:
        ValueError: the learning rate is negative, or there are several groups.
    """

    torchs = torch.optim.LBFGS

    @restoring
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]  # as torch's
        """Move to where the loss is lower.

        Args:
            closure: drops the gradients, computes the loss and its gradients anew, and returns it.

        Returns:
            The loss before the step.
        """
        (group,) = self.param_groups
        params = group["params"]
        evaluations = 0

        def evaluated() -> Any:
            nonlocal evaluations
            if evaluations:
                tell_changed([param.data for param in params], self._event)
            evaluations += 1
            with enable_grad():
                loss = closure()
            for param in params:
                param.data.grad = None if param.grad is None else self._dense([param.grad.data])[0]
            return loss

        def search(runner: Any) -> Any:
            runner._params, runner._numel_cache = runner.param_groups[0]["params"], None
            return self._bare(runner, evaluated)

        run = partial(self._run, params, [None] * len(params), group, search)
        return self._observed(params, run, evaluates=True)

"""Adafactor: Adam in little memory."""

import torch

from nbgrad.optim.optimizer import Params
from nbgrad.optim.torch_optimizer import TorchOptimizer


class Adafactor(TorchOptimizer):
    r"""Keeps the squared gradients of a matrix as one average for each row and column (Shazeer and Stern 2018).

    :math:`\hat{V} = r c^\top / \bar{r}` from the averages :math:`r` over each row and :math:`c` over each column, and
    :math:`\theta \leftarrow \theta - \alpha\, g / \sqrt{\hat{V}}`; steps are relative to the size of the parameter, and
    never longer than ``d`` on average. It remembers n + m numbers of an n by m matrix, where Adam remembers 2 n m.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        beta2_decay: the average keeps :math:`1 - t^{decay}` of itself at step t.
        eps: two numbers. The first is the smallest divisor; None takes ``torch.finfo(dtype).eps``. The second is the
            least size of a parameter: a smaller parameter counts as this size.
        d: the longest step, as the root of its mean square.
        weight_decay: how strongly parameters are pulled to zero.
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        maximize: step along the gradient instead of against it.

    Raises:
        ValueError: a setting is out of its range.
    """

    torchs = torch.optim.Adafactor

    def __init__(
        self,
        params: Params,
        lr: float | torch.Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            beta2_decay=beta2_decay,
            eps=eps,
            d=d,
            weight_decay=weight_decay,
            foreach=foreach,
            maximize=maximize,
        )

"""The optimizers whose steps are torch's alone, with torch's arguments."""

from typing import Any

import torch

from nbgrad.optim.torch_optimizer import TorchOptimizer


class Adadelta(TorchOptimizer):
    r"""Scales steps by the ratio of the sizes of past steps and past gradients (Zeiler 2012).

    :math:`v \leftarrow \rho v + (1 - \rho) g^2`, :math:`\Delta = \sqrt{u + \epsilon} / \sqrt{v + \epsilon} \cdot g`,
    :math:`u \leftarrow \rho u + (1 - \rho) \Delta^2` and :math:`\theta \leftarrow \theta - \eta \Delta`: steps have the
    unit of the parameters, so that you need not search for a learning rate.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        rho: how much of both averages is kept at each step.
        eps: added to the denominator, against division by zero.
        weight_decay: how strongly parameters are pulled to zero.
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        capturable: whether a step can be captured as a CUDA graph; it keeps the count of steps on the GPU.
        maximize: step along the gradient instead of against it.
        differentiable: not supported, a step works outside of any graph.

    Raises:
        ValueError: a setting is out of its range.
    """

    torchs = torch.optim.Adadelta


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


class Adagrad(TorchOptimizer):
    r"""Divides by the root of the sum of all squared gradients so far (Duchi et al. 2011).

    :math:`s \leftarrow s + g^2`, :math:`\theta \leftarrow \theta - \eta_t\, g / (\sqrt{s} + \epsilon)`: a parameter
    that rarely gets a gradient takes long steps when it does, as the embedding of a rare word should.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        lr_decay: how fast the learning rate falls, :math:`\eta_t = \eta / (1 + (t - 1) \cdot decay)`.
        weight_decay: how strongly parameters are pulled to zero.
        initial_accumulator_value: the initial value of the sums.
        eps: added to the denominator, against division by zero.
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        maximize: step along the gradient instead of against it.
        differentiable: not supported, a step works outside of any graph.
        fused: whether a single kernel does the whole step.

    Raises:
        ValueError: a setting is negative.
    """

    torchs = torch.optim.Adagrad


class Adam(TorchOptimizer):
    r"""Divides an average of the gradients by the root of an average of their squares (Kingma and Ba 2015).

    :math:`m \leftarrow \beta_1 m + (1 - \beta_1) g`, :math:`v \leftarrow \beta_2 v + (1 - \beta_2) g^2`, and
    :math:`\theta \leftarrow \theta - \eta\, \hat{m} / (\sqrt{\hat{v}} + \epsilon)`, where the hats correct that both
    averages begin at zero. A step is about as long as the learning rate, whatever the scale of the gradients.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        betas: how much of the averages of gradients and of their squares is kept at each step.
        eps: added to the denominator, against division by zero.
        weight_decay: how strongly parameters are pulled to zero.
        amsgrad: divide by the largest average of squares so far instead of by the latest (Reddi et al. 2018).
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        maximize: step along the gradient instead of against it.
        capturable: whether a step can be captured as a CUDA graph; it keeps the count of steps on the GPU.
        differentiable: not supported, a step works outside of any graph.
        fused: whether a single kernel does the whole step.
        decoupled_weight_decay: whether weight decay pulls at the parameter, as in AdamW, and not at the gradient.

    Raises:
        ValueError: a setting is out of its range.
    """

    torchs = torch.optim.Adam


class AdamW(TorchOptimizer):
    r"""Adam whose weight decay pulls at the parameters themselves (Loshchilov and Hutter 2019).

    It computes :math:`\theta \leftarrow \theta - \eta \lambda \theta` before Adam's step. ``Adam`` adds the decay to
    the gradient. There it is divided by :math:`\sqrt{\hat{v}}` too, so that it is weakest where gradients are large.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        betas: how much of the averages of gradients and of their squares is kept at each step.
        eps: added to the denominator, against division by zero.
        weight_decay: how strongly parameters are pulled to zero.
        amsgrad: divide by the largest average of squares so far instead of by the latest (Reddi et al. 2018).
        maximize: step along the gradient instead of against it.
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        capturable: whether a step can be captured as a CUDA graph; it keeps the count of steps on the GPU.
        differentiable: not supported, a step works outside of any graph.
        fused: whether a single kernel does the whole step.

    Raises:
        ValueError: a setting is out of its range.
    """

    torchs = torch.optim.AdamW

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where another optimizer stopped. If that was an Adam, weight decay still works as in AdamW."""
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


class Adamax(TorchOptimizer):
    r"""Divides an average of the gradients by a decaying maximum of their sizes (Kingma and Ba 2015, section 7).

    :math:`u \leftarrow \max(\beta_2 u, |g| + \epsilon)` and
    :math:`\theta \leftarrow \theta - \eta / (1 - \beta_1^t) \cdot m / u`: calm where a single gradient is large.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        betas: how much of the average of gradients and of their maximum is kept at each step.
        eps: added to the denominator, against division by zero.
        weight_decay: how strongly parameters are pulled to zero.
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        maximize: step along the gradient instead of against it.
        differentiable: not supported, a step works outside of any graph.
        capturable: whether a step can be captured as a CUDA graph; it keeps the count of steps on the GPU.

    Raises:
        ValueError: a setting is out of its range.
    """

    torchs = torch.optim.Adamax


class ASGD(TorchOptimizer):
    r"""Gradient descent that also averages the parameters of all its steps (Polyak and Juditsky 1992).

    The learning rate falls as :math:`\eta / (1 + \lambda \eta t)^\alpha`. From step ``t0`` on, ``state[p]["ax"]`` is
    the average, which is nearer to the minimum than the last step when gradients are noisy.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        lambd: how fast the learning rate falls; parameters decay by it too.
        alpha: the power in which the learning rate falls.
        t0: the step from which on the average is taken.
        weight_decay: how strongly parameters are pulled to zero.
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        maximize: step along the gradient instead of against it.
        differentiable: not supported, a step works outside of any graph.
        capturable: whether a step can be captured as a CUDA graph; it keeps the count of steps on the GPU.

    Raises:
        ValueError: the learning rate or the weight decay is negative.
    """

    torchs = torch.optim.ASGD

    def _kernels(self, data: list[torch.Tensor], group: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Torch's choice: its foreach kernels round the learning rate to float32, so they are not taken unasked."""
        return {}


if hasattr(torch.optim, "Muon"):  # torch has it from 2.9 on

    class Muon(TorchOptimizer):
        r"""Steps along the orthogonal matrix nearest to the momentum (Jordan et al. 2024); for matrices alone.

        A few Newton-Schulz iterations turn the singular values of the momentum to about 1, so that directions that few
        gradients point to are learned as fast as the rest. Biases and embeddings are left to another optimizer, such as
        AdamW.

        Args:
            params: the parameters, or dicts of groups of them.
            lr: the learning rate, how far a step goes.
            weight_decay: how strongly parameters are pulled to zero.
            momentum: how much of the average of gradients is kept.
            nesterov: whether to use Nesterov's momentum.
            ns_coefficients: the polynomial that each iteration applies.
            eps: added to the denominator, against division by zero.
            ns_steps: how many iterations there are, a whole number.
            adjust_lr_fn: how the step depends on the shape: "original" (also for None) or "match_rms_adamw", which fits
                learning rates found for AdamW.

        Raises:
            ValueError: a setting is out of its range, or a parameter does not have two dimensions.
            TypeError: a setting is no number, or ``ns_steps`` is no integer.
        """

        torchs = torch.optim.Muon
        _whole = frozenset({"ns_steps"})


class NAdam(TorchOptimizer):
    r"""Adam that looks one step ahead, as Nesterov's momentum does (Dozat 2016).

    A step uses the fraction :math:`\mu_t = \beta_1 (1 - 0.96^{t \psi} / 2)` of the average, which grows to
    :math:`\beta_1`. The step estimates the average after the next gradient: it takes the present gradient in place of
    the next.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        betas: how much of the averages of gradients and of their squares is kept at each step.
        eps: added to the denominator, against division by zero.
        weight_decay: how strongly parameters are pulled to zero.
        momentum_decay: how fast :math:`\mu_t` grows, :math:`\psi`.
        decoupled_weight_decay: whether weight decay pulls at the parameter, as in AdamW, and not at the gradient.
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        maximize: step along the gradient instead of against it.
        capturable: whether a step can be captured as a CUDA graph; it keeps the count of steps on the GPU.
        differentiable: not supported, a step works outside of any graph.

    Raises:
        ValueError: a setting is out of its range.
    """

    torchs = torch.optim.NAdam


class RAdam(TorchOptimizer):
    r"""Adam whose first steps are not scaled, as too few gradients were seen (Liu et al. 2020).

    Steps are multiplied by a factor below 1. It grows with the number of gradients in the average of squares. With
    fewer than five, a step is plain momentum. So RAdam, unlike Adam, needs no warm-up of the learning rate.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        betas: how much of the averages of gradients and of their squares is kept at each step.
        eps: added to the denominator, against division by zero.
        weight_decay: how strongly parameters are pulled to zero.
        decoupled_weight_decay: whether weight decay pulls at the parameter, as in AdamW, and not at the gradient.
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        maximize: step along the gradient instead of against it.
        capturable: whether a step can be captured as a CUDA graph; it keeps the count of steps on the GPU.
        differentiable: not supported, a step works outside of any graph.

    Raises:
        ValueError: a setting is out of its range.
    """

    torchs = torch.optim.RAdam


class RMSprop(TorchOptimizer):
    r"""Divides by the root of a running average of squared gradients (Hinton 2012; Graves 2013 where centered).

    :math:`v \leftarrow \alpha v + (1 - \alpha) g^2` and
    :math:`\theta \leftarrow \theta - \eta\, g / (\sqrt{v} + \epsilon)`. It forgets old gradients, which
    Adagrad does not, so that steps don't shrink for good.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the learning rate, how far a step goes.
        alpha: how much of the average is kept at each step.
        eps: added to the denominator, against division by zero.
        weight_decay: how strongly parameters are pulled to zero.
        momentum: how much of the last step is kept.
        centered: divide by the variance, the average of squares less the square of the average.
        capturable: whether a step can be captured as a CUDA graph; it keeps the count of steps on the GPU.
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        maximize: step along the gradient instead of against it.
        differentiable: not supported, a step works outside of any graph.

    Raises:
        ValueError: a setting is negative.
    """

    torchs = torch.optim.RMSprop


class Rprop(TorchOptimizer):
    r"""Moves each number against the sign of its gradient, by a step size of its own (Riedmiller and Braun 1993).

    A step size is multiplied by the second of ``etas`` while the sign of the gradient stays, and by the first when the
    sign changes, because the step went past a minimum. Use it with gradients of all data: the signs of gradients of
    batches are too noisy.

    Args:
        params: the parameters, or dicts of groups of them.
        lr: the length of the first step.
        etas: the factors by which a step size shrinks and grows.
        step_sizes: the smallest and the largest step size.
        capturable: whether a step can be captured as a CUDA graph; it keeps the count of steps on the GPU.
        foreach: whether one kernel works on all parameters at once; None: where that is faster.
        maximize: step along the gradient instead of against it.
        differentiable: not supported, a step works outside of any graph.

    Raises:
        ValueError: a setting is out of its range.
    """

    torchs = torch.optim.Rprop

"""The public names of ``nbgrad`` that need the engine. The package loads this module when one of them is used."""

from torch import (
    bfloat16 as bfloat16,
    bool as bool,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    int32 as int32,
    int64 as int64,
    manual_seed as manual_seed,
)

from nbgrad import (
    amp as amp,
    autograd as autograd,
    extend as extend,
    fft as fft,
    func as func,
    linalg as linalg,
    masked as masked,
    nn as nn,
    optim as optim,
    special as special,
    utils as utils,
)
from nbgrad.core.backend.autocast import autocast as autocast
from nbgrad.core.compilation import compiled as compiled
from nbgrad.core.diagnose.anomaly import AnomalyError as AnomalyError, detect_anomaly as detect_anomaly
from nbgrad.core.diagnose.gradcheck import (
    GradcheckError as GradcheckError,
    gradcheck as gradcheck,
    gradgradcheck as gradgradcheck,
)
from nbgrad.core.dispatch.function import Function as Function, once_differentiable as once_differentiable
from nbgrad.core.dispatch.op import op as op
from nbgrad.core.engine.scope import scope as scope
from nbgrad.core.engine.state import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from nbgrad.core.functional.checkpoint import checkpoint as checkpoint
from nbgrad.core.functional.grad import backward as backward, grad as grad
from nbgrad.core.functional.jacobian import hessian as hessian, jacobian as jacobian
from nbgrad.core.functional.products import hvp as hvp, jvp as jvp, vhp as vhp, vjp as vjp
from nbgrad.core.graph.finding import Finding as Finding
from nbgrad.core.graph.graph import AutogradGraph as AutogradGraph
from nbgrad.core.interop import einops_backend as _einops, entering as _entering, torch_contexts as _contexts  # noqa: F401  # importing them makes einops and torch accept nbgrad's tensors
from nbgrad.core.interop.numpy_arrays import from_numpy as from_numpy
from nbgrad.core.interop.torch_functions import from_dlpack as from_dlpack
from nbgrad.core.tensor.broadcast_check import BroadcastError as BroadcastError, strict_broadcast as strict_broadcast
from nbgrad.core.tensor.tensor import Tensor as Tensor, tensor as tensor
from nbgrad.functions import *  # noqa: F403  # functions such as exp: from the op table, listed in functions.pyi
from nbgrad.nn.from_torch import from_torch as from_torch
from nbgrad.nn.safetensors import load_safetensors as load_safetensors, save_safetensors as save_safetensors

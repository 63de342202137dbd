"""The op table: importing it fills ``OPS`` and gives ``Tensor`` its operators and methods."""

from nbgrad.core.ops.activation import (
    log_softmax as log_softmax,
    relu as relu,
    sigmoid as sigmoid,
    softmax as softmax,
    tanh as tanh,
)
from nbgrad.core.ops.assignment import (
    copy as copy,
    fill as fill,
    setitem as setitem,
    view_scatter as view_scatter,
)
from nbgrad.core.ops.conversion import to as to
from nbgrad.core.ops.elementwise import (
    add as add,
    div as div,
    eq as eq,
    exp as exp,
    ge as ge,
    gt as gt,
    le as le,
    log as log,
    lt as lt,
    mul as mul,
    ne as ne,
    neg as neg,
    pow as pow,
    sqrt as sqrt,
    sub as sub,
    where as where,
)
from nbgrad.core.ops.indexing import gather as gather, getitem as getitem
from nbgrad.core.ops.linalg import linear as linear, matmul as matmul
from nbgrad.core.ops.loss import cross_entropy as cross_entropy, mse_loss as mse_loss
from nbgrad.core.ops.reduction import (
    amax as amax,
    argmax as argmax,
    max as max,
    maximum as maximum,
    mean as mean,
    sum as sum,
)
from nbgrad.core.ops.shape import (
    clone as clone,
    expand as expand,
    permute as permute,
    reshape as reshape,
    squeeze as squeeze,
    sum_to_size as sum_to_size,
    transpose as transpose,
    unsqueeze as unsqueeze,
)

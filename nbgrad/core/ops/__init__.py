"""The op table: importing it fills ``OPS`` and gives ``Tensor`` its operators and methods.

It imports ``dispatch`` and below; inside it a folder may import any other.

Every public function of the modules beside this one stands here too. There is no list of them: __init__.pyi, which is
written from the table, tells type checkers and editors what there is.
"""

from nbgrad.core.dispatch.exports import found
from nbgrad.core.ops.elementwise.powers import square
from nbgrad.core.ops.neural.activations import swish
from nbgrad.core.ops.shape.views import adjoint

# Another module has a helper of that name, or torch has no such function.
_decided = {"adjoint": adjoint, "square": square, "swish": swish}
globals().update(found(__name__, __path__, "torch_signatures", _decided))

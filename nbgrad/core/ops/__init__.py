"""The op table: importing it fills ``OPS`` and gives ``Tensor`` its operators and methods.

It imports ``dispatch`` and below; inside it a folder may import any other.

Every public function of the modules beside this one stands here too. They are found by name when this module is
imported. Type checkers and editors read them in __init__.pyi, which is written from the table.
"""

from nbgrad.core.dispatch.exports import found
from nbgrad.core.ops.elementwise.powers import square
from nbgrad.core.ops.neural.activations import swish
from nbgrad.core.ops.shape.views import adjoint

# These are named here, because another module has a helper of that name, or torch has no such function.
_decided = {"adjoint": adjoint, "square": square, "swish": swish}
globals().update(found(__name__, __path__, "torch_signatures", _decided))

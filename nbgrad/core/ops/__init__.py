"""The op table: importing it fills ``OPS`` and gives ``Tensor`` its operators and methods.

Every public function of the modules beside this one stands here too. Nobody lists them: __init__.pyi, which is written
from the table, tells type checkers and editors what there is.
"""

from nbgrad.core.naming import found
from nbgrad.core.ops.dimensions import adjoint
from nbgrad.core.ops.gates import swish
from nbgrad.core.ops.powers import square

# Another module has a helper of that name, or torch has no such function.
_decided = {"adjoint": adjoint, "square": square, "swish": swish}
globals().update(found(__name__, __path__, "calling", _decided))

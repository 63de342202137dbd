"""New tensors of the element type and on the device of another: constants, which no gradient reaches."""

from nbgrad.core.op import install
from nbgrad.core.tensor import Tensor


def _new(name, says):
    """The method of that name, by torch's own."""

    def new(self, *args, requires_grad=False, **settings):
        return Tensor(getattr(self.data, name)(*args, **settings), requires_grad)

    new.__name__ = new.__qualname__ = name
    new.__doc__ = f"{says}, with the element type and on the device of this one unless told otherwise."
    return new


for _name, _says in {
    "new_empty": "A tensor of a shape with whatever is in its memory",
    "new_full": "A tensor of a shape filled with one value",
    "new_ones": "A tensor of ones of a shape",
    "new_tensor": "A tensor of the numbers given, copied",
    "new_zeros": "A tensor of zeros of a shape",
}.items():
    install(_name, _new(_name, _says))

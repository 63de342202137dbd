"""The engine: tensors, the op table, the backward walk. It knows no notebook."""

from nbgrad.core.backend.allocator import keep_freed
from nbgrad.core.compilation import choose

choose()
keep_freed()

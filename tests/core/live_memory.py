"""The memory that kernels allocated and that is still alive: its current size, and its peak."""

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Live(TorchDispatchMode):
    """Counts the bytes of the storages that kernels make, until these die."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._seen: set[int] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch imports its compiler, which takes seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for one in result if isinstance(result, list | tuple) else [result]:
            if isinstance(one, torch.Tensor):
                self._count(one.untyped_storage())
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._seen:
            return
        self._seen.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)

        def gone() -> None:
            self._seen.discard(key)
            self.now -= size

        weakref.finalize(storage, gone)

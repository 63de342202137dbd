"""Kernels that tests compile are kept in a directory of the tests' own."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="package")
def compiled_kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An empty cache directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield

"""Which packages there are: modules of ``tests.models.programs``."""

from pathlib import Path

PROGRAMS = sorted(path.stem for path in (Path(__file__).parent / "programs").glob("*.py"))
"""All of them. ``all.txt`` has their versions."""

SMALL: dict[str, list[str]] = {
    "einops": [],
    "torchdiffeq": ["dopri5", "rk4", "adjoint"],
    "torchsde": [],
    "x_transformers": ["decoder", "rotary", "encoder_decoder"],
    "torch_geometric": ["gcn", "gat", "gin", "pooled", "heterogeneous"],
    "transformers": ["bert", "llama", "mixtral", "mamba", "t5", "clip", "wav2vec", "trainer"],
}
"""The packages that `make test` runs, with the names of their programs; no names means all. They are pure Python.
small.txt has their versions."""

LEFT_OUT: dict[str, str] = {}
"""Packages that do not work with this torch, and why."""

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
"""Those that `make test` runs, and which of their programs; none means all. They are written in Python alone: small.txt
has their versions."""

LEFT_OUT: dict[str, str] = {}
"""Packages that do not work with this torch, and why."""

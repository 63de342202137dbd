"""nbgrad computes statistics and checks of a tensor in pieces. Here they are compared with those of the whole."""

import math

import torch

from nbgrad.core.graph import nonfinite, stats


def check_statistics(data: torch.Tensor) -> None:
    """Check the statistics that a graph shows, and those of which every number is counted."""
    whole = (data.abs() if data.is_complex() else data).double().reshape(-1)
    sound = whole[whole.isfinite()]
    part = 1e-6 if data.dtype.itemsize < (16 if data.is_complex() else 8) else 1e-12
    for exact in (False, True):
        found = stats.summarise(data, exact=exact)
        assert (found.nan, found.inf) == (int(whole.isnan().sum()), int(whole.isinf().sum()))
        assert close(found.norm, float(whole.norm()), part=part)
        if len(sound):
            assert (found.low, found.high) == (float(sound.min()), float(sound.max()))
            assert close(found.mean, float(sound.mean()), part=part, scale=float(sound.abs().max()))
        else:
            assert (found.low, found.high, found.mean, found.counts) == (None, None, None, None)
        if found.counts is None:
            continue
        counts = torch.histc(sound, 20)
        if exact or data.numel() <= stats.SAMPLE:
            assert found.sample is None
            assert found.counts == tuple(counts.int().tolist())
        else:
            assert found.sample == stats.BINNED
            shares = torch.tensor(found.counts) / sum(found.counts)
            assert (shares - counts / len(sound)).abs().max() < 0.02


def check_finite(data: torch.Tensor) -> None:
    """Check the tests for NaN and Inf, and the norm that a frame keeps."""
    wide = data.resolve_conj().resolve_neg().to(torch.promote_types(data.dtype, torch.float32))
    assert close(stats.read(stats.norms({0: data}))[0], float(wide.norm()), part=1e-3)
    assert nonfinite.finite(data) is bool(data.isfinite().all())
    for kind, mask in (("nan", data.isnan()), ("inf", data.isinf())):
        assert nonfinite.holds(kind, data) is bool(mask.any())
        assert nonfinite.count(kind, data) == int(mask.sum())
        if mask.any():
            assert nonfinite.first(kind, data) == tuple(mask.nonzero()[0].tolist())
    assert nonfinite.unmeant(data) is bool(data.isinf().any() and data[data.isfinite()].any())


def close(found: float | None, wanted: float, *, part: float = 1e-12, scale: float = 0.0) -> bool:
    """Whether two numbers are the same but for the order of additions."""
    if found is None or math.isnan(wanted) or math.isinf(wanted):
        return found is not None and repr(found) == repr(wanted)
    return abs(found - wanted) <= part * max(abs(wanted), scale)

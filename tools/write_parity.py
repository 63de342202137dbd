"""Tables of the public names of torch.nn and torch.optim: is each here? The site adds them to docs/parity.md."""

import inspect
import sys
from pathlib import Path
from types import ModuleType

import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # this checkout, also where nbgrad is not installed

from nbgrad import nn, optim  # noqa: E402

MODULES: dict[ModuleType, ModuleType] = {
    torch.nn: nn,
    torch.nn.init: nn.init,
    torch.nn.parallel: nn.parallel,
    torch.optim: optim,
    torch.optim.lr_scheduler: optim.lr_scheduler,
    torch.optim.swa_utils: optim.swa_utils,
}
"""torch's modules, each with nbgrad's module of the same purpose."""

MISSING = {
    "Container": "torch has deprecated it: `Module` does the same",
    "DataParallel": "for several devices in one process: use `DistributedDataParallel`, as torch advises",
    "LinearCrossEntropyOptions": "an option of one loss of torch: the number of parts in which it is computed",
    "NLLLoss2d": "torch has deprecated it: `NLLLoss` does the same",
    "SparseAdam": "accepts only sparse gradients; nbgrad's are dense",
    "data_parallel": "for several devices in one process, like `DataParallel`",
    "factory_kwargs": "a helper for the constructors of torch's own modules",
    "gather": "a part of `DataParallel`",
    "parallel_apply": "a part of `DataParallel`",
    "replicate": "a part of `DataParallel`",
    "scatter": "a part of `DataParallel`",
    "swap_in_optimizer_params_and_state": "for optimizers whose `step()` torch differentiates or compiles",
}
"""The names that are not here, and why."""


def names(module: ModuleType) -> list[str]:
    """The public classes and functions of one of torch's modules."""
    if hasattr(module, "__all__"):
        listed = [name for name in module.__all__ if not inspect.ismodule(getattr(module, name))]
        return sorted(listed, key=str.lower)
    found = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value))
    ]
    return sorted(found, key=str.lower)


def extra() -> list[str]:
    """The modules that nbgrad.nn has and torch.nn does not have."""
    return [
        name
        for name, value in vars(nn).items()
        if inspect.isclass(value) and issubclass(value, nn.Module) and not hasattr(torch.nn, name)
    ]


def tables() -> str:
    """A table for each of torch's modules, below a sentence with the share of the names that are here."""
    every = {theirs: names(theirs) for theirs in MODULES}
    here = sum(name not in MISSING for found in every.values() for name in found)
    count = sum(map(len, every.values()))
    version = ".".join(torch.__version__.split(".")[:2])
    head = f"""nbgrad has **{here / count:.1%} of the public names** of torch {version}, {here} of {count}, in
{", ".join(f"`{theirs.__name__}`" for theirs in MODULES)}.

nbgrad also has these modules, which torch does not have: {", ".join(f"`{name}`" for name in extra())}.
"""
    return "\n".join([head, *(section(theirs, found) for theirs, found in every.items())])


def section(theirs: ModuleType, found: list[str]) -> str:
    """One module as a table."""
    here = sum(name not in MISSING for name in found)
    lines = [f"## {theirs.__name__}", "", f"{here} of {len(found)}.", "", "| name | in nbgrad |", "|---|---|"]
    lines += [f"| `{name}` | {f'no: {MISSING[name]}' if name in MISSING else 'yes'} |" for name in found]
    return "\n".join([*lines, ""])

"""Files and texts that nbgrad reads, damaged and made to do harm: each is read or refused, and nothing else changes."""

import copy
import json
import os
import random as python_random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.tensor.comparison import NoNumbers, numbers_of

CASES = 60

SECONDS = 2.0
"""How long the processor may work at a case. It takes milliseconds; one in a thousand takes a third of a second."""

BAD: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 63, 1 << 31, 1 << 40, 1 << 62, -(1 << 63), 1 << 64, 10**30, 0.5, 1e308, -0.0),
    *(
        "",
        "x",
        "nan",
        "inf",
        "cuda",
        "meta",
        "float32",
        "9**9**9**9",
        "SGD.param_groups[0]['lr']",
        "a\nb",
        "\ud800",
        "[0]",
    ),
    *([], [[]], {}, [1 << 40], [1 << 40, 1 << 40], [None], ["x"], {"value": 0}, {"value": 1 << 40}, {"tuple": []}),
]
"""The replacements for something in the JSON of a header."""


@lru_cache(1)
def original() -> tuple[bytes, nn.Module]:
    """A file of weights, and a network for it."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.2), nn.Linear(4, 2))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "it")
        nbgrad.save_safetensors(net, file)
        return file.read_bytes(), net


def split(file: bytes) -> tuple[dict[str, Any], bytes]:
    """The header of a file of safetensors, and its numbers."""
    size = int.from_bytes(file[:8], "little")
    return json.loads(file[8 : 8 + size]), file[8 + size :]


def joined(header: dict[str, Any], numbers: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + numbers


def damaged(file: bytes, random: Random) -> bytes:
    """The file with some bytes changed, removed or doubled."""
    made = bytearray(file)
    for _ in range(random.choice((1, 1, 2, 5, 20))):
        at = random.randrange(len(made)) if random.random() < 0.3 else random.randrange(min(len(made), 4000))
        kind = random.randrange(4)
        if kind == 0:
            made[at] = random.randrange(256)
        elif kind == 1:
            made[at] ^= 1 << random.randrange(8)
        elif kind == 2:
            del made[at : at + random.choice((1, 2, 10, 1000))]
            made += b"\0"
        else:
            made[at:at] = made[at : at + random.choice((1, 2, 10, 1000))]
    return bytes(made)


def places(given: Any) -> Iterator[tuple[Any, Any]]:
    """Each list and object in a structure, with each of its keys."""
    waiting = [given]
    while waiting:
        one = waiting.pop()
        for key in list(one) if isinstance(one, dict) else range(len(one)):
            yield one, key
            if isinstance(one[key], dict | list):
                waiting.append(one[key])


def wrong_header(file: bytes, random: Random) -> bytes:
    """A file of safetensors whose header is wrong."""
    header, numbers = split(file)
    holder, key = random.choice(list(places(header)))
    holder[key] = random.choice(BAD)
    return joined(header, numbers)


def weights(random: Random) -> None:
    net = copy.deepcopy(original()[1])  # a new network would draw random numbers
    before = {name: value.data.clone() for name, value in net.state_dict().items()}
    made = random.choice((damaged, wrong_header))(original()[0], random)
    if not _read(made, lambda path: nbgrad.load_safetensors(net, path)):
        assert all(torch.equal(value.data, before[name]) for name, value in net.state_dict().items()), "half loaded"


def an_answer(random: Random) -> None:
    text = "".join(
        random.choice(("[", "]", "(", ")", ",", "1", "-", ".", "e9", "9" * 50, " ", "'", "{", "x")) for _ in range(30)
    )
    text = random.choice((text, "[" * random.randrange(1, 5000) + text, text * random.randrange(1, 400)))
    try:
        numbers_of(text)
    except NoNumbers:
        return


def _read(made: bytes, reader: Callable[[Path], Any]) -> bool:
    """Whether a file is read; it is one clear error where it is not."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "it")
        path.write_bytes(made)
        said = "read"
        try:
            reader(path)
        except (ValueError, RuntimeError) as error:
            said = "" if not str(error) else "refused"
        assert said, "an error says what is wrong"
        assert [one.name for one in Path(folder).iterdir()] == ["it"]
        assert path.read_bytes() == made
    return said == "read"


def state() -> dict[str, Any]:
    """The parts of the process that no reader may change."""
    return {
        "gradients": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "random numbers": (torch.get_rng_state().tolist(), python_random.getstate(), np.random.get_state()[1].tolist()),
        "defaults": (
            torch.get_default_dtype(),
            torch.get_default_device(),
            torch.are_deterministic_algorithms_enabled(),
        ),
        "threads": (torch.get_num_threads(), threading.active_count()),
        "environment": dict(os.environ),
        "folder": (os.getcwd(), sorted(os.listdir())),  # noqa: PTH109, PTH208  # as they are
        "modes": torch._C._len_torch_function_stack() + torch._C._len_torch_dispatch_stack(),
        "limit": sys.getrecursionlimit(),
        "CUDA": torch.cuda.is_initialized(),
    }


def check(random: Random) -> None:
    """Read one file or text, and look at the process."""
    original()
    before, modules, begun = state(), set(sys.modules), time.process_time()
    random.choice((weights, weights, weights, an_answer))(random)
    taken = time.process_time() - begun
    assert taken < SECONDS, f"it took {taken:.1f} s of the processor"
    after = state()
    assert [name for name, one in after.items() if one != before[name]] == [], "reading has changed these"
    new = {name for name in set(sys.modules) - modules if not name.startswith(("torch.", "sympy", "mpmath", "nbgrad."))}
    assert new == set(), "modules that reading a file has imported"

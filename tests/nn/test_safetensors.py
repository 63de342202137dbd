"""Files of safetensors: ours are torch's, and torch's are ours."""

import copy

import pytest
import torch
from safetensors.torch import load_file, load_model, save_model

from nbgrad import nn
from nbgrad.nn.from_torch import from_torch
from nbgrad.nn.safetensors import load_safetensors, read_safetensors, save_safetensors


def tied(lib):
    model = lib.Sequential(lib.Linear(3, 3), lib.BatchNorm1d(3), lib.Linear(3, 3))
    model[2].weight = model[0].weight
    return model


def equal(mine, yours):
    assert list(mine) == list(yours)
    assert all(torch.equal(mine[key], yours[key]) for key in yours)


def test_there_and_back(tmp_path):
    model, other = tied(nn), tied(nn)
    save_safetensors(model, tmp_path / "weights.safetensors", {"made by": "a test"})
    found = load_safetensors(other, tmp_path / "weights.safetensors")
    assert found.missing_keys == found.unexpected_keys == []
    equal(other.state_dict(), model.state_dict())
    assert other[0].weight is other[2].weight


def test_torch_reads_ours(tmp_path):
    ours, theirs = tied(nn), tied(torch.nn)
    save_safetensors(ours, tmp_path / "weights.safetensors")
    load_model(theirs, tmp_path / "weights.safetensors")
    equal(ours.state_dict(), theirs.state_dict())
    assert "2.weight" not in load_file(tmp_path / "weights.safetensors")


def test_we_read_torchs(tmp_path):
    theirs = tied(torch.nn)
    ours = from_torch(copy.deepcopy(theirs))
    for parameter in ours.parameters():
        nn.init.zeros_(parameter)
    save_model(theirs, tmp_path / "weights.safetensors")
    load_safetensors(ours, tmp_path / "weights.safetensors")
    equal(ours.state_dict(), theirs.state_dict())


def test_keys_that_do_not_match(tmp_path):
    save_safetensors(nn.Linear(3, 3), tmp_path / "weights.safetensors")
    with pytest.raises(RuntimeError, match="bias"):
        load_safetensors(nn.Linear(3, 3, bias=False), tmp_path / "weights.safetensors")
    found = load_safetensors(nn.Linear(3, 3, bias=False), tmp_path / "weights.safetensors", strict=False)
    assert found.unexpected_keys == ["bias"]


def test_a_state_dict_of_views_and_of_empty_tensors(tmp_path):
    state = {"turned": torch.arange(6.0).reshape(2, 3).t(), "empty": torch.empty(0, 2), "none": torch.empty(0)}
    save_safetensors(state, tmp_path / "weights.safetensors")
    read = read_safetensors(tmp_path / "weights.safetensors")
    assert read.keys() == state.keys()
    assert all(torch.equal(read[key], state[key]) for key in state)


def test_what_cannot_be_written(tmp_path):
    whole = torch.arange(4.0)
    with pytest.raises(ValueError, match=r"(part|whole) and (part|whole) share memory"):
        save_safetensors({"whole": whole, "part": whole[:2]}, tmp_path / "weights.safetensors")
    with pytest.raises(ValueError, match="holds tensors only, and note is str"):
        save_safetensors({"note": "text"}, tmp_path / "weights.safetensors")


def test_metadata_that_name_a_tensor_are_no_tensor(tmp_path):
    path, model, other = tmp_path / "weights.safetensors", tied(nn), tied(nn)
    save_safetensors(model, path, {"largest": "0.weight", "from": "0.weight"})
    load_safetensors(other, path)
    equal(other.state_dict(), model.state_dict())
    assert "largest" not in read_safetensors(path)
    with pytest.raises(ValueError, match=r"metadata may not have the name of a tensor, as '2\.weight'"):
        save_safetensors(model, path, {"2.weight": "1.bias"})
    load_safetensors(other, path)  # the file has not changed


def test_a_file_that_does_not_fit_changes_nothing(tmp_path):
    path, model = tmp_path / "weights.safetensors", tied(nn)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    save_safetensors({**tied(nn).state_dict(), "1.bias": torch.zeros(4)}, path)
    with pytest.raises(RuntimeError, match=r"size mismatch for 1\.bias"):
        load_safetensors(model, path)
    equal(model.state_dict(), before)

"""The patients of lesson 13: each has the fault that it should have, and only the symptoms of this fault."""

import pytest

from nbgrad.lab import clinic
from nbgrad.lab.lesson_13 import KINDS

pytestmark = pytest.mark.once


def test_each_patient_has_a_fault_of_its_own() -> None:
    found = {name: clinic.admit(name).findings & KINDS for name in clinic.names()}
    assert all(found.values()), found
    alone = [next(iter(kinds)) for kinds in found.values() if len(kinds) == 1]
    assert len(set(alone)) == len(alone)
    assert set().union(*found.values()) == KINDS


def test_a_patient_shows_symptoms_and_no_diagnosis() -> None:
    for name in clinic.names():
        patient = clinic.admit(name)
        shown = repr(patient)
        assert shown.startswith(f"patient {name}: ")
        assert "weight (" in shown
        assert not [kind for kind in patient.findings - {"nan"} if kind in shown]
        assert patient.source.startswith(f"def _{name}(")
    assert "no gradient" not in repr(clinic.admit("a"))
    assert clinic.admit("a") is clinic.admit("a")


def test_a_patient_that_is_not_there() -> None:
    with pytest.raises(KeyError, match="there is no patient 'z', only a, b, c"):
        clinic.admit("z")

"""Assertions about numbers, gradients, engines and training steps, in the manner of ``torch.testing``."""

from nbgrad.testing.engines import assert_engine_correct as assert_engine_correct
from nbgrad.testing.gradients import assert_gradients_close as assert_gradients_close
from nbgrad.testing.growth import assert_no_growth as assert_no_growth
from nbgrad.testing.learning import assert_all_learn as assert_all_learn, assert_frozen as assert_frozen
from nbgrad.testing.numbers import assert_close as assert_close
from nbgrad.testing.soundness import assert_sound as assert_sound

"""The engine: tensors, the op table, the backward walk. It knows no notebook."""

from importlib import import_module

from nbgrad.core.compilation import choose

choose()
# Whoever imports a part of the engine gets all of nbgrad: einops and torch then take its tensors, graphs are drawn.
import_module("nbgrad")._load()

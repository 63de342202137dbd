"""From a graph to what a reader sees: lay out, draw, show.

Each renderer is the function its module is named after (``from nbgrad.widgets.svg import svg``; so do ``text`` and
``page``); those are not repeated here, where they would hide the modules.
"""

from nbgrad.widgets.description import Description as Description, Picture as Picture
from nbgrad.widgets.engine import EngineError as EngineError, EngineMissing as EngineMissing
from nbgrad.widgets.layout import lay_out as lay_out
from nbgrad.widgets.view import GraphView as GraphView, show as show, static_bundle as static_bundle

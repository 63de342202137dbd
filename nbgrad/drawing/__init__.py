"""The graphs of other engines: readers that understand their objects, and the graph that is drawn of them.

It imports the core and the view.
"""

from nbgrad.drawing.against import EngineDifference as EngineDifference, EngineVerdict as EngineVerdict
from nbgrad.drawing.caller import verdict as verdict
from nbgrad.drawing.graph import DrawnGraph as DrawnGraph
from nbgrad.drawing.part import (
    AbstractValue as AbstractValue,
    GraphCycleError as GraphCycleError,
    Part as Part,
    UnreadableError as UnreadableError,
)
from nbgrad.drawing.reading import read as read, reader as reader

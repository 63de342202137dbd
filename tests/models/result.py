"""The result of a program."""

from dataclasses import dataclass

EQUAL = {"equal to the bit", "close"}
"""The values of ``Result.converted`` for a correct converted model."""


@dataclass
class Result:
    """The result of a program.

    Attributes:
        program: its name.
        recorded: "equal", or what differs from the run without recording.
        note: what the reader should know of the program itself.
        converted: "equal to the bit", "close", "refused", "error", "different", or "" where nothing can be converted.
        message: the message of a refusal or an error, or the difference.
        time, memory: the ratios of a recorded step to a plain step.
        converted_time: the ratio of a converted step to a plain step.
        ops: how many ops the graph has.
        seconds: how long all of it took.
    """

    program: str
    recorded: str = ""
    note: str = ""
    converted: str = ""
    message: str = ""
    time: float | None = None
    memory: float | None = None
    converted_time: float | None = None
    ops: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        said = f": {self.message}" if self.message else ""
        note = f" ({self.note})" if self.note else ""
        converted = f"; converted: {self.converted}{said}" if self.converted else ""
        return f"{self.program}: {self.recorded}{note}{converted}"

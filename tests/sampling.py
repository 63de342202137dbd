"""Which cases of a test function run where there is no time for all of them.

``python -m tests.sampling 3 FILE ...`` prints one in three of the files.
"""

import argparse
from zlib import crc32


def chosen(function: str, cases: int, one_in: int, turn: int) -> set[int]:
    """The positions, out of ``cases``, of the cases of a test function that run.

    The first case always runs. The others are cut into groups of ``one_in``, and one case of each group runs. So a
    sample is spread over all cases. The place in the group changes from group to group: otherwise parameters that
    alternate would all have the same value. Any ``one_in`` successive turns run each case once.
    """
    positions = {start + (turn + crc32(f"{function} {start}".encode())) % one_in for start in range(1, cases, one_in)}
    return {0} | {position for position in positions if position < cases}


def rotated(group: str, tests: int, one_in: int, turn: int) -> set[int]:
    """The same for a group of long tests. Here no test runs always.

    The tests are cut into groups of ``one_in``, and one of each group runs. Any ``one_in`` successive turns run each
    test once.
    """
    positions = {start + (turn + crc32(f"{group} {start}".encode())) % one_in for start in range(0, tests, one_in)}
    return {position for position in positions if position < tests}


def main() -> None:
    """Print the files whose turn it is."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("one_in", type=int, metavar="N")
    parser.add_argument("files", nargs="+", metavar="FILE")
    options = parser.parse_args()
    run = rotated("files", len(options.files), options.one_in, 0)
    print(*(file for place, file in enumerate(options.files) if place in run))


if __name__ == "__main__":
    main()

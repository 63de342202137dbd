#!/bin/sh
# Prints the first Python that is new enough: $PYTHON if it is set, else the usual names. Each candidate is run, because
# a name on PATH may be a shim that points nowhere, and Debian's python3 has no venv until one more package is there.
set -eu

fits() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14 python}; do
    if fits "$candidate"; then
        command -v "$candidate"
        exit 0
    fi
done

tried=${PYTHON:-python3}
found=$("$tried" -V 2>/dev/null) || found="not there"
{
    echo "nbgrad needs Python 3.11 or newer with its venv module; $tried is $found."
    echo "Install one (on Debian and Ubuntu: sudo apt-get install -y python3 python3-venv), or name one:"
    echo "    make setup PYTHON=path/to/python3.11"
} >&2
exit 1

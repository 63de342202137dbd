"""``python -m nbgrad run train.py``: the command ``nbgrad`` where it is not on PATH."""

from nbgrad.run.command import main

raise SystemExit(main())

"""``python -m nbgrad doctor``: the command ``nbgrad`` where it is not on PATH."""

from nbgrad.doctor import main

raise SystemExit(main())

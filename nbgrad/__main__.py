"""``python -m nbgrad doctor``, ``python -m nbgrad lab``: the command ``nbgrad`` where it is not on PATH."""

from nbgrad.doctor import main

raise SystemExit(main())

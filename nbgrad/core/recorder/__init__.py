"""Records torch's own autograd, and notifies observers of it as the engine does for nbgrad's: see ``docs/torch.md``.

It imports ``ops``, ``dispatch``, ``tensor``, ``engine`` and ``backend``.
"""

"""Records torch's own autograd, and tells the observers of it as the engine tells them of nbgrad's: ``docs/torch.md``.

It imports ``ops``, ``dispatch``, ``tensor``, ``engine`` and ``backend``.
"""

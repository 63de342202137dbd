"""Records torch's own autograd, and tells the observers of it as the engine tells them of nbgrad's: ``docs/torch.md``.

It may import everything below: ``ops``, ``dispatch``, ``tensor``, ``engine`` and ``backend``.
"""

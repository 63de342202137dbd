"""Records torch's own autograd, and tells the observers of it what the engine tells them of ours: see ``docs/torch.md``.

It may import everything below: ``ops``, ``dispatch``, ``tensor``, ``engine`` and ``backend``.
"""

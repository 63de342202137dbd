"""``Tensor``, its methods and its views. It imports ``engine`` and below."""

"""``AutogradGraph``: the record of what ran, as data. It imports ``ops`` and below."""

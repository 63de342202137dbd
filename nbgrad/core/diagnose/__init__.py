"""gradcheck and anomaly detection. It imports ``graph``, ``functional`` and below."""

"""Fourier transforms and spectra. It imports ``dispatch`` and below, and other ops."""

"""Kernels in C for CPUs with AVX-512 or AVX2, compiled for this processor when they are first
needed.
"""

"""Combray beside other MPI libraries: the parts of bench/compare."""

"""Kernels of the sharp bots, compiled by numba: they deal what a seat cannot see, and play it out.

Nothing of this is imported before a sharp bot first decides (`rules.bots.sharp`): numba takes a second and 100 MB.
Everything is counted in whole numbers, so that the same view and chance give the same move on every machine.
"""

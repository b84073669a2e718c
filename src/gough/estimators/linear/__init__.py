"""Least squares and its kin: weighted, Gauss-Markov, robust, maximum likelihood with noisy
positions.
"""

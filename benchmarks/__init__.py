"""Benchmarks: ratios to named peers, measured side by side in one run.

The product never imports them, and the tests judge none of their times.
"""

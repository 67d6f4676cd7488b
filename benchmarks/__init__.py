"""Benchmarks: ratios against named peers, measured side by side in one run.

But: no test asserts a time, and no product code imports from here.
"""

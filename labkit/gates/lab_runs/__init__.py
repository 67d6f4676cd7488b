"""Runs of labs that gates share: each implementation once, in a fork of a collected lab."""

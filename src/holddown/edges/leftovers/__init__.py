"""Traces that engines leave on this machine, and their removal."""

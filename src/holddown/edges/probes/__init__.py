"""Asking an installed engine."""

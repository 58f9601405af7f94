"""Imported by the probe on trial."""

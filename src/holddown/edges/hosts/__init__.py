"""This machine, as /proc, cgroups and NVML show it."""

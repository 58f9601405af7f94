"""How to run it: a plan becomes a command line; a running engine becomes states."""

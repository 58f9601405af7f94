"""A deployment as text for the programs that start things: each knows its own."""

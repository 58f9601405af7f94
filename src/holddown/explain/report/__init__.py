"""A deployment as one page of HTML: what runs and why, whether it is right, how fast, and what nobody knows."""

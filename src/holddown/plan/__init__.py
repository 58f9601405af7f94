"""What to run: facts in, a plan with a because for every setting out."""

"""IS THIS COMMAND RIGHT: a launch command that somebody wrote, judged against a build, a machine and a checkpoint."""

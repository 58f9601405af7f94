"""What is true: of a checkpoint, a machine, an engine. Readers turn bytes and text into facts."""

"""Networks watched in training: finite widths beside their limit, frame by frame, in one value and one file."""

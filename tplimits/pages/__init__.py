"""What every report looks like in a terminal, a notebook and a browser; it knows nothing of what it reports."""

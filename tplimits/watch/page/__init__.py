"""A recording as one HTML file that opens offline and computes every value again from the recorded parameters."""

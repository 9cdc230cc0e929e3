"""The interpreter of a kernel recursion: tables between inputs, on labelled arrays or written on a tape."""

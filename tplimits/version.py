"""The version of the package, once: the build and every written file read it here."""

VERSION = "0.1.0"

from . import document as document

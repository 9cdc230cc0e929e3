from . import html as html

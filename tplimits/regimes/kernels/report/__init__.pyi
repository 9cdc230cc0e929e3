from . import document as document
from . import latex as latex
from . import outline as outline
from . import picture as picture
from . import steps as steps
from . import text as text

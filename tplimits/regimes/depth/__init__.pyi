from . import picture as picture
from . import report as report

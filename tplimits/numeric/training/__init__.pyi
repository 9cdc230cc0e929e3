from . import request as request
from . import run as run
from . import tangent_request as tangent_request
from . import tangent_run as tangent_run

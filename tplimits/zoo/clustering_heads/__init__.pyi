from . import measures as measures
from . import recipes as recipes
from . import spikes as spikes
from . import start as start
from . import task as task
from . import views as views

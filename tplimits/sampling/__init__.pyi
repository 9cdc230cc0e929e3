from . import verdict as verdict

from .running import Running as Running
from .trainer import Trainer as Trainer

"""python -m tplimits"""

import sys

from tplimits.cli import main

if __name__ == "__main__":
    sys.exit(main())

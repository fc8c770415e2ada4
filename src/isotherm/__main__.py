"""``python -m isotherm`` is the command ``isotherm``."""

import sys

from isotherm.cli.main import main

sys.exit(main())

"""`python -m koordsched` is `koord-scheduler`."""

import sys

from koordsched.cli import main

sys.exit(main())

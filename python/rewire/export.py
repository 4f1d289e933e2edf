"""python -m rewire.export NETWORK --output net.rir: brings a network of PyTorch in."""

from __future__ import annotations

import sys

from rewire.exporting.main import main

if __name__ == "__main__":
    sys.exit(main())

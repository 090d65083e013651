"""`python docs/drawings`: writes every drawing of the tour."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from drawings import write

write()

"""The verbs for maintainers."""

import argparse
from pathlib import Path

from labkit.verbs import Table, here


def _matrix(args: argparse.Namespace, root: Path) -> int:
    from labkit.course.matrix import write
    from labkit.gates.text.wording import CEILINGS, lower_ceilings

    changed = write(root) + [root / CEILINGS] * lower_ceilings(root)
    for path in changed:
        print(f"wrote {path.relative_to(root)}")
    if not changed:
        print("All generated parts are up to date.")
    return 0


TABLE = Table("For maintainers", "check marks readmes", {
    "check": ("run the gates, all or some", "labkit.gates.command"),
    "soak": ("run the randomised tests with many more examples, and all mutants",
             "labkit.gates.soak"),
    "matrix": ("write the generated parts of pages", here(_matrix)),
})  # fmt: skip

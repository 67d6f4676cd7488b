"""Results of tests on their way from a worker of pytest-xdist to the process that reports them.

But: they are pickled, so both ends must trust each other, as the processes of one run do. Graders,
whose worker holds a submission, use `labkit.running.remote.wire`.
"""

import copyreg
import pickle
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from labkit.running.score import Result
from labkit.running.trace import Failure


def _view(values: dict[str, Any]) -> MappingProxyType[str, Any]:
    return MappingProxyType(values)


# A call's keyword arguments are such a view, which pickle does not know.
copyreg.pickle(MappingProxyType, lambda view: (_view, (dict(view),)))


def pack(result: Result) -> bytes:
    """Return a result as bytes."""
    failure = result.failure
    facts = None if failure is None else dict(vars(failure))
    if facts is not None and facts["raised"] is not None:
        facts["raised"] = replace(facts["raised"], error=None)
    if facts is not None:
        # A rule is a function within a test, which cannot be pickled.
        facts["again"] = None
    return pickle.dumps((replace(result, failure=None), facts))


def unpack(data: bytes) -> Result:
    """Return the result that was packed."""
    result: Result
    result, facts = pickle.loads(data)
    if facts is None:
        return result
    failure = Failure(facts["expected"], facts["actual"])
    vars(failure).update(facts)
    return replace(result, failure=failure)

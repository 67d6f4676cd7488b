"""A caller that measures how many bytes a layer keeps."""

import gc
import sys
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

_NOT_STATE = (type, ModuleType, FunctionType, BuiltinFunctionType, CodeType)


class Scale:
    """A caller that feeds a layer and measures how many bytes the layer has, without its parts."""

    def __init__(self, layer: Any, *parts: Any) -> None:
        self._layer = layer
        self._parts = parts

    def growth(self, pieces: list[Any], times: int) -> int:
        """Feed the pieces once, then so many times; return the growth in that time, in bytes."""
        self._feed(pieces)
        before = self._size()
        for _ in range(times):
            self._feed(pieces)
        return self._size() - before

    def _feed(self, pieces: list[Any]) -> None:
        for piece in pieces:
            self._layer.feed(piece)

    def _size(self) -> int:
        seen, size, todo = {id(part) for part in self._parts}, 0, [self._layer]
        while todo:
            thing = todo.pop()
            if id(thing) not in seen and not isinstance(thing, _NOT_STATE):
                seen.add(id(thing))
                size += sys.getsizeof(thing)
                todo += gc.get_referents(thing)
        return size

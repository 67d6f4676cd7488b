"""What streams have learned, shared by all of them: what comes of which piece in which position.

A layer of text is a machine: its *position* and the next piece decide what comes out, and in which
position it is then. Models repeat themselves, so a layer works out each such step once, and later
looks it up: `node.get(piece)` is the output and the next node. Layers that are composed have one
position together, and a step through all of them is one look.

A position is a hashable value. A step that depends on more than that, such as the schema of a
parameter, is not remembered. Where more decides all the time, as while stop strings are too early,
a layer has no position: it stands `NOWHERE`. Text that is kept until later and decides nothing now
stays with the stream: a step that keeps some is known with it.
"""

from collections.abc import Hashable
from threading import Lock
from typing import Any

from mini_vllm.text.copyable import Copyable

# Longer pieces of text are not remembered: they hardly come again, and take much room.
LONGEST_PIECE = 64


UNKNOWN: tuple[bool, ...] = ()
# For most nodes, as steps that keep text are rare.
_NONE: dict[Any, tuple[Any, str, "Node"]] = {}


class Node(dict[Any, tuple[Any, "Node"]]):
    """The steps that are known from a position: by piece, what comes out and the next node.

    Attributes:
        position: the position.
        keeping: the steps that also keep text: what comes out, what is kept, and the next node.
        waiting: for a pipeline, whether a half character waits there, and whether a possible stop
            string: None if neither, `UNKNOWN` until somebody has looked.
    """

    __slots__ = ("keeping", "position", "waiting")

    def __init__(self, position: Hashable) -> None:
        super().__init__()
        self.position: Any = position
        self.keeping = _NONE
        self.waiting: tuple[bool, ...] | None = UNKNOWN

    def __reduce__(self) -> tuple[Any, ...]:
        # For `pickle`: what was learned is learned again.
        return _node_of, (self.position,)


# Where a layer stands that has no position; it stays empty.
NOWHERE = Node(None)


class Memory:
    """The nodes by position, which threads may share. Once full it starts anew.

    A stream may stand on a node that was emptied: its next step leads from there to a new one.

    Attributes:
        steps: how many are remembered now.
        learned: how many were ever worked out, for tests of the cost.
    """

    MOST_NODES = 1 << 14
    MOST_STEPS = 1 << 18

    def __init__(self) -> None:
        self._nodes: dict[Hashable, Node] = {}
        self._lock = Lock()
        self.steps = 0
        self.learned = 0

    def node(self, position: Hashable | None) -> Node:
        """Return the node of a position, `NOWHERE` without one."""
        if position is None:
            return NOWHERE
        node = self._nodes.get(position)
        if node is not None:
            return node
        with self._lock:
            return self._node(position)

    def learn(
        self,
        before: Hashable | None,
        piece: Hashable,
        output: Any,
        after: Hashable | None,
        part: str = "",
    ) -> Node:
        """Remember a step from a position to a position; return the node to stand on.

        Args:
            before: the position, or None if there was none, or if the step is not to be remembered.
            piece: what came.
            output: what came of it.
            after: the position that followed, or None.
            part: the text that the stream keeps of it.
        """
        if after is None:
            return NOWHERE
        if before is None or (isinstance(piece, str) and len(piece) > LONGEST_PIECE):
            return self.node(after)
        with self._lock:
            self.learned += 1
            if self.steps >= self.MOST_STEPS or len(self._nodes) > self.MOST_NODES - 2:
                self._clear()
            node, next_node = self._node(before), self._node(after)
            self.steps += piece not in (node.keeping if part else node)
            if part:
                node.keeping = node.keeping or {}
                node.keeping[piece] = output, part, next_node
            else:
                node[piece] = output, next_node
            return next_node

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._clear()

    def _node(self, position: Hashable) -> Node:
        node = self._nodes.get(position)
        if node is None:
            if len(self._nodes) >= self.MOST_NODES:
                self._clear()
            node = self._nodes[position] = Node(position)
        return node

    def _clear(self) -> None:
        for node in self._nodes.values():
            node.clear()
            node.keeping = _NONE
        self._nodes.clear()
        self.steps = 0


MEMORY = Memory()


def _node_of(position: Hashable | None) -> Node:
    return MEMORY.node(position)


class Machine(Copyable):
    """A layer that looks its steps up.

    Its `feed` asks the node first. Where that knows nothing, the layer leaves the node, works the
    step out, and learns it. A caller that composes layers, and looks up the steps of all of them
    together, has each `leave` its node once and then calls its `step`.

    Attributes:
        position: what the next step depends on, a hashable value; None where that is not all. It is
            read and set while the layer is on no node.
    """

    _shared = frozenset({"_node"})
    # Without values here, which would make them slower to read.
    _node: Node
    position: Any

    def leave(self) -> Any:
        """Go where the known steps have led; return that position, or None without one."""
        node, self._node = self._node, NOWHERE
        if node is not NOWHERE:
            self.position = node.position
        return node.position

    def _settle(self) -> None:
        """Go there, and stay on the node."""
        node = self._node
        self.leave()
        self._node = node

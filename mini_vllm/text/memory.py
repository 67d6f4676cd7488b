"""The steps of text layers, remembered for all streams: the output for a piece in a position.

A text layer is a machine: its *position* and the next piece decide its output and its next
position. Models repeat themselves, so a layer computes each such step once, and later looks it up:
`node.get(piece)` is the output and the next node. Composed layers have one position together, and a
step through all of them is one lookup.

A position is a hashable value. A step that depends on more than the position, such as the schema of
a parameter, is not remembered. If every step depends on more, as while stop strings are too early,
a layer has no position: it is at `NOWHERE`. Text that is kept for later and decides nothing now
stays with the stream; a step that keeps text is remembered together with that text.
"""

from collections.abc import Hashable
from threading import Lock
from typing import Any

from mini_vllm.text.copyable import Copyable

# Longer pieces of text are not remembered: they rarely repeat, and take much memory.
LONGEST_PIECE = 64


UNKNOWN: tuple[bool, ...] = ()
# For most nodes, as steps that keep text are rare.
_NONE: dict[Any, tuple[Any, str, "Node"]] = {}


class Node(dict[Any, tuple[Any, "Node"]]):
    """The known steps from a position: for each piece the output and the next node.

    Attributes:
        position: the position.
        keeping: the steps that also keep text: the output, the kept text, and the next node.
        waiting: for a pipeline, whether a half character is held there, and whether a possible
            stop string is held; None if neither is, `UNKNOWN` until the pipeline has looked.
    """

    __slots__ = ("keeping", "position", "waiting")

    def __init__(self, position: Hashable) -> None:
        super().__init__()
        self.position: Any = position
        self.keeping = _NONE
        self.waiting: tuple[bool, ...] | None = UNKNOWN

    def __reduce__(self) -> tuple[Any, ...]:
        # For `pickle`: the other process learns the steps again.
        return _node_of, (self.position,)


# The node of every layer that has no position; it stays empty.
NOWHERE = Node(None)


class Memory:
    """The nodes by position, which threads may share. Once full, it is cleared.

    A stream may still be on a node that was cleared: its next step leads to a new node.

    Attributes:
        steps: how many steps are remembered now.
        learned: how many steps were ever computed, for tests of the cost.
    """

    MOST_NODES = 1 << 14
    MOST_STEPS = 1 << 18

    def __init__(self) -> None:
        self._nodes: dict[Hashable, Node] = {}
        self._lock = Lock()
        self.steps = 0
        self.learned = 0

    def node(self, position: Hashable | None) -> Node:
        """Return the node of a position, or `NOWHERE` for None."""
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
        """Remember a step from a position to a position; return the node after the step.

        Args:
            before: the position before the step; None if there was none, or if the step is not to
                be remembered.
            piece: the input of the step.
            output: the output of the step.
            after: the position after the step, or None.
            part: the text that the stream keeps in the step.
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

    Its `feed` first looks in the node. If the step is not known, the layer leaves the node,
    computes the step, and learns it. A caller that composes layers, and looks up the steps of all
    of them together, calls `leave` of each layer once and from then on `step`.

    Attributes:
        position: the hashable value that decides the next step; None if the step depends on more.
            Read and set it only while the layer has left its node.
    """

    _shared = frozenset({"_node"})
    # Without values here, which would make them slower to read.
    _node: Node
    position: Any

    def leave(self) -> Any:
        """Set the position to the node's, and leave the node; return that position, or None."""
        node, self._node = self._node, NOWHERE
        if node is not NOWHERE:
            self.position = node.position
        return node.position

    def _settle(self) -> None:
        """Set the position to that of the node, and stay on the node."""
        node = self._node
        self.leave()
        self._node = node

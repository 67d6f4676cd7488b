from mini_vllm.text.events import StopOutput


class Node:
    def __init__(self, depth):
        self.depth = depth
        self.next = {}
        self.fail = None
        self.words = []
        self.hold = 0

    def step(self, char):
        node = self
        while char not in node.next and node.fail:
            node = node.fail
        return node.next.get(char, node)


def build(hidden, visible, keep_all):
    root = Node(0)
    every = hidden + visible
    for word in every:
        if not keep_all and any(other in word[:-1] for other in every):
            continue
        node = root
        for depth, char in enumerate(word, 1):
            if word in hidden:
                node.hold = node.depth
            node = node.next.setdefault(char, Node(depth))
        node.words.append(word)
    todo = [root]
    while todo:
        node = todo.pop(0)
        for char, child in node.next.items():
            child.fail = node.fail.step(char) if node.fail else root
            child.words += child.fail.words
            child.hold = child.hold or child.fail.hold
            todo.append(child)
    return root


class StopSequenceDecoder:
    def __init__(
        self,
        detokenizer,
        *,
        stop_token_ids=(),
        visible_stop_token_ids=(),
        stops=(),
        visible_stops=(),
        min_tokens=0,
    ):
        if isinstance(stops, str) or isinstance(visible_stops, str):
            raise ValueError("stops are a list of str")
        if "" in (*stops, *visible_stops):
            raise ValueError("one of the stops is empty")
        self._detokenizer = detokenizer
        self._stop_token_ids = frozenset(stop_token_ids)
        self._visible_stop_token_ids = frozenset(visible_stop_token_ids)
        self._stops = [*stops]
        self._visible_stops = [*visible_stops]
        self._min_tokens = min_tokens
        self._root = build(self._stops, self._visible_stops, min_tokens > 0)
        self._fresh()

    def _fresh(self):
        self._node = self._root
        self._waiting = ""
        self._reason = None
        self._count = 0

    @property
    def held(self):
        return self._waiting

    def _answer(self, text):
        return StopOutput(text, self._reason is not None, self._reason)

    def _search(self, text):
        before = len(self._waiting)
        text = self._waiting + text
        for place in range(before, len(text)):
            self._node = self._node.step(text[place])
            if self._node.words and self._count > self._min_tokens:
                word = max(self._node.words, key=len)
                self._reason = word
                self._waiting = ""
                if word in self._stops:
                    return text[: place + 1 - len(word)]
                return text[: place + 1]
        cut = len(text) - self._node.hold
        self._waiting = text[cut:]
        return text[:cut]

    def _last(self, text):
        text = self._search(text + self._detokenizer.flush())
        text += self._waiting
        self._waiting = ""
        return text

    def process(self, token_id):
        if self._reason is not None:
            return self._answer("")
        self._count += 1
        if self._count > self._min_tokens and token_id in self._stop_token_ids:
            text = self._last("")
            self._reason = token_id
        elif self._count > self._min_tokens and token_id in self._visible_stop_token_ids:
            text = self._last(self._detokenizer.feed(token_id))
            self._reason = token_id
        else:
            text = self._search(self._detokenizer.feed(token_id))
        return self._answer(text)

    def process_many(self, token_ids):
        if self._reason is not None:
            return [self._answer("")], 0
        outputs = []
        for token_id in token_ids:
            outputs.append(self.process(token_id))
            if outputs[-1].stopped:
                break
        return outputs, len(outputs)

    def flush(self):
        if self._reason is not None:
            return self._answer("")
        output = self._answer(self._last(""))
        if not output.stopped:
            self._fresh()
        return output

    def reset(self):
        self._detokenizer.flush()
        self._fresh()

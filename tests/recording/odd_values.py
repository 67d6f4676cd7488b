"""Values that are hard to show, and programs that make them."""

# Lines that make a value `x` which is hard to show; each may be followed by any others.
ODD = {
    "cycle": "x = []; x.append(x)",
    "cycle of objects": "x = Node(); x.next = Node(); x.next.next = x",
    "huge text": "x = 'a' * 10**6",
    "huge list": "x = [*range(10**5)]",
    "huge number": "x = 1 << 10**6",
    "deep list": "x = []\n    for _ in range(5000): x = [x]",
    "repr that raises": "x = Raises()",
    "repr that lies": "x = Lies()",
    "repr that writes": "x = Writes()",
    "a class that answers all": "x = Odd()",
    "text of its own": "x = OwnText('abc')",
    "lone surrogate": "x = '\\ud800'",
    "generator": "x = [*numbers(3)]; x = numbers(2); next(x)",
    "comprehension": "x = {n: [m for m in range(n)] for n in range(4)}",
    "thread": "x = []; t = threading.Thread(target=grow, args=(x,)); t.start(); t.join()",
    "deep recursion": "x = depth(200)",
    "endless recursion": "try: endless()\n    except RecursionError: x = 1",
    "exception": "try: {}['k']\n    except KeyError as error: x = error",
    "output": "x = print('hello')",
    "attribute deleted": "x = Node(); del x.next",
}
HEAD = """
import threading
class Node:
    def __init__(self): self.next = None
class Raises:
    def __repr__(self): raise ValueError("repr")
    def __getattr__(self, name): raise ValueError("getattr")
class Lies:
    def __repr__(self): return 5
    __class__ = property(lambda self: RAN.append("class") or int)
class Writes:
    def __repr__(self): RAN.append("repr"); return "w"
class Meta(type):
    def __eq__(self, other): RAN.append("meta"); return True
    def __hash__(self): RAN.append("hash"); return 1
    def __instancecheck__(self, other): RAN.append("instance"); return True
class Odd(metaclass=Meta):
    __slots__ = ("a",)
    def __getattribute__(self, name): RAN.append("get"); return 1
    def __eq__(self, other): RAN.append("eq"); return True
    def __len__(self): RAN.append("len"); return 3
class OwnText(str):
    def __repr__(self): RAN.append("text"); return 1 / 0
    def __getitem__(self, key): RAN.append("item"); return 1 / 0
    def __len__(self): RAN.append("len"); return -1
def numbers(n):
    for k in range(n): yield k
def grow(x):
    for k in range(50): x.append(k)
def depth(n): return n and depth(n - 1)
def endless(): return endless()
RAN = []
def run(seed):
"""

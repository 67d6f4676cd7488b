"""Ways to hide that a source is a copy, and original sources, for tests of similarity."""

import ast
import random


class _Renamed(ast.NodeTransformer):
    """Every local name, argument and private attribute is called something else."""

    def __init__(self, kept):
        self.kept = kept
        self.new = {}

    def name(self, old):
        if old in self.kept or old.startswith("__"):
            return old
        return self.new.setdefault(old, f"v{len(self.new)}_{old[::-1]}")

    def visit_Name(self, node):
        node.id = self.name(node.id)
        return node

    def visit_arg(self, node):
        node.arg = self.name(node.arg)
        node.annotation = None
        return self.generic_visit(node)

    def visit_Attribute(self, node):
        if node.attr.startswith("_"):
            node.attr = self.name(node.attr)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node):
        if node.name.startswith("_"):
            node.name = self.name(node.name)
        return self.generic_visit(node)


def renamed(source, kept):
    """New names, no comments, another layout."""
    tree = _Renamed(kept).visit(ast.parse(source))
    return ast.unparse(tree).encode()


def reordered(source, seed=0):
    """The methods of every class, and the functions and classes, in another order."""
    generator = random.Random(seed)
    tree = ast.parse(source)
    for node in [tree, *(n for n in tree.body if isinstance(n, ast.ClassDef))]:
        kinds = (ast.FunctionDef, ast.ClassDef)
        movable = [n for n in node.body if isinstance(n, kinds)]
        generator.shuffle(movable)
        node.body = [n for n in node.body if not isinstance(n, kinds)] + movable
    return ast.unparse(tree).encode()


def reformatted(source):
    """Other line breaks, indentation and comments."""
    lines = ['"""My very own work."""']
    for number, line in enumerate(ast.unparse(ast.parse(source)).splitlines()):
        code = line.lstrip()
        indent = " " * 3 * ((len(line) - len(code)) // 4)
        lines += [f"{indent}# step {number}", indent + code.replace(", ", ",  ")]
    return "\n\n".join(lines).encode()


def invented(seed):
    """A random program of a lab's size that copies from nobody."""
    generator = random.Random(seed)
    pick = generator.choice

    def value(depth=0):
        if depth > 2:
            return pick(["a", "b", "self.c", "(1)", '"x"', "None"])
        return pick(
            [
                lambda: f"{value(3)} {pick('+-*|&^')} {value(depth + 1)}",
                lambda: f"{value(3)}[{value(3)}:{value(depth + 1)}]",
                lambda: f"{pick(['len', 'max', 'sum', 'list', 'f', 'g'])}({value(depth + 1)})",
                lambda: f"[{value(3)} for a in {value(depth + 1)} if {value(3)}]",
                lambda: f"{value(3)}.{pick(['find', 'encode', 'h', 'join'])}({value(depth + 1)})",
                lambda: f"({value(3)}, {value(depth + 1)})",
                lambda: f"{{{value(3)}: {value(depth + 1)}}}",
                lambda: f"(not {value(depth + 1)})",
                lambda: value(3),
            ]
        )()

    def block(depth, indent):
        out = []
        for _ in range(generator.randint(1, 4)):
            kind = pick("aaaariwfx") if depth < 3 else pick("aax")
            if kind == "a":
                out.append(
                    f"{indent}{pick(['a =', 'self.c =', 'b, a =', 'a +=', 'self.c -='])} {value()}"
                )
            elif kind == "r":
                out += [f"{indent}if {value()}:", f"{indent}    return {value()}"]
            elif kind == "x":
                out.append(f"{indent}{value()}")
            else:
                head = {"i": "if {}:", "w": "while {}:", "f": "for a in {}:"}[kind]
                out += [indent + head.format(value()), *block(depth + 1, indent + "    ")]
        return out

    lines = ["class Matcher:"]
    for name in ("__init__", "held", "feed", "flush", "_help"):
        lines += [f"    def {name}(self, a):", *block(0, " " * 8), f"        return {value()}", ""]
    return "\n".join(lines).encode()

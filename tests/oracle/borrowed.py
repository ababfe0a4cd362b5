# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes single definitions out of a Python file and runs those, so that the program they belong to, and what that
imports, need not be installed. Nothing is copied: the file is read where it is.
"""
import __future__
import ast
import itertools
import sys
import types

numbers = itertools.count()


def tree_of(path):
    with open(path, encoding="utf-8") as file:
        return ast.parse(file.read(), str(path))


def names_defined(node):
    """What a statement at the top of a module defines; imports count if they are of the standard library."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.Import):
        return [alias.asname or alias.name for alias in node.names if alias.name in sys.stdlib_module_names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module.split(".")[0] in sys.stdlib_module_names:
        return [alias.asname or alias.name for alias in node.names]
    return []


def borrow(path, *wanted, **given):
    """Run the wanted definitions of a file and those they use, in the file's order; return the module made of them.

    `given` stands for what they use from elsewhere, and replaces definitions of the same name.
    """
    defined = {name: node for node in tree_of(path).body for name in names_defined(node) if name not in given}
    missing = [name for name in wanted if name not in defined]
    if missing:
        raise LookupError(f"{path}: there is no {', '.join(missing)} in it")
    needed, open_names = {}, list(wanted)
    while open_names:
        node = defined.get(open_names.pop())
        if node is None or id(node) in needed:
            continue
        needed[id(node)] = node
        open_names += [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
    body = sorted(needed.values(), key=lambda node: node.lineno)
    body = [only(node, defined) if isinstance(node, ast.Import) else node for node in body]
    module = types.ModuleType(f"borrowed_{next(numbers)}")
    sys.modules[module.__name__] = module  # dataclasses look themselves up there
    module.__dict__.update(given)
    # Annotations name what is not here: leave them unread.
    flags = __future__.annotations.compiler_flag
    exec(compile(ast.Module(body, []), str(path), "exec", flags, dont_inherit=True), module.__dict__)
    return module


def only(node, defined):
    return ast.copy_location(ast.Import([name for name in node.names if (name.asname or name.name) in defined]), node)


def default_of(path, function, parameter):
    """The default value of a function's parameter, as it is written."""
    for node in tree_of(path).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            defaults = dict(zip(reversed([arg.arg for arg in node.args.args]), reversed(node.args.defaults)))
            return ast.literal_eval(defaults[parameter])
    raise LookupError(f"{path}: there is no {function} in it")


def texts_of(path):
    """Every text that stands in a file as a literal."""
    return {node.value for node in ast.walk(tree_of(path))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def fields_of(path, class_name=None):
    """The annotated members of all classes of a file, or of one."""
    return {item.target.id for node in tree_of(path).body if isinstance(node, ast.ClassDef)
            and class_name in (None, node.name) for item in node.body if isinstance(item, ast.AnnAssign)}


def refusals_of(path, function, about):
    """Of a long function only the tests that it makes of one thing, as code: assignments, and ifs that raise."""
    def plain(node):
        calls = {part.func.id if isinstance(part.func, ast.Name) else "?"
                 for part in ast.walk(node) if isinstance(part, ast.Call)}
        return about in ast.unparse(node) and calls <= {"ValueError", "RuntimeError", "AssertionError"}

    for node in tree_of(path).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            body = [item for item in node.body if isinstance(item, (ast.Assign, ast.If)) and plain(item)]
            if any(isinstance(part, ast.Raise) for item in body for part in ast.walk(item)):
                return compile(ast.Module(body, []), str(path), "exec")
    raise LookupError(f"{path}: {function} refuses nothing about {about}")

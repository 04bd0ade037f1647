"""What the book holds: lessons in parts, and the station of the machine that each one is about."""

import ast
import re
from pathlib import Path
from typing import NamedTuple

from convsim_mini.common.cli import UserError

HERE = Path(__file__).resolve().parent
LESSONS = HERE.parent

# the first lesson of each part
PARTS = {"0": "The whole, and why it works", "2": "Tools", "4": "The loss",
         "6": "Text becomes a vector", "12": "Attention", "16": "Training",
         "21": "What the vectors are worth", "A": "Optional"}

# stations of machine.svg, for those lessons that are not about all of it
STATIONS = {
    "1": "text scores loss", "2": "gradient", "3": "layers gradient", "4": "loss",
    "5": "scores loss", "6": "text ids", "7": "rows", "8": "bag layers", "9": "layers unit",
    "10": "gradient", "12": "bag", "13": "bag", "14": "bag", "15": "layers", "16": "step",
    "17": "step", "18": "loss step", "19": "scores", "20": "loss gradient", "21": "measure",
    "22": "unit measure", "23": "measure", "A": "rows measure", "B": "scores step"}


class Lesson(NamedTuple):
    """A row of the table in lessons/README.md."""

    number: str    # or a letter, where the lesson is optional
    title: str
    path: Path
    minutes: str
    shows: str    # Markdown

    @property
    def page(self):
        """The name of its page."""
        return f"{self.path.stem}.html"


def readme():
    """The text of lessons/README.md."""
    return (LESSONS / "README.md").read_text(encoding="utf-8")


def section(title):
    """The text below a heading of lessons/README.md."""
    return re.split(r"^## .*\n", readme().partition(f"\n## {title}\n")[2], flags=re.MULTILINE)[0]


def minimal():
    """The code of convsim_mini/minimal.py."""
    return (LESSONS.parent / "convsim_mini" / "minimal.py").read_text(encoding="utf-8")


def all_lessons():
    """The lessons in their order."""
    rows = re.findall(r"^\| (\w+) \| \[(.+?)\]\((.+?)\) \| (\d+) \| (.+) \|$", readme(),
                      re.MULTILINE)
    return [Lesson(number, title, LESSONS / name, minutes, shows)
            for number, title, name, minutes, shows in rows]


def chosen(numbers):
    """The lessons of these numbers and letters, or all if there are none. Raises UserError."""
    known = {lesson.number: lesson for lesson in all_lessons()}
    names = {number.lstrip("0") or number[:1] for number in numbers} or set(known)
    if unknown := names - set(known):
        raise UserError(f"{min(unknown)}: not a lesson; there are {', '.join(known)}")
    return [lesson for number, lesson in known.items() if number in names]


def solutions(lesson):
    """Number of an exercise → why its solution is right, its code with the wrong answers.

    The reasons stand in the file's docstring, each after its number and a colon.
    """
    path = LESSONS / "solutions" / lesson.path.name
    if not path.exists():
        return {}
    source = path.read_text(encoding="utf-8")
    lines, tree = source.splitlines(), ast.parse(source)
    reasons = dict(re.findall(r"^(\d+): (.*?)(?=\n\d+: |\n\n|\Z)", ast.get_docstring(tree),
                              re.MULTILINE | re.DOTALL))
    code, found = {}, {}
    for before, node in zip(tree.body, tree.body[1:]):
        if isinstance(node, ast.FunctionDef):    # with the comments above it
            code[node.name] = "\n".join(lines[before.end_lineno:node.end_lineno]).strip()
        call = getattr(node, "value", None)
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "solution":
            number, *answers = call.args
            parts = [part for answer in answers for part in getattr(answer, "elts", [answer])]
            parts = [code.get(getattr(part, "id", ""), ast.unparse(part)) for part in parts]
            found[number.value] = reasons.get(str(number.value), ""), "\n\n\n".join(parts)
    return found

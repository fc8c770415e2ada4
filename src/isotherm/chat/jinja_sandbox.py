"""A Jinja sandbox in which a rendering ends soon and stays small, whatever the template says.

Jinja's own sandbox keeps a template from reaching Python, but not from looping for hours or from
building strings of gigabytes. Here every loop, call and operator is charged to a budget; filters
that can stretch a text are bounded or absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jinja2 import Environment, Template, nodes, pass_environment
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import do_indent, make_attrgetter
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from isotherm.chat import jinja_budget

ABSENT_FILTERS = ("batch", "center", "format", "pprint", "random", "slice", "urlize", "wordwrap", "xmlattr")


def render(template: Template, variables: Mapping[str, Any]) -> str:
    """Render with a fresh budget; TemplateTooExpensive when it does not suffice."""
    with jinja_budget.budget() as spent:
        pieces = []
        for piece in template.generate(**variables):
            spent.charge(len(piece))
            pieces.append(piece)
        return "".join(pieces)


class _Generation(Extension):
    """``{% generation %}`` marks what training learns from; in a prompt it means nothing."""

    tags = {"generation"}  # noqa: RUF012  (Jinja declares it as a set)

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class BudgetedEnvironment(ImmutableSandboxedEnvironment):
    """Compiles templates whose loops, calls and operators spend the budget of the rendering they run in."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})
    counted = staticmethod(jinja_budget.counted)
    joined = staticmethod(jinja_budget.joined)

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation])
        self.globals["range"] = jinja_budget.counted_range
        for name in ABSENT_FILTERS:
            del self.filters[name]
        self.filters["replace"] = _replace
        self.filters["indent"] = _indent
        self.filters["join"] = _join

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = _ChargedNodes().visit(super()._parse(source, name, filename))
        assert isinstance(tree, nodes.Template)
        return tree

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        jinja_budget.check_operator(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        jinja_budget.step()
        # Jinja wraps ``str.format``; beneath is the method that belongs to the text.
        owner = getattr(getattr(function, "__wrapped__", function), "__self__", None)
        if isinstance(owner, str):
            args = jinja_budget.check_method(owner, function.__name__, args, kwargs)
        result = super().call(context, function, *args, **kwargs)
        if isinstance(result, str | list | tuple):
            jinja_budget.charge(len(result))
        return result


class _ChargedNodes(NodeTransformer):
    """Leads loops and ``~`` through our functions, under names that a template cannot shadow."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        iterable = node.iter
        assert isinstance(iterable, nodes.Expr)
        node.iter = _call("counted", [iterable])
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _call("joined", node.nodes)


def _call(function: str, arguments: list[nodes.Expr]) -> nodes.Call:
    return nodes.Call(nodes.EnvironmentAttribute(function), arguments, [], None, None)


def _replace(text: Any, old: Any, new: Any, count: int = -1) -> str:
    """The filter ``replace``."""
    jinja_budget.check_replace(str(text), str(old), str(new))
    return str(text).replace(str(old), str(new), count)


def _indent(text: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    """The filter ``indent``."""
    jinja_budget.check_padding(str(text), len(width) if isinstance(width, str) else width)
    return do_indent(str(text), width, first, blank)


@pass_environment
def _join(environment: Environment, items: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
    """The filter ``join``."""
    if attribute is not None:
        items = map(make_attrgetter(environment, attribute), items)
    texts = [str(item) for item in items]
    jinja_budget.charge(sum(map(len, texts)) + len(str(d)) * len(texts))
    return str(d).join(texts)

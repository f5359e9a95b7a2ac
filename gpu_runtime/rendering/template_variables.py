"""What a chat template reads beside the conversation, such as Qwen3's ``enable_thinking``."""

import jinja2.ext
import jinja2.meta
import jinja2.nodes
import jinja2.parser

SPECIAL_TOKENS = ("bos_token", "eos_token", "pad_token")  # that a client may ask for
# Given by the gateway or by transformers: the conversation, the tools, and the names of special
# tokens.
GIVEN = frozenset(
    (
        *("messages", "tools", "custom_tools", "add_generation_prompt", "continue_final_message"),
        *("raise_exception", "strftime_now", "additional_special_tokens"),
        *(f"{kind}_token" for kind in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")),
    )
)


class _GenerationBlock(jinja2.ext.Extension):
    """``{% generation %}`` of transformers' templates marks an answer; its body is written as it
    is.
    """

    tags = {"generation"}

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def variables_of(template: str) -> frozenset[str]:
    """The variables that ``template`` looks up and that a request may set; none if it cannot be
    read.

    A name that the template also assigns is one only where it asks whether it was given: the others
    are its own. Example: ``variables_of("{% if enable_thinking %}x{% endif %}{{ messages }}") ==
    {"enable_thinking"}``.
    """
    environment = jinja2.Environment(extensions=[jinja2.ext.loopcontrols, _GenerationBlock])
    try:
        tree = environment.parse(template)
    except jinja2.TemplateSyntaxError:
        return frozenset()
    read = jinja2.meta.find_undeclared_variables(tree)
    assigned = {
        name.name for name in tree.find_all(jinja2.nodes.Name) if name.ctx in ("store", "param")
    }
    return frozenset((read - assigned) | (read & _asked_for(tree))) - GIVEN


def _asked_for(tree: jinja2.nodes.Template) -> set[str]:
    """The names of which ``tree`` asks whether they are defined, or for which it has a default."""
    tests = [
        test.node
        for test in tree.find_all(jinja2.nodes.Test)
        if test.name in ("defined", "undefined", "none")
    ]
    defaults = [
        each.node for each in tree.find_all(jinja2.nodes.Filter) if each.name in ("default", "d")
    ]
    return {node.name for node in (*tests, *defaults) if isinstance(node, jinja2.nodes.Name)}

"""The pages of the methods: every hyperparameter, as the configuration class declares it.

The site is built from what `harness.plugin.fields` reads off the code, so that a page cannot lag
behind it.
"""

from collections.abc import Iterable
from typing import get_args

from harness.plugin import registry
from harness.plugin.fields import OWN, RELEASED, SHARED, DescribedField, described_fields

TABLE = """\
| field | type | default | published values | description | range |
|---|---|---|---|---|---|
"""


def method_page(name: str) -> str:
    """The page of a method: what its plugin says about itself, and a table of its fields."""
    config = registry.load(name).method.config_type
    fields = described_fields(config)
    groups = {
        title: [field for field in fields if field.group == title]
        for title in (OWN, RELEASED, SHARED)
    }
    tables = [f"## {title}\n\n{field_table(group)}" for title, group in groups.items() if group]
    choices = get_args(config.model_fields["setting"].annotation)
    settings = ", ".join(f"`{each}`" for each in choices)
    return f"""\
# {name}

{registry.docstring_line(registry.locate(name))}

Its settings are {settings}. [The methods](../methods.md#{name}) says what it does and what we
measured. A published value is the paper's, for a setting and an encoder (`*` is any encoder); it
stands before the default. `--set FIELD=VALUE` changes a field.

{chr(10).join(tables)}"""


def field_table(fields: Iterable[DescribedField]) -> str:
    """A Markdown table with one row for each of these fields."""
    return TABLE + "".join(f"| {' | '.join(_row(field))} |\n" for field in fields)


def _row(field: DescribedField) -> list[str]:
    published = "<br>".join(field.published)
    cells = [f"`{field.name}`", field.type, field.default, published, field.meaning, field.range]
    return [cell.replace("|", "\\|") for cell in cells]

"""A pretrained encoder as it is: [CLS], mean, first-last or last-two pooling; evaluation only.

plain_encoders.md, section 1.
"""

from typing import Literal

from pydantic import Field

from harness import plugin
from harness.choices import Pooling


class Config(plugin.MethodConfig):
    """plain_encoders.md, section 1, has the poolings."""

    setting: Literal["unsup"] = "unsup"
    pooling: Pooling = Field("cls", description="which hidden states are averaged")


class Declaration(plugin.Declaration[Config]):
    """Nothing to declare but the encoder: nothing trains."""

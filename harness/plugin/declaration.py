"""The declarations of a plugin, in class methods: they are read without torch and a model."""

from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, get_args

from harness.plugin.config import MethodConfig
from harness.plugin.stage import Artefact, Stage

Config = TypeVar("Config", bound=MethodConfig)


class Declaration(Generic[Config]):
    """The configuration of a method, and what it needs and does under one.

    A plugin in one file declares in its class `Method`, which is a declaration, too. A plugin in a
    folder may declare in a class `Declaration` of `__init__.py` and compute in a class `Method` of
    `method.py`, which derives from both: then `harness list`, `plan`, `show` and `table` import no
    torch for it.

    Example:
        class Declaration(plugin.Declaration[Config]):
            @classmethod
            def corpora(cls, config: Config) -> dict[str, str]:
                return {"contrastive": config.sentences}
    """

    config_type: ClassVar[type[MethodConfig]] = MethodConfig
    """The configuration class in the brackets; the harness finds it there"""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "config_type" in vars(cls):
            return  # what a plugin says itself goes before the brackets
        # At run time the brackets are in `__orig_bases__`, so a plugin names its Config once.
        for base in getattr(cls, "__orig_bases__", ()):
            for argument in get_args(base):
                if isinstance(argument, type) and issubclass(argument, MethodConfig):
                    cls.config_type = argument

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        """Stream -> name of its corpus (`wiki1m`, `nli-triplets`, ..., or a file)."""
        return {}

    @classmethod
    def models(cls, config: Config) -> list[str]:
        """The pretrained models that the method loads; their digests are part of a trial's key."""
        return [config.encoder]

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        """The training phases in order; none for a method that only evaluates."""
        return []

    @classmethod
    def artefacts(cls, config: Config) -> list[Artefact]:
        """Arrays that trials share; `kit.artefact(name)` returns them."""
        return []

    @classmethod
    def files(cls, config: Config) -> list[Path]:
        """Other files on which the result depends (word vectors, a thesaurus).

        They are part of a trial's key, and they travel to the machines of a cluster. A field of
        the configuration that names one has the type Path; open it as it is, not as a text.
        """
        return []

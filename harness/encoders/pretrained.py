"""A pretrained encoder of transformers, with the attention of this package where it fits."""

import inspect
from collections.abc import Collection
from typing import Any, TypedDict, Unpack

import torch
import transformers
from safetensors import safe_open
from torch import Tensor, nn

from harness.choices import Decoding
from harness.data.hub import model_folder, model_shape
from harness.data.weight_contents import stored_in_bf16, tensors
from harness.encoders.families import (
    check_text_encoder,
    is_decoder,
    number_attentions,
    set_dropout,
    takes_our_attention,
)
from harness.encoders.plain_attention import replace_dropout
from harness.errors import UserError, explained

DEEPEST = 1000
"""Layers that a model may have whose weights have fewer tensors, as layers of ALBERT share them"""


class Loading(TypedDict, total=False):
    """Options with which a model is read from its files. What is left out stays as it is there."""

    dropout: float | None
    """0 to 1, in every layer; None: the model's own"""
    decoding: Decoding
    """Pooling and attention of a decoder"""
    as_stored: bool
    """Keep weights in bf16 that are stored so; otherwise all weights are float32"""
    device: torch.device
    """Device of the weights; otherwise the CPU"""
    empty: bool
    """Read no weights: they are set afterwards"""


def pretrained_model(name: str, **loading: Unpack[Loading]) -> Any:
    """The model of transformers.

    Raises UserError when it is not a complete text model, and for a decoder that cannot read as it
    should.
    """
    shape = model_shape(name)  # it refuses sizes with which transformers fails without a clear word
    decoder = is_decoder(shape)
    ahead = decoder and loading.get("decoding", Decoding()).attention == "bidirectional"
    empty = loading.get("empty", False)
    half = not empty and loading.get("as_stored", False) and stored_in_bf16(name)
    with explained(f'encoder "{name}" cannot be loaded: '):
        config = _configured(name, loading.get("dropout"), decoder=decoder, ahead=ahead)
        dtype = torch.bfloat16 if half else torch.float32
        device = loading.get("device")
        model, missing = (_empty(config), ()) if empty else _loaded(name, config, dtype, device)
    # transformers would fill what is missing with random numbers and go on. A pooler may be
    # missing: no method reads it.
    lacking = sorted(key for key in missing if not key.startswith("pooler."))
    if lacking:
        some = ", ".join(lacking[:3])
        raise UserError(f'encoder "{name}" is incomplete (missing weights: {some})')
    if ahead and not _sees_ahead(model):
        raise UserError(
            f'encoder "{name}" ({config.model_type}) sees no later tokens, whatever is asked of '
            f"it: set decoder_attention to causal"
        )
    return model


def _configured(name: str, dropout: float | None, *, decoder: bool, ahead: bool) -> Any:
    """The configuration, with another dropout, and with a mask that shows what lies `ahead`."""
    config = transformers.AutoConfig.from_pretrained(model_folder(name), trust_remote_code=False)
    check_text_encoder(name, config)
    if dropout is not None:
        set_dropout(config, dropout)
    if decoder:
        config.use_cache = False  # it is for writing texts
    if ahead:
        config.is_causal = False  # transformers then makes the masks of an encoder
    return config


def _loaded(
    name: str, config: Any, dtype: torch.dtype, device: torch.device | None
) -> tuple[Any, Collection[str]]:
    """The model of transformers, and the names of weights that its files lack."""
    options: dict[str, Any] = without_pooler(config)
    if device is not None and device.type != "cpu":
        options["device_map"] = device  # each shard goes there at once, past the host's memory
    model, report = transformers.AutoModel.from_pretrained(
        model_folder(name),
        config=config,
        dtype=dtype,
        use_safetensors=True,
        trust_remote_code=False,
        output_loading_info=True,
        **options,
    )
    return _with_our_attention(model), report["missing_keys"]


def _empty(config: Any) -> Any:
    """The model of transformers with weights that have no meaning."""
    options = without_pooler(config)
    model = transformers.AutoModel.from_config(config, trust_remote_code=False, **options)
    return _with_our_attention(model)


def _with_our_attention(model: Any) -> Any:
    """The model, in which attention is that of this package where it fits."""
    # The models of transformers take seconds to import, and `import transformers` takes none.
    from harness.encoders.prefix_attention import ATTENTION

    replace_dropout(model)
    if takes_our_attention(model):
        model.set_attn_implementation(ATTENTION)
        number_attentions(model)
    return model


def without_pooler(config: Any) -> dict[str, Any]:
    """The arguments with which transformers makes a model without a pooler.

    A pooler (BERT's is dense and tanh on [CLS]) is not part of any method here.
    """
    kind = transformers.MODEL_MAPPING[type(config)]
    has = inspect.isclass(kind) and "add_pooling_layer" in inspect.signature(kind).parameters
    return {"add_pooling_layer": False} if has else {}


def keep_layers(model: Any, depth: int, name: str) -> None:
    """Leave the layers of an encoder out that come behind the first `depth` ones.

    name: of the encoder, in the message. Raises UserError when it has fewer layers.
    """
    layers = int(model.config.num_hidden_layers)
    if depth > layers:
        raise UserError(f'encoder "{name}" has {layers} layers, and {depth} of them are asked for')
    for module in [*model.modules()]:
        for attribute, part in [*module.named_children()]:
            if isinstance(part, nn.ModuleList) and len(part) == layers:
                setattr(module, attribute, part[:depth])
    model.config.num_hidden_layers = depth


@torch.no_grad()
def _sees_ahead(model: Any) -> bool:
    """Whether the state of a token depends on the one behind it."""
    pairs = torch.tensor([[0, 0], [0, 1]], device=model.device)
    output = model(input_ids=pairs, attention_mask=torch.ones_like(pairs))
    first, second = output.last_hidden_state[:, 0]
    return not torch.equal(first, second)


def check_loadable(name: str) -> None:
    """Compare the configuration of a model with the table of contents of its weights.

    It takes about a tenth of a second. Raises UserError when transformers has no such model, when
    there are no weights, and when their shapes differ.
    """
    layers = model_shape(name).get("num_hidden_layers", 1)
    shapes = {key: shape for key, shape, _ in tensors(name)}
    if layers > max(len(shapes), DEEPEST):  # to build a billion layers would take hours
        raise UserError(
            f'model "{name}": config.json asks for {layers} layers, and its weights have '
            f"{len(shapes)} tensors"
        )
    transformers.logging.set_verbosity_error()
    with explained(f'model "{name}" cannot be loaded: '):
        config = transformers.AutoConfig.from_pretrained(
            model_folder(name), trust_remote_code=False
        )
        check_text_encoder(name, config)
        with torch.device("meta"):  # parameters have a shape and no memory
            model = transformers.AutoModel.from_config(config, trust_remote_code=False)
    _compare(name, model, shapes)


def _compare(name: str, model: nn.Module, shapes: dict[str, list[int]]) -> None:
    """Raise UserError when a parameter has another shape in the file, or when none is there."""
    # A checkpoint of a whole model has the encoder under a name of its own, such as `bert.`.
    inner = {key.partition(".")[2]: shape for key, shape in shapes.items()}
    matching = 0
    for parameter, value in model.named_parameters():
        stored = shapes.get(parameter) or inner.get(parameter)
        matching += stored is not None
        if stored is not None and stored != list(value.shape):
            raise UserError(
                f'model "{name}": {parameter} has the shape {stored}, but config.json asks for '
                f"{list(value.shape)}"
            )
    if not matching:  # what is missing of a few, the loader says; names differ between versions
        raise UserError(f'model "{name}": its weights are not those of a {type(model).__name__}')


def checkpoint_tensor(name: str, ending: str) -> Tensor | None:
    """The tensor of a checkpoint whose name has an ending; None where no tensor has it.

    It is of a part that the encoder itself does not have. ending: such as `pooler.dense.weight`.
    """
    key = next((key for key, _, _ in tensors(name) if f".{key}".endswith(f".{ending}")), None)
    if key is None:
        return None
    for path in sorted(model_folder(name).glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            if key in set(file.keys()):
                tensor: Tensor = file.get_tensor(key)
                return tensor
    raise AssertionError(f"{key} is in the table of contents")

"""The hyperparameters of a decoder that is an encoder; they change nothing in any other encoder."""

from pydantic import BaseModel, Field

from harness.choices import DecoderAttention, DecoderPooling, Decoding
from harness.data.hub import model_shape
from harness.errors import UserError

DECODER_FIELDS = ("decoder_pooling", "decoder_attention")


class DecoderConfig(BaseModel):
    """The fields of every method about how a decoder reads a sentence."""

    decoder_pooling: DecoderPooling = Field(
        "last-token",
        description="what stands for a sentence where a bidirectional encoder has [CLS]: the state "
        "of the last token, the mean, or the mean in which token k counts k times",
    )
    decoder_attention: DecoderAttention = Field(
        "causal", description="of a decoder: as it was pretrained, or every token sees every token"
    )

    @property
    def decoding(self) -> Decoding:
        """Both fields."""
        return Decoding(self.decoder_pooling, self.decoder_attention)

    @property
    def decodes(self) -> bool:
        """Whether a field has another value than by default."""
        return self.decoding != Decoding()

    @property
    def ends_sentences(self) -> bool:
        """Whether a decoder reads a token behind each sentence, whose state can stand for it."""
        return self.decoder_pooling == "last-token"


def may_decode(encoder: str) -> bool:
    """Whether an encoder is a decoder; also where it is not on this machine, which cannot know."""
    from harness.encoders.families import is_decoder  # it loads torch, and is seldom needed

    try:
        return is_decoder(model_shape(encoder, download=False))
    except UserError:
        return True

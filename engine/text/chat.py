"""From the messages of a chat to the ids of a prompt: one model's tokenizer and template together."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import TemplateError
from engine.models.gguf import GgufHeader
from engine.text import tokenizer as tokenizers
from engine.text.template import ChatTemplate
from engine.text.tokenizer import Tokenizer
from engine.types import Message


class ChatText:
    """Tokenizer and template of the model at one path.

    A model without a template can be loaded and measured; only chatting with it is refused.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._template = None
        if tokenizer.chat_template:
            self._template = ChatTemplate(
                tokenizer.chat_template, tokenizer.bos_token, tokenizer.eos_token, tokenizer.control_texts
            )

    @classmethod
    def load(cls, path: str, header: GgufHeader | None = None) -> ChatText:
        """Read both from a model file or folder; ``header`` is a GGUF file's where it has been read already.

        Raises TokenizerError, TemplateError, ModelFileError.
        """
        return cls(tokenizers.load(path, header))

    def prompt(self, messages: Sequence[Message]) -> tuple[list[int], tuple[str, ...]]:
        """Ids of the prompt that asks for the next answer, and notes on what was changed to fit the template.

        Raises TemplateError where the model has no template or its template fails.
        """
        if self._template is None:
            raise TemplateError(
                "This model has no chat template, so it is not made for chatting.",
                "Choose a model made for chat (often named Instruct or Chat).",
            )
        rendered = self._template.render(messages)
        return self.tokenizer.encode_prompt(rendered.parts), rendered.notes

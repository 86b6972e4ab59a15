"""Errors that a user, a file or a device can cause. Each says what happened and what to do.

Everything else that is raised is our own fault and is reported as a bug.
"""

from engine.words import tr


class EngineError(Exception):
    """An expected failure with a plain sentence and a hint; ``kind`` is stable and machine-readable."""

    kind = "engine"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class ModelFileError(EngineError):
    """A model file or folder is damaged, incomplete or not a model at all."""

    kind = "model-file"


class UnsupportedModelError(EngineError):
    """The file is sound, but this program cannot run what it holds (architecture, type, tokenizer).

    ``reason`` says in a part of a sentence which option of the model it lacks, where it is one.
    """

    kind = "unsupported"

    def __init__(self, message: str, hint: str = "", reason: str = "") -> None:
        super().__init__(message, hint)
        self.reason = reason


class UnsafeModelError(EngineError):
    """Running the model would mean running code from its files (pickle, remote code)."""

    kind = "unsafe"


class TokenizerError(EngineError):
    """The tokenizer is missing, incomplete or of an unknown kind."""

    kind = "tokenizer"


class TemplateError(EngineError):
    """The chat template is missing, refuses the messages, or exceeds its limits."""

    kind = "template"


class NoTemplateError(TemplateError):
    """The model has no chat template; its text can still be continued."""

    kind = "no-template"

    def __init__(self) -> None:
        super().__init__(
            tr("This model has no chat template, so it is not made for chatting."),
            tr(
                "Choose one made for chat (often named Instruct or Chat), "
                "or have your text continued as it is."
            ),
        )


class ContextError(EngineError):
    """The prompt does not fit the loaded context."""

    kind = "context"


class MemoryLimitError(EngineError):
    """The plan needs more memory than is free."""

    kind = "memory"


class DeviceError(EngineError):
    """A GPU or its driver stopped working."""

    kind = "device"


class NumericsError(EngineError):
    """The model produced NaN or only infinities."""

    kind = "numerics"


class WishError(EngineError):
    """A setting has a value that cannot be used."""

    kind = "setting"


class DisturbedError(EngineError):
    """Other programs took so much of the processor that a measurement says nothing."""

    kind = "disturbed"


class EngineBusyError(EngineError):
    """The engine has no model, or cannot take the request now."""

    kind = "busy"

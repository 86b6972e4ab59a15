"""Opens and closes the page about the speed. Knows no figures and no keys."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from ui.body import Body
from ui.gauge_values import ExplainView


class Explaining(QObject):
    """``requested`` wants the page: answer with ``show``. ``on_closed`` gives the keyboard elsewhere."""

    requested = Signal()

    def __init__(self, body: Body, on_closed: Callable[[], None]) -> None:
        super().__init__(body)
        self._body = body
        self._on_closed = on_closed
        body.centre.explain.close_clicked.connect(self.close)
        body.tuning.speed.explain_clicked.connect(self.toggle)

    @property
    def is_shown(self) -> bool:
        """Whether the page stands in the transcript's place."""
        return self._body.centre.is_explaining

    def show(self, view: ExplainView) -> None:
        """Show the page, or what is new on it."""
        centre = self._body.centre
        centre.explain.set_view(view)
        if not self.is_shown:
            self._body.close_drawers()
            centre.show_explain(True)
            centre.explain.focus_region()

    def close(self) -> None:
        """Show the transcript again, if it is not shown."""
        if self.is_shown:
            self._body.centre.show_explain(False)
            self._on_closed()

    @property
    def can_open(self) -> bool:
        """Whether there is something to tell."""
        return self._body.tuning.speed.why.isEnabled()

    def toggle(self) -> None:
        """What opened the page closes it too."""
        if self.is_shown:
            self.close()
        else:
            self.requested.emit()

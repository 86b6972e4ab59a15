"""Better models that suit this computer, on the first-start screen. Knows no list and no network."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from engine.words import tr
from ui.controls import Button
from ui.label import Label
from ui.library_painting import ROW_HEIGHT
from ui.library_rows import Row, RowAction, RowList, framed
from ui.library_values import OfferRow


def offer_row(row: OfferRow, is_first: bool) -> Row:
    """How an offer looks in a list: the first one's button is the primary one."""
    tooltip = tr("{repo} on huggingface.co. Its size and licence are looked up when you press.")
    tooltip = tooltip.format(repo=row.repo)
    action = RowAction("download", tr("Download"), "download", is_first, tooltip)
    return Row(
        key=row.repo,
        title=row.name,
        detail=f"{row.detail} · {row.praise}",
        fit=row.fit,
        warning=row.note,
        state=row.state,
        action=None if row.state else action,
        tooltip=tooltip,
    )


class Offers(QWidget):
    """``download_clicked`` carries the repository of an offer. Hidden while there is none."""

    download_clicked = Signal(str)
    browse_clicked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.list = RowList(tr("Better models that suit this computer"))
        self.list.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.triggered.connect(lambda repo, _: self.download_clicked.emit(repo))
        browse = Button(tr("Browse all"), "library", "ghost")
        browse.clicked.connect(self.browse_clicked)
        head = QHBoxLayout()
        head.addWidget(Label(tr("Better models that suit this computer"), "title", elide=True), 1)
        head.addWidget(browse)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 16)
        column.setSpacing(8)
        column.addLayout(head)
        column.addWidget(framed(self.list))
        self.hide()

    def set_offers(self, rows: Sequence[OfferRow]) -> None:
        """Show these."""
        self.list.set_rows([offer_row(row, place == 0) for place, row in enumerate(rows)])
        self.list.setFixedHeight(ROW_HEIGHT * len(rows))
        self.setVisible(bool(rows))

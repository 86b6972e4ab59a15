"""Asks before an address of a message is opened: the site it leads to and the whole address."""

from __future__ import annotations

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QHBoxLayout, QPlainTextEdit, QVBoxLayout, QWidget

from engine.words import tr
from ui import theme
from ui.controls import Button
from ui.label import Label

_WIDTH, _ADDRESS_PX = 480, 96


def encoded(href: str) -> str:
    """The address in ASCII, as it goes out: foreign letters that look like others are told apart."""
    return bytes(QUrl(href).toEncoded().data()).decode("ascii", "replace")


def destination(address: str) -> str:
    """Who gets the request: the host, or the recipient of a mail; what stands before an @ is not it."""
    url = QUrl.fromEncoded(address.encode())
    if url.scheme().lower() == "mailto":
        return url.path()
    return url.host(QUrl.ComponentFormattingOption.FullyEncoded)


class LinkDialog(QDialog):
    """``agreed`` carries the address once the user chose to open it. Cancel has the keyboard at first."""

    agreed = Signal(str)

    def __init__(self, href: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.address = encoded(href)
        self.setWindowTitle(tr("Open link"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setMinimumWidth(_WIDTH)
        is_mail = self.address.lower().startswith("mailto:")
        question = tr("Open this address in the browser?")
        if is_mail:
            question = tr("Write a mail to this address?")
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 20, 24, 20)
        column.setSpacing(12)
        column.addWidget(Label(question, "title", "text1", 600))
        site = destination(self.address)
        words = tr("It goes to {site}.").format(site=site) if site else tr("The address names no site.")
        column.addWidget(Label(words, "ui", "text2", 400, wrap=True))
        column.addWidget(self._make_address())
        column.addLayout(self._make_buttons(is_mail))
        self.cancel_button.setFocus()

    def _make_address(self) -> QPlainTextEdit:
        view = QPlainTextEdit(self.address)
        view.setReadOnly(True)
        view.setTabChangesFocus(True)
        view.setAccessibleName(tr("Address"))
        view.setFont(theme.font("code"))
        view.setFixedHeight(_ADDRESS_PX)
        colors = theme.palette()
        view.setStyleSheet(
            f"QPlainTextEdit {{ background: {colors.bg1.name()}; color: {colors.text1.name()};"
            f" border: 1px solid {colors.border.name()}; border-radius: 6px; padding: 6px; }}"
        )
        return view

    def _make_buttons(self, is_mail: bool) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(8)
        self.copy_button = Button(tr("Copy address"), "copy", "secondary")
        self.cancel_button = Button(tr("Cancel"), None, "secondary")
        self.open_button = Button(tr("Write", "a mail") if is_mail else tr("Open", "a link"), None, "primary")
        self.copy_button.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.address))
        self.cancel_button.clicked.connect(self.reject)
        self.open_button.clicked.connect(self._agree)
        row.addWidget(self.copy_button)
        row.addStretch(1)
        row.addWidget(self.cancel_button)
        row.addWidget(self.open_button)
        return row

    def _agree(self) -> None:
        self.agreed.emit(self.address)
        self.accept()

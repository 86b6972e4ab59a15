"""The language of the window: its words from what Qt Linguist has made, and how it writes figures."""

from __future__ import annotations

from importlib.resources import files

from PySide6.QtCore import QCoreApplication, QLibraryInfo, QLocale, QTranslator

from engine import words
from engine.words import LANGUAGES
from ui import numbers

FOLDER = files("assets") / "languages"


def code(chosen: str) -> str:
    """The language of the window for a setting: the first of the system's that there is, else English."""
    if chosen in LANGUAGES:
        return chosen
    wanted = (name.split("-")[0] for name in _system_languages())
    return next((name for name in wanted if name in LANGUAGES), "en")


def locale(chosen: str) -> QLocale:
    """How figures are written for a setting: as the language does, or as the system has it."""
    return QLocale(chosen) if chosen in LANGUAGES else QLocale.system()


def use(chosen: str) -> str:
    """Take the words of a language; before the window is made, what is shown already stays. Returns its code.

    Qt's own words (the menu of a text field, the file dialog) come with it where an application is made.
    """
    found = code(chosen)
    words.use(_lookup(found), numbers.count, numbers.decimal)
    _use_qt(found)
    return found


def _system_languages() -> list[str]:
    """As a person has ordered them: "de-AT", "en-US"."""
    return QLocale.system().uiLanguages()


def _lookup(code: str) -> words.Lookup | None:
    if code == "en":
        return None
    translator = QTranslator()
    path = str(FOLDER / f"{code}.qm")
    if not translator.load(path):
        raise FileNotFoundError(path)  # a part of the program is missing

    def look_up(text: str, meaning: str, number: int) -> str:
        return translator.translate("", text, meaning or None, number) or ""

    return look_up


def _use_qt(code: str) -> None:
    """English is what Qt says by itself; the words of an earlier language go."""
    application = QCoreApplication.instance()
    if application is None:
        return
    for earlier in application.findChildren(QTranslator):
        application.removeTranslator(earlier)
        earlier.setParent(None)
    if code == "en":
        return
    translator = QTranslator(application)
    if translator.load(f"qtbase_{code}", QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)):
        application.installTranslator(translator)

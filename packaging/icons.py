"""``python packaging/icons.py FOLDER``: the program's icon in the sizes and formats that installers want.

Drawn from decodeck.svg by Qt: ``decodeck-N.png`` for Linux, ``decodeck.ico`` and ``decodeck.icns``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

SOURCE = Path(__file__).with_name("decodeck.svg")
SIZES = (16, 24, 32, 48, 64, 128, 256, 512)


def draw(size: int) -> QImage:
    """The icon, ``size`` px square."""
    image = QImage(size, size, QImage.Format.Format_ARGB32)
    image.fill(0)
    painter = QPainter(image)
    QSvgRenderer(str(SOURCE)).render(painter)
    painter.end()
    return image


def save(folder: Path) -> None:
    """Write all files. Raises OSError where one cannot be written."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QGuiApplication.instance() or QGuiApplication([])
    folder.mkdir(parents=True, exist_ok=True)
    files = {f"decodeck-{size}.png": size for size in SIZES} | {"decodeck.ico": 256, "decodeck.icns": 512}
    for name, size in files.items():
        if not draw(size).save(str(folder / name)):
            raise OSError(f"{folder / name} could not be written.")
    del application


if __name__ == "__main__":
    save(Path(sys.argv[1]))

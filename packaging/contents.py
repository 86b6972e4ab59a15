"""What goes into a built folder and what stays out: decodeck.spec, which PyInstaller runs, reads it."""

from __future__ import annotations

import fnmatch
import os
import subprocess
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
APP_ID = "io.github.decodeck.Decodeck"
EXTRAS = ("pdf", "constrained")  # of pyproject.toml: shipped with the program
PACKAGES = ("app", "assets", "engine", "ui")
NAMED = ("accelerate", "huggingface_hub")  # they import their own modules by name
# Imported somewhere in a library if they are there, and needed by nothing that runs here.
NOT_SHIPPED = [
    *("tkinter", "IPython", "matplotlib", "PIL", "pandas", "scipy", "sklearn", "tensorboard", "torchvision"),
    *("pytest", "_pytest", "pytestqt", "hypothesis", "mypy", "pip", "gguf", "bitsandbytes", "llama_cpp"),
    *("setuptools", "pkg_resources", "_distutils_hack", "PySide6.QtNetwork"),
    "readline",  # its library is under the GPL
]
_NOT_NEEDED = (
    "torch/test/*",
    "torch/include/*",
    "torch/share/*",
    "torch/bin/*[tT]est*",
    "torch/bin/protoc*",
    "torch/lib/*test*",
    "torch/lib/libbackend_with_compiler*",
    "torch/lib/libaoti_custom_ops*",
    "transformers/models/*/convert_*.py",  # from other libraries' checkpoints
    "transformers/models/*/modular_*.py",  # what the modeling files are made from
    "*.dist-info/direct_url.json",  # names a folder of the machine that this is built on
    "*libQt6Network.so*",
    "*libQt6EglF[sS]*",
    "PySide6/Qt/plugins/egldeviceintegrations/*",  # screens without a desktop
    "PySide6/Qt/plugins/generic/*",
    "PySide6/Qt/plugins/networkinformation/*",
    "PySide6/Qt/plugins/platforms/*eglfs*",
    "PySide6/Qt/plugins/platforms/*linuxfb*",
    "PySide6/Qt/plugins/platforms/*vkkhrdisplay*",
    "PySide6/Qt/plugins/platforms/*vnc*",
    "PySide6/Qt/plugins/platformthemes/*gtk*",  # brings half of GTK; the portal's dialogs are there
    "PySide6/Qt/plugins/tls/*",
)
# Of Linux's own libraries those that a desktop may lack, or have in another version: of Python and X11.
# All others, such as those of C and C++, have to be the machine's: its graphics drivers use them too.
_OF_THE_SYSTEM = (
    *("libpython3*", "libcrypto.so*", "libssl.so*", "libffi.so*", "libsqlite3.so*", "liblzma.so*"),
    *("libbz2.so*", "libuuid.so*", "libxkbcommon*.so*", "libxcb-*.so*"),
)


def is_needed(place: str, source: str, kind: str) -> bool:
    """Whether a file that PyInstaller collects is shipped: by its place in the folder, and by its source."""
    place = Path(place).as_posix()
    if any(fnmatch.fnmatchcase(place, pattern) for pattern in _NOT_NEEDED):
        return False
    return not is_system_library(source, kind) or _fits(Path(place).name)


def is_system_library(source: str, kind: str) -> bool:
    """Whether a file is one of the libraries of the Linux that this is built on."""
    return kind == "BINARY" and source.startswith(("/lib", "/usr/"))


def _fits(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _OF_THE_SYSTEM)


def is_named(module: str) -> bool:
    """Whether a library may import its own module by name: not what is there for tests alone."""
    return "test_utils" not in module.split(".")


def system_licences(libraries: Iterable[str]) -> list[tuple[str, str]]:
    """Of the Debian packages that libraries are from: their copyright files, and the names they get in
    assets/licences. Raises FileNotFoundError for what is of no package, or of one without such a file.
    """
    packages = sorted({_package(os.path.realpath(library)) for library in libraries})
    texts = [(f"/usr/share/doc/{package}/copyright", f"system-{package}.txt") for package in packages]
    for text, _ in texts:
        if not Path(text).is_file():
            raise FileNotFoundError(text)
    return texts


def _package(file: str) -> str:
    """The Debian package of a file; some packages still name /lib, which is /usr/lib."""
    command = ["dpkg-query", "-S", file, file.removeprefix("/usr")]
    found = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    if not found:
        raise FileNotFoundError(f"{file} is of no Debian package, so its licence is not known.")
    return found.partition(":")[0]


def version() -> str:
    """The program's, as pyproject.toml has it."""
    project: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return project["version"]


def info_plist() -> dict[str, object]:
    """What macOS has to know of the bundle: its name, and that it opens GGUF files."""
    gguf = f"{APP_ID}.gguf"
    return {
        "CFBundleDisplayName": "Decodeck",
        "CFBundleShortVersionString": version(),
        "LSApplicationCategoryType": "public.app-category.developer-tools",
        "LSMinimumSystemVersion": "13.0",
        "NSHighResolutionCapable": True,
        "CFBundleDocumentTypes": [
            {
                "CFBundleTypeName": "GGUF model",
                "CFBundleTypeRole": "Viewer",
                "LSHandlerRank": "Alternate",
                "LSItemContentTypes": [gguf],
            }
        ],
        "UTImportedTypeDeclarations": [
            {
                "UTTypeIdentifier": gguf,
                "UTTypeDescription": "GGUF model",
                "UTTypeConformsTo": ["public.data"],
                "UTTypeTagSpecification": {"public.filename-extension": ["gguf"]},
            }
        ],
    }

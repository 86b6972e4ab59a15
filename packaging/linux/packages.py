"""``python packaging/linux/packages.py deb|appimage FOLDER``: a package of what decodeck.spec has built.

deb       a Debian package, by dpkg-deb. It names the system's libraries that Qt needs, and wants the glibc of
          the machine that it is built on, or a newer one.
appimage  an AppDir; with ``--runtime FILE`` one file that runs by itself: AppImage's runtime
          (https://github.com/AppImage/type2-runtime) and behind it the AppDir as a squashfs, by mksquashfs.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]
import contents  # noqa: E402 - beside the folder of this script
import icons  # noqa: E402

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# What a built folder leaves to the system: of C, C++ and glib, of the screen, of fonts.
DEPENDS = (
    "libc6 (>= {glibc}), libstdc++6, libgcc-s1, zlib1g, libzstd1, libglib2.0-0t64 | libglib2.0-0, libegl1, "
    "libgl1, libdrm2, libx11-6, libx11-xcb1, libxcb1, libdbus-1-3, libfontconfig1, libfreetype6, "
    "libwayland-client0, libwayland-cursor0, libwayland-egl1"
)
RECOMMENDS = "xdg-utils, gnome-keyring | kwalletmanager"
CONTROL = """\
Package: decodeck
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {kib}
Depends: {depends}
Recommends: {recommends}
Section: science
Priority: optional
Description: chat with a language model on this computer, and see how fast it decodes
 A model writes one token at a time, and for each one it reads all of its weights and
 the whole cache of the chat. Decodeck shows both sides of that fraction while you chat,
 and says what another precision or context length would need. It runs GGUF files and
 Hugging Face folders on the processor.
"""


def lay(folder: Path, root: Path) -> None:
    """The program and all that a desktop has to know of it, below ``root``."""
    program, share = root / "usr/lib/decodeck", root / "usr/share"
    shutil.copytree(folder, program, symlinks=True)
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/decodeck").symlink_to("../lib/decodeck/decodeck")
    texts = {
        HERE / "decodeck.desktop": share / "applications/decodeck.desktop",
        HERE / "decodeck-mime.xml": share / "mime/packages/decodeck.xml",
        HERE / f"{contents.APP_ID}.metainfo.xml": share / f"metainfo/{contents.APP_ID}.metainfo.xml",
        contents.ROOT / "LICENSE": share / "doc/decodeck/copyright",
        icons.SOURCE: share / "icons/hicolor/scalable/apps/decodeck.svg",
    }
    drawn = root / "icons"
    icons.save(drawn)
    for size in icons.SIZES:
        texts[drawn / f"decodeck-{size}.png"] = share / f"icons/hicolor/{size}x{size}/apps/decodeck.png"
    for source, target in texts.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    shutil.rmtree(drawn)


def control(root: Path, maintainer: str) -> str:
    """The Debian package's description of itself."""
    nbytes = sum(path.lstat().st_size for path in root.rglob("*") if not path.is_dir())
    glibc = (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ")
    return CONTROL.format(
        version=contents.version(),
        architecture=ARCHITECTURES[platform.machine()],
        maintainer=maintainer,
        kib=-(-nbytes // 1024),
        depends=DEPENDS.format(glibc=glibc),
        recommends=RECOMMENDS,
    )


def build_deb(folder: Path, maintainer: str) -> Path:
    """The package, beside ``folder``."""
    root = folder.with_name("deb")
    shutil.rmtree(root, ignore_errors=True)
    lay(folder, root)
    described = control(root, maintainer)
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN/control").write_text(described, "utf-8")
    name = f"decodeck_{contents.version()}_{ARCHITECTURES[platform.machine()]}.deb"
    target = folder.with_name(name)
    options = ["--root-owner-group", "-Zzstd", "-z9"]  # xz takes several times as long
    subprocess.run(["dpkg-deb", *options, "--build", str(root), str(target)], check=True)
    shutil.rmtree(root)
    return target


def build_appimage(folder: Path, runtime: Path | None) -> Path:
    """The AppDir beside ``folder``, or with a runtime the AppImage of it."""
    root = folder.with_name("decodeck.AppDir")
    shutil.rmtree(root, ignore_errors=True)
    lay(folder, root)
    (root / "AppRun").symlink_to("usr/bin/decodeck")
    (root / "decodeck.desktop").symlink_to("usr/share/applications/decodeck.desktop")
    (root / "decodeck.png").symlink_to("usr/share/icons/hicolor/256x256/apps/decodeck.png")
    (root / ".DirIcon").symlink_to("decodeck.png")
    if runtime is None:
        return root
    image, target = (
        root.with_suffix(".squashfs"),
        folder.with_name(f"Decodeck-{contents.version()}-{platform.machine()}.AppImage"),
    )
    options = ["-noappend", "-root-owned", "-comp", "zstd", "-quiet"]
    subprocess.run(["mksquashfs", str(root), str(image), *options], check=True)
    with target.open("wb") as file:
        for part in (runtime, image):
            with part.open("rb") as source:
                shutil.copyfileobj(source, file)
    target.chmod(0o755)
    image.unlink()
    return target


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kind", choices=("deb", "appimage"))
    parser.add_argument("folder", type=Path, help="what decodeck.spec has built: dist/decodeck")
    parser.add_argument("--maintainer", default="The Decodeck contributors", metavar="'NAME <MAIL>'")
    parser.add_argument("--runtime", type=Path, metavar="FILE", help="AppImage's runtime for this processor")
    options = parser.parse_args(arguments)
    folder = options.folder.resolve()
    if options.kind == "deb":
        made = build_deb(folder, options.maintainer)
    else:
        made = build_appimage(folder, options.runtime)
    print(made)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

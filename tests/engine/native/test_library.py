"""Loading the compiled kernels: never a crash, always a reason, one OpenMP runtime."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path

import pytest

from engine.native import library
from engine.native.library import Layer, Matrix, Model, NativeLibrary, Plane, Segment, Span

ROOT = Path(__file__).resolve().parents[3]
HEADER = (ROOT / "engine" / "native" / "decodeck.h").read_text(encoding="utf-8")
STRUCTS: dict[str, type[ctypes.Structure]] = {
    "dk_matrix": Matrix,
    "dk_layer": Layer,
    "dk_model": Model,
    "dk_span": Span,
    "dk_plane": Plane,
    "dk_segment": Segment,
}


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test finds the library anew, and leaves behind what was chosen before."""
    before = library.load()
    monkeypatch.delenv(library.VARIABLE, raising=False)
    library._find.cache_clear()
    yield
    library._find.cache_clear()
    if before is not None:
        before.functions.dk_use(before.instruction_set.encode())


@pytest.fixture
def native() -> NativeLibrary:
    """The library; a test skips where it was not built."""
    found = library.load()
    if found is None:
        pytest.skip(library.why_missing())
    return found


def missing_because(monkeypatch: pytest.MonkeyPatch, path: Path) -> str:
    """Why there is no library when it is looked for at `path`."""
    monkeypatch.setattr(library, "library_path", lambda: path)
    library._find.cache_clear()
    assert library.load() is None
    return library.why_missing()


def compiled(folder: Path, code: str) -> Path:
    """A shared library of this C++ code; the test skips without a compiler."""
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    source, target = folder / "foreign.cpp", folder / "foreign.so"
    source.write_text(code, encoding="utf-8")
    subprocess.run([compiler, "-shared", "-fPIC", str(source), "-o", str(target)], check=True)
    return target


def test_a_found_library_names_an_instruction_set_and_has_no_reason(native: NativeLibrary) -> None:
    assert native.instruction_set in library.INSTRUCTION_SETS
    assert library.why_missing() == ""


def test_every_exported_function_of_the_header_is_declared(native: NativeLibrary) -> None:
    names = re.findall(r"^DK_EXPORT .*?(dk_\w+)\(", HEADER, re.MULTILINE)
    assert list(library._FUNCTIONS) == names
    assert all(getattr(native.functions, name).argtypes is not None for name in names)


def test_the_abi_version_is_that_of_the_header() -> None:
    assert f"#define DK_ABI_VERSION {library.ABI_VERSION}\n" in HEADER


@pytest.mark.parametrize(
    ("struct", "name"),
    [(struct, name) for name, struct in STRUCTS.items()],
    ids=STRUCTS,
)
def test_structs_have_the_fields_of_the_header_in_their_order(
    struct: type[ctypes.Structure], name: str
) -> None:
    body = re.search(rf"struct {name} \{{(.*?)\}};", HEADER, re.DOTALL)
    assert body is not None
    code = re.sub(r"//.*", "", body[1])
    names = [
        field for declaration in code.split(";") for field in re.findall(r"(\w+)(?:,|$)", declaration.strip())
    ]
    assert [field[0] for field in struct._fields_] == names


def test_structs_have_the_sizes_and_places_of_the_compiler(tmp_path: Path) -> None:
    places = [(name, field[0]) for name, struct in STRUCTS.items() for field in struct._fields_]
    numbers = [f"sizeof({name})" for name in STRUCTS] + [f"offsetof({n}, {field})" for n, field in places]
    code = '#include <cstddef>\n#include "{}"\nextern "C" long numbers[] = {{{}}};\n'
    path = compiled(tmp_path, code.format(ROOT / "engine" / "native" / "decodeck.h", ", ".join(numbers)))
    compilers = list((ctypes.c_long * len(numbers)).in_dll(ctypes.CDLL(str(path)), "numbers"))
    ours = [ctypes.sizeof(struct) for struct in STRUCTS.values()]
    assert compilers == ours + [getattr(STRUCTS[name], field).offset for name, field in places]


@pytest.mark.parametrize(
    ("kinds", "name", "more"),
    [(library.Format, "dk_format", ["FORMATS"]), (library.Activation, "dk_activation", [])],
    ids=["dk_format", "dk_activation"],
)
def test_enumerations_have_the_numbers_of_the_header(
    kinds: type[IntEnum], name: str, more: list[str]
) -> None:
    body = re.search(rf"enum {name} .*?\{{(.*?)\}};", HEADER, re.DOTALL)
    assert body is not None
    expected = {kind.name: kind.value for kind in kinds} | {each: len(kinds) for each in more}
    assert {key: int(value) for key, value in re.findall(r"DK_(\w+) = (\d+)", body[1])} == expected


def test_a_file_that_is_not_there_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert "were not built" in missing_because(monkeypatch, tmp_path / "none.so")


@pytest.mark.parametrize("content", [b"", b"text", b"\x7fELF", b"\x7fELF\x02" + bytes(200)])
def test_a_file_of_another_kind_is_explained(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "damaged.so"
    path.write_bytes(content)
    assert "Run pip install again" in missing_because(monkeypatch, path)


def test_a_file_cut_off_anywhere_is_explained(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, native: NativeLibrary
) -> None:
    whole, path = native.path.read_bytes(), tmp_path / "cut.so"
    for kept in (16, 64, 1000, 5000, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:kept])
        assert "Run pip install again" in missing_because(monkeypatch, path)


def test_a_library_for_another_processor_is_explained(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, native: NativeLibrary
) -> None:
    foreign = bytearray(native.path.read_bytes())
    if foreign[:4] != b"\x7fELF":
        pytest.skip("not an ELF file")
    foreign[18:20] = b"\x16\x00"  # e_machine: S/390
    path = tmp_path / "foreign.so"
    path.write_bytes(foreign)
    assert "cannot be loaded" in missing_because(monkeypatch, path)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ('extern "C" int dk_abi_version() { return -7; }', "another version (-7"),
        ('extern "C" int dk_abi_version() { return VERSION; }', "cannot be loaded"),
        ('extern "C" int something() { return 1; }', "cannot be loaded"),
    ],
    ids=["of another version", "without functions", "of something else"],
)
def test_a_foreign_library_is_explained(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str, reason: str
) -> None:
    path = compiled(tmp_path, code.replace("VERSION", str(library.ABI_VERSION)))
    assert reason in missing_because(monkeypatch, path)


def test_off_switches_the_kernels_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.VARIABLE, "off")
    assert library.load() is None
    assert "switched off" in library.why_missing()


def test_an_unknown_name_is_refused_with_those_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.VARIABLE, "mmx")
    assert library.load() is None
    assert "avx2" in library.why_missing()


def test_every_instruction_set_can_be_chosen_or_says_that_it_is_absent(
    monkeypatch: pytest.MonkeyPatch, native: NativeLibrary
) -> None:
    supported = library._supported(native.functions)
    assert supported[-1] == "scalar"
    for name in library.INSTRUCTION_SETS:
        monkeypatch.setenv(library.VARIABLE, name.upper())
        library._find.cache_clear()
        found = library.load()
        if name in supported:
            assert found is not None and found.instruction_set == name
        else:
            assert found is None and "this processor has" in library.why_missing()


def test_threads_that_load_at_once_get_the_same_answer(native: NativeLibrary) -> None:
    library._find.cache_clear()
    found: list[NativeLibrary | None] = []
    threads = [threading.Thread(target=lambda: found.append(library.load())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(each is not None and each.instruction_set == native.instruction_set for each in found)


def in_a_process(code: str) -> str:
    """What Python prints for `code` in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_loading_needs_no_torch(native: NativeLibrary) -> None:
    code = "import sys; from engine.native import library; library.load(); print('torch' in sys.modules)"
    assert in_a_process(code) == "False\n"


_TWO_THREADS = """
import ctypes, re, torch
from engine.native import library
from engine.native.library import Format, Matrix

found = library.load()
print(library.connect_parallel(found))
weights, x, out = torch.randn(320, 64), torch.randn(2, 64), torch.empty(2, 320)
dk = found.functions
scratch = torch.empty(dk.dk_linear_scratch(2, 64, 2) + 64, dtype=torch.uint8)
aligned = (scratch.data_ptr() + 63) // 64 * 64
matrix = Matrix(weights.data_ptr(), 320, 64, Format.F32)
dk.dk_linear(ctypes.byref(matrix), 1, x.data_ptr(), out.data_ptr(), 2, 2, aligned)
torch.testing.assert_close(out, x @ weights.T)
with open('/proc/self/maps') as maps:
    print(*sorted({line.split()[-1] for line in maps if re.search('lib(gomp|omp|iomp)', line)}), sep='\\n')
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/maps")
def test_kernels_run_on_the_one_openmp_library_that_torch_brings(native: NativeLibrary) -> None:
    reason, *runtimes = in_a_process(_TWO_THREADS).splitlines()
    assert reason == ""
    assert len(runtimes) == 1
    assert "/torch" in runtimes[0]


def test_without_a_runtime_there_is_a_reason_and_one_thread(
    native: NativeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")  # which loads libraries itself

    def refuse(name: str) -> ctypes.CDLL:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    assert "one thread" in library.connect_parallel(native)

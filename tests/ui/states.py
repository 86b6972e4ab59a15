"""The designed states of the window, as functions that bring a window into one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QUrl
from PySide6.QtWidgets import QApplication, QScrollArea

from tests.ui.explain_states import EXPLAIN, WHY
from tests.ui.lab_states import LAB_STATES
from tests.ui.library_states import LIBRARY_STATES
from tests.ui.tuning_states import DRAFT_MODEL, GPU, NO_FIT, SPILLS, TIGHT, TUNING
from ui.chat_values import ChatRow, CounterView, LengthView, MessageView
from ui.drop import Dropped, sort_urls
from ui.gauge_values import ContextView, MemoryView, SpeedView, WhyView
from ui.main_window import MainWindow
from ui.values import (
    ChipView,
    DownloadView,
    MachineView,
    ModelRow,
    ModelState,
    NoticeAction,
    NoticeView,
    StatusView,
)

GB = 1_000_000_000
STARTER = "SmolLM2-135M-Instruct"
CHIP = ChipView(ModelState.GENERATING, STARTER, "4-bit · 8k")
CHATS = (
    ChatRow("1", "Mean of one column in a CSV file", "SmolLM2-135M · 90 tok/s", "Today", is_writing=True),
    ChatRow("2", "Garden plan for spring", "SmolLM2-135M · 91 tok/s", "Today"),
    ChatRow("3", "Rename photos by the date taken", "SmolLM2-135M · 88 tok/s", "Today"),
    ChatRow("4", "Explain the KV cache simply", "Llama-3.2-3B · 21 tok/s", "Today"),
    ChatRow("5", "Letter to the landlord", "Llama-3.2-3B · 20 tok/s", "Yesterday"),
    ChatRow("6", "Regex for ISO dates", "SmolLM2-135M · 92 tok/s", "Yesterday"),
    ChatRow("7", "Unit tests for the date parser", "SmolLM2-135M · 90 tok/s", "Yesterday"),
    ChatRow("8", "Sourdough timetable", "SmolLM2-135M · 93 tok/s", "Earlier"),
    ChatRow("9", "Notes from the planning call", "Llama-3.2-3B · 19 tok/s", "Earlier"),
)
CODE = """import csv

def column_mean(path, column):
    total, count = 0.0, 0
    with open(path, newline="") as f:
        for row in csv.DictReader(f):      # one row in memory at a time
            total += float(row[column])
            count += 1
    return total / count if count else None"""
MESSAGES = (
    MessageView("m1", "user", "How do I get the mean of one column of a 20 GB CSV in Python?"),
    MessageView(
        "m2",
        "assistant",
        "Read it **one row at a time**. `csv.DictReader` is a *generator*, so memory use stays flat "
        f"however large the file is:\n\n```python\n{CODE}\n```\n\nIt stops with `ValueError` at the "
        "first blank cell. Tell me if your file has any and I will add a guard.",
        stats="128 tokens · 90.4 tok/s · first token 0.21 s · 71% of drafts accepted",
    ),
    MessageView("m3", "user", "It has some blank cells. Skip them, and show progress."),
    MessageView(
        "m4",
        "assistant",
        "Two small changes. A blank cell is skipped before `float()` sees it, and progress comes from the "
        "number of bytes read so far, so there is no need to count the rows first",
        "writing",
        "41 tokens so far · 90.1 tok/s · first token 0.21 s",
    ),
)
STEPS_MS = tuple(11.0 + (index * 7 % 5) * 0.12 + (6.0 if index in (31, 70) else 0) for index in range(96))
SPEED = SpeedView(
    *(90.1, True, 0.21, 1830.0, STEPS_MS, True),
    drafts_accepted=0.71,
    predicted_tps=88.0,
    limit_tps=112.0,
    reading_tps=(3.9, 6.7),
    read_gbps=8.9,
    peak_gbps=11.2,
    why=WHY,
)
MEMORY = MemoryView("RAM", 16_500_000_000, 98_000_000, 62_000_000, 128_000_000, 310_000_000, 7_200_000_000)
MEMORY = replace(MEMORY, free=16_500_000_000 - 7_798_000_000)
STATUS = StatusView("AMD EPYC 7B13 · 2 cores", ("AVX-512",))
MACHINE = MachineView("AMD EPYC 7B13 · 2 cores", "16.5 GB RAM, 8.7 GB free")


def fill(window: MainWindow) -> None:
    """What all states of a loaded model have in common: an answer is being written."""
    window.show_first_start(False)
    window.set_chip(CHIP)
    window.set_chats(CHATS, "1")
    window.show_chat(MESSAGES)
    window.set_generating(True)
    window.set_speed(SPEED)
    window.set_memory(MEMORY)
    window.set_context(ContextView(1412, 8192, (1412,)))
    window.set_tuning(TUNING)
    window.set_counter(CounterView(1431, 8192))
    window.composing.set_length(LengthView(512, 5.8))
    window.set_status(STATUS)
    window.set_machine(MACHINE)
    window.set_composer_text("Also print an estimate of the time left.")


def finish(window: MainWindow) -> None:
    """The answer is done; nothing is being written."""
    fill(window)
    stats = "44 tokens · 90.1 tok/s · first token 0.21 s"
    window.set_message(replace(MESSAGES[3], status="done", stats=stats, text=MESSAGES[3].text + "."))
    window.set_generating(False)
    window.set_chip(replace(CHIP, state=ModelState.READY))
    window.set_chats([replace(CHATS[0], is_writing=False), *CHATS[1:]], "1")
    window.set_speed(replace(SPEED, is_live=False, step_ms=(), is_new_answer=False))
    window.set_composer_text("")


THOUGHT = """The file is too large for memory, so the rows have to come one at a time.

- `csv.DictReader` reads lazily.
- A blank cell gives `""`, and `float("")` raises `ValueError`.

```python
if not row[column].strip():
    continue
```

Progress: bytes read so far over the size of the file. That needs `f.tell()`, which text mode forbids while
iterating. *Count the bytes of each line instead.*"""


def _think(window: MainWindow) -> None:
    fill(window)
    thinking = replace(MESSAGES[3], text="", thinking=THOUGHT, thinking_s=4.2)
    window.set_message(replace(thinking, stats="112 tokens so far · 90.1 tok/s · first token 0.21 s"))
    window.set_thinking(True)


def _open_thought(window: MainWindow) -> None:
    finish(window)
    stats = "156 tokens · 90.1 tok/s · first token 0.21 s"
    thought = replace(MESSAGES[3], status="done", stats=stats, thinking=THOUGHT, thinking_s=12.3)
    window.show_chat((*MESSAGES[2:3], replace(thought, text=f"{thought.text}.")))
    window.body.centre.transcript.toggle_thought("m4")
    window.set_thinking(False)


def _have_thought(window: MainWindow) -> None:
    finish(window)
    old = replace(MESSAGES[1], thinking=THOUGHT, thinking_s=125.0)
    stopped = replace(
        MESSAGES[3], text="", thinking=THOUGHT, thinking_s=3.2, status="stopped", stats="41 tokens"
    )
    window.show_chat((MESSAGES[0], old, MESSAGES[2], stopped))
    window.set_thinking(True)


def _leave_out(window: MainWindow) -> None:
    """The context was full: what the model does not know any more is set back."""
    finish(window)
    sentence = "Context full: 14 earlier messages (2,310 tokens) left out"
    old = (
        MessageView("m0", "user", "Which of these two is faster?"),
        MessageView(
            "m0a",
            "assistant",
            "The **second** one: it reads each row once.\n\n| way | rows |\n|-|-|\n| `csv` | 1 |\n\n"
            "```python\nfor row in rows:\n    total += row  # once\n```",
            stats="61 tokens · 90.4 tok/s · first token 0.21 s",
        ),
    )
    question = replace(MESSAGES[2], left_out=sentence)
    stats = "44 tokens · 90.1 tok/s · first token 0.21 s · 71% of drafts accepted"
    answer = replace(MESSAGES[3], status="done", stats=stats)
    window.show_chat((*old, question, answer))
    window.set_left_out({"m0", "m0a"})


def _leave_out_middle(window: MainWindow) -> None:
    fill(window)
    sentence = "Context full: 1,200 tokens in the middle left out"
    window.show_chat((*MESSAGES[:2], replace(MESSAGES[2], left_out=sentence), MESSAGES[3]))


def _stop(window: MainWindow) -> None:
    finish(window)
    stats = "41 tokens · 90.1 tok/s · first token 0.21 s · 71% of drafts accepted"
    window.set_message(replace(MESSAGES[3], status="stopped", stats=stats))


def _end_full(window: MainWindow) -> None:
    finish(window)
    window.set_message(replace(MESSAGES[3], status="context", stats="41 tokens · 90.1 tok/s"))


def _wait_for_room(window: MainWindow) -> None:
    fill(window)
    waiting = "Waiting for room: another chat is being answered"
    window.set_message(replace(MESSAGES[3], status="waiting", stats=waiting))
    window.set_speed(replace(SPEED, decode_tps=None))
    window.set_chats([CHATS[0], replace(CHATS[1], is_writing=True), *CHATS[2:]], "1")


def _answer_two(window: MainWindow) -> None:
    fill(window)
    window.set_chats([CHATS[0], replace(CHATS[1], is_writing=True), *CHATS[2:]], "1")
    why = "Drafting is off: checking a drafted token takes 10% longer, and 4% of them are right here."
    speed = replace(SPEED, decode_tps=59.2, together="2 chats · 118 tok/s together")
    window.set_speed(replace(speed, drafts_accepted=None, drafting_off=why))
    window.set_context(ContextView(5412, 8192, (2120, 1431)))


def _slow_down(window: MainWindow) -> None:
    fill(window)
    why = "Slower than predicted: another program uses 1.2 of 2 cores"
    slow = replace(SPEED, decode_tps=48.3, is_slower=True, read_gbps=4.8)
    window.set_speed(replace(slow, why=WhyView(why, True, can_explain=True)))


def _read_cache(window: MainWindow) -> None:
    """More than the memory gives, and a KV cache of a few MB."""
    fill(window)
    words = "74% of each token is reading 8.0\u00a0MB of weights from the processor's cache"
    why = WhyView(f"Cache-bound: {words}", can_explain=True)
    fast = replace(SPEED, decode_tps=1240.0, predicted_tps=1180.0, limit_tps=1500.0, read_gbps=16.9)
    window.set_speed(replace(fast, is_live=False, step_ms=(1.0,) * 96, drafts_accepted=None, why=why))
    window.set_memory(replace(MEMORY, kv_used=4_100_000, free=MEMORY.free + 57_900_000))


def _explain(window: MainWindow) -> None:
    fill(window)
    window.set_speed(SPEED)
    window.explaining.show(EXPLAIN)


def _explain_history(window: MainWindow) -> None:
    _explain(window)
    bar = window.body.centre.explain.findChildren(QScrollArea)[0].verticalScrollBar()
    QApplication.processEvents()
    bar.setValue(bar.maximum())


def _change_settings(window: MainWindow) -> None:
    fill(window)
    window.set_tuning(replace(TIGHT, apply="waiting"))
    window.set_memory(replace(MEMORY, pending=270_000_000))


def _ready_to_apply(window: MainWindow) -> None:
    finish(window)
    unmeasured = tuple(replace(each, quality="") for each in TUNING.formats)
    heat = replace(TUNING.heat, chosen=("file", 2048)) if TUNING.heat is not None else None
    changed = replace(TUNING, formats=unmeasured, chosen_context=2048, heat=heat)
    window.set_tuning(replace(changed, apply="ready", reload_s=2.0))


def _reload(window: MainWindow) -> None:
    finish(window)
    window.set_chip(ChipView(ModelState.LOADING, STARTER, "16-bit · 4k", 62))
    changed = replace(TIGHT, loaded_format="bf16", loaded_context=4096)
    window.set_tuning(replace(changed, apply="reloading", apply_percent=62, reload_s=1.0))


def _split_on_gpu(window: MainWindow) -> None:
    fill(window)
    window.set_tuning(GPU)
    window.set_memory(replace(MEMORY, label="VRAM", pending=700_000_000))


def _spill(window: MainWindow) -> None:
    fill(window)
    window.set_tuning(replace(SPILLS, apply="waiting"))


def _exceed_memory(window: MainWindow) -> None:
    finish(window)
    window.set_tuning(NO_FIT)


def _draft_with_model(window: MainWindow) -> None:
    finish(window)
    window.set_tuning(DRAFT_MODEL)


def _pick_draft(window: MainWindow) -> None:
    finish(window)
    window.open_drafts()
    differs = "Its vocabulary differs in 512 tokens, such as 17: “a” in the model, “b” in the draft."
    window.drafts.set_models(
        (
            ModelRow("", "No draft model", "The chat itself can still be drafted from"),
            ModelRow("/m/s.gguf", STARTER, "135 M parameters · 4.9 bits · 0.10 GB", is_loaded=True),
            ModelRow("/m/l.gguf", "Llama-3.2-3B-Instruct", reason=differs),
        )
    )


def _start_empty(window: MainWindow) -> None:
    window.show_first_start(True)
    window.set_chip(ChipView(ModelState.NO_MODEL))
    window.set_chats((), None)
    window.set_machine(MACHINE)
    window.set_status(STATUS)
    window.set_tuning(None)
    window.set_memory(MemoryView("RAM", 16_500_000_000, other=7_200_000_000, free=9_300_000_000))
    window.set_download(DownloadView("offered", 0, 98_362_432))


def _download(window: MainWindow) -> None:
    _start_empty(window)
    window.set_chip(ChipView(ModelState.DOWNLOADING, STARTER, "4-bit · 8k", 43))
    window.set_download(DownloadView("running", 42_300_000, 98_362_432, 6.1e6, 9.2))
    window.set_composer_text("What is a KV cache?")
    window.set_status(replace(STATUS, privacy="Only model files are downloaded; chats stay here"))


def _fail_download(window: MainWindow) -> None:
    _start_empty(window)
    message = "No connection. Models on this computer still work."
    window.set_download(DownloadView("failed", 42_300_000, 98_362_432, message=message))


def _new_chat(window: MainWindow) -> None:
    finish(window)
    window.show_chat(())
    window.set_chats([replace(CHATS[0], is_writing=False), *CHATS[1:]], None)
    window.set_context(ContextView(0, 8192))
    window.set_counter(CounterView(0, 8192))


def _fail(window: MainWindow) -> None:
    finish(window)
    stopped = replace(MESSAGES[3], status="failed", stats="41 tokens · 90.1 tok/s · first token 0.21 s")
    window.set_message(stopped)
    window.show_notice(
        NoticeView(
            "error",
            "Out of memory",
            "The answer so far is kept. Another app took 0.9 GB while it was written.",
            (NoticeAction("smaller", "Continue with 4k context"),),
            "DefaultCPUAllocator: not enough memory",
        )
    )


def _refuse_file(window: MainWindow) -> None:
    finish(window)
    window.set_chip(ChipView(ModelState.FAILED, "notes.gguf"))
    window.show_notice(
        NoticeView(
            "warning",
            "This file is not a model",
            "notes.gguf has no GGUF header. It may be an unfinished download.",
            (NoticeAction("choose-file", "Choose another file"),),
        )
    )


def _undo(window: MainWindow) -> None:
    finish(window)
    window.show_notice(NoticeView("info", "Chat deleted", actions=(NoticeAction("undo", "Undo"),)))


def _pick(window: MainWindow) -> None:
    finish(window)
    window.open_picker()
    window.set_models(
        (
            ModelRow("/m/s.gguf", STARTER, "Q4_1 · 98 MB · 8k context", is_loaded=True),
            ModelRow("/m/l.gguf", "Llama-3.2-3B-Instruct", "Q4_K_M · 2.02 GB · 131k context"),
            ModelRow("/m/b", "mamba-2.8b", reason='This model type ("mamba") is not supported yet.'),
        )
    )


def _drag(window: MainWindow, dropped: Dropped) -> None:
    finish(window)
    window.drop.overlay.show_drop(dropped)


def _drag_model(window: MainWindow) -> None:
    _drag(window, sort_urls([QUrl("file:///m/Llama-3.2-3B-Instruct.Q4_K_M.gguf")]))


def _drag_text(window: MainWindow) -> None:
    _drag(window, sort_urls([QUrl("file:///m/notes.txt")]))


def _close_panels(window: MainWindow) -> None:
    fill(window)
    window.set_panels(False, False)


def _open_drawers(window: MainWindow) -> None:
    fill(window)
    window.body.toggle_sidebar()
    if window.width() >= 1280:
        window.body.toggle_sidebar()
    if window.width() < 1024:
        window.body.toggle_tuning()


def _ask_about(window: MainWindow) -> None:
    finish(window)
    window.body.centre.top_bar.about_requested.emit()


def _write_too_much(window: MainWindow) -> None:
    finish(window)
    window.set_composer_text("Here is the whole log file: 2024-03-01 00:00:04 starting up")
    window.set_counter(CounterView(8410, 8192))


def _read(window: MainWindow) -> None:
    fill(window)
    window.set_message(MessageView("m4", "assistant", "", "reading", "1,204 tokens"))


def _name_at_length(window: MainWindow) -> None:
    finish(window)
    name = "A-model-with-a-name-that-nobody-can-say-in-one-breath-" * 3 + "Q4_K_M"
    window.set_chip(ChipView(ModelState.READY, name, "4-bit · 8k"))
    title = "One long title " * 20 + "\nand a second line"
    window.set_chats([replace(CHATS[0], title=title, detail=f"{name} · 90 tok/s"), *CHATS[1:]], "1")
    window.set_status(StatusView("A processor with a very long marketing name " * 3, ("AVX-512",) * 6))
    window.show_notice(NoticeView("error", f"{name} could not be read", f"/home/somebody/{name}/x " * 20))
    window.open_picker()
    window.set_models((ModelRow(f"/m/{name}", name, f"{name} · 2 GB"), ModelRow("/b", name, reason=name * 2)))


STATES: dict[str, Callable[[MainWindow], None]] = {
    "chat": fill,
    "finished": finish,
    "settings-changed": _change_settings,
    "apply": _ready_to_apply,
    "reloading": _reload,
    "gpu-split": _split_on_gpu,
    "spills": _spill,
    "no-fit": _exceed_memory,
    "draft-model": _draft_with_model,
    "draft-picker": _pick_draft,
    "first-start": _start_empty,
    "downloading": _download,
    "download-failed": _fail_download,
    "new-chat": _new_chat,
    "failed": _fail,
    "not-a-model": _refuse_file,
    "undo": _undo,
    "picker": _pick,
    "drop-model": _drag_model,
    "drop-text": _drag_text,
    "panels-closed": _close_panels,
    "drawers": _open_drawers,
    "too-long": _write_too_much,
    "reading": _read,
    "thinking": _think,
    "thought": _have_thought,
    "thought-open": _open_thought,
    "left-out": _leave_out,
    "left-out-middle": _leave_out_middle,
    "stopped": _stop,
    "context-full": _end_full,
    "waiting-for-room": _wait_for_room,
    "two-chats": _answer_two,
    "slower": _slow_down,
    "cached": _read_cache,
    "explain": _explain,
    "explain-history": _explain_history,
    "long-names": _name_at_length,
    "about": _ask_about,
}
STATES |= LAB_STATES | LIBRARY_STATES

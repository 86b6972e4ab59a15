"""How byte-level tokenizers cut a text into words before they merge: a table by `tokenizer.ggml.pre`.

Knows the patterns that model makers publish in tokenizer.json, by the names llama.cpp gave them; does not
know vocabularies or files. https://github.com/ggml-org/llama.cpp/blob/master/src/llama-vocab.cpp
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """One way of cutting.

    `patterns` (Oniguruma) work one after the other: what a pattern matches in a piece is a piece of its own,
    and so is what lies between. `whole_words`: a piece that is a token is taken without looking at merges.
    `adds_bos`: a prompt begins with a BOS where the file says nothing. `marks_spaces`: tokens are text in
    which U+2581 stands for a space, with `<0x0A>` and the like for bytes, instead of letters for all bytes.
    """

    patterns: tuple[str, ...]
    whole_words: bool = False
    adds_bos: bool = False
    marks_spaces: bool = False


_APOSTROPHES = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_BEFORE = r"[^\r\n\p{L}\p{N}]?"
_WORDS = rf"{_BEFORE}\p{{L}}+"
_CASED = rf"{_BEFORE}{_UPPER}*{_LOWER}+|{_BEFORE}{_UPPER}+{_LOWER}*"
_CASED_SHORTENED = rf"{_BEFORE}{_UPPER}*{_LOWER}+{_APOSTROPHES}?|{_BEFORE}{_UPPER}+{_LOWER}*{_APOSTROPHES}?"
_ASCII_SIGN = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"
_NOT_HAN_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_NOT_HAN_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_LETTERS_WITH_CASE = (  # as of some Unicode; written as numbers, since normal forms merge some of them
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5"
    "\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba"
    "\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45"
    "\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe"
    "\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102"
    "\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3"
    "\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
    "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"
    "\U0001e900-\U0001e943"
)
_EAST_ASIAN = "[一-龥ࠀ-一가-퟿]+"
_CJK = "[一-龥぀-ゟ゠-ヿ]+"

_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_DIGIT = r"\p{N}"
_GPT4 = rf"{_APOSTROPHES}|{_WORDS}|\p{{N}}{{1,3}}|{_SIGNS}|{_SPACES}"
_QWEN2 = rf"{_APOSTROPHES}|{_WORDS}|\p{{N}}|{_SIGNS}|{_SPACES}"
_QWEN35 = (
    rf"{_APOSTROPHES}|{_BEFORE}[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
)
_GPT4O_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
_GPT4O = rf"{_CASED_SHORTENED}|\p{{N}}{{1,3}}|{_GPT4O_SIGNS}|{_SPACES}"
_TEKKEN = rf"{_CASED}|\p{{N}}|{_GPT4O_SIGNS}|{_SPACES}"
_DEEPSEEK3 = rf"{_ASCII_SIGN}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+"
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
_HALVED_SPACES = "|".join(rf"\s{{{2**power}}}(?!\S)" for power in range(9, 1, -1))
_KIMI = "|".join(
    (
        r"\p{Han}+",
        rf"{_BEFORE}{_NOT_HAN_UPPER}*{_NOT_HAN_LOWER}+{_APOSTROPHES}?",
        rf"{_BEFORE}{_NOT_HAN_UPPER}+{_NOT_HAN_LOWER}*{_APOSTROPHES}?",
        rf"\p{{N}}{{1,3}}|{_SIGNS}|{_SPACES}",
    )
)
_TRINITY_SCRIPTS = "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+"
_YOUTU_SCRIPTS = "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+"
_LINES = r"[^\n]+|\n+"

_RULES: dict[str, Rule] = {
    "gpt-2 phi-2 mpt olmo jais trillion granite-docling gigachat a.x-4.0 mellum exaone4": Rule((_GPT2,)),
    "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2": Rule((_DIGIT, _GPT2)),
    "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2": Rule(
        (_GPT4,), whole_words=True, adds_bos=True
    ),
    "dbrx smaug-bpe chatglm-bpe": Rule((_GPT4,)),
    "glm4 glm5": Rule((_GPT4,), whole_words=True),
    "minicpm5": Rule(
        (r"\p{N}{1,3}", rf"{_APOSTROPHES}|{_WORDS}|\p{{N}}+|{_SIGNS}|{_SPACES}"), whole_words=True
    ),
    "qwen2 deepseek-r1-qwen kormo megrez stablelm2 hunyuan solar-open grok-2": Rule((_QWEN2,)),
    "qwen35": Rule((_QWEN35,)),
    "laguna": Rule((_LINES, _QWEN2)),
    "ufakzeka": Rule((rf"{_WORDS}|\p{{N}}|{_SIGNS}|{_SPACES}",)),
    "seed-coder": Rule((rf"{_APOSTROPHES}|{_WORDS}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACES}",)),
    "bailingmoe bailingmoe2 llada-moe": Rule(
        (
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
            r"|\s*[\r\n]|\s+(?!\S)|\s+",
        )
    ),
    "exaone-moe": Rule(
        (
            rf"{_APOSTROPHES}|{_BEFORE}(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
        )
    ),
    "jais-2": Rule(
        (
            rf"{_APOSTROPHES}|{_WORDS}|\p{{N}}{{1,3}}|{_SIGNS}|\s*[\r\n]+|{_HALVED_SPACES}"
            r"|\s{1,2}(?!\S)|\s{1}",
        )
    ),
    "gpt-4o llama4 kanana2 talkie minimax-m2": Rule((_GPT4O,)),
    "tiny_aya cohere2moe": Rule((r"\d{1,3}(?=(?:\d{3})*\b)", _GPT4O)),
    "tekken": Rule((_TEKKEN,), whole_words=True, adds_bos=True),
    "youtu": Rule(
        (
            _YOUTU_SCRIPTS,
            rf"{_CASED_SHORTENED}|\p{{N}}|{_GPT4O_SIGNS}|{_SPACES}",
        ),
        whole_words=True,
    ),
    "kimi-k2": Rule((_KIMI,)),
    "deepseek-coder": Rule((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _EAST_ASIAN, _DIGIT)),
    "deepseek-llm": Rule(
        (
            r"[\r\n]",
            rf"\s?[{_LETTERS_WITH_CASE}]+",
            r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
            r"\s+$",
            _EAST_ASIAN,
            r"\p{N}+",
        )
    ),
    "deepseek-v3 hunyuan-dense hy_v4 joyai-llm": Rule(
        (r"\p{N}{1,3}", _CJK, rf"{_DEEPSEEK3}[\r\n]*|{_SPACES}")
    ),
    "spark2_5": Rule((r"\p{N}{1,3}", _CJK, rf"{_DEEPSEEK3}|[\r\n]|\s+(?!\S)|\s+", _DIGIT)),
    "afmoe": Rule(
        (r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", _TRINITY_SCRIPTS, rf"{_DEEPSEEK3}[\r\n]*|{_SPACES}")
    ),
    "falcon": Rule((r"[\p{P}$+<=>^~|`]+", _GPT2, "[0-9][0-9][0-9]")),
    "default": Rule((r"[\p{P}$+<=>^~|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    "bloom poro-chat gpt3-finnish": Rule((_BLOOM,)),
    "viking": Rule((_BLOOM, _DIGIT)),
    "superbpe": Rule((r"\p{N}+", r"(?=(\d{3})+(?!\d))")),
    "chameleon": Rule(
        (
            "<sentinel:[0-9]+>",
            "IMGIMG[A-I]{1,4}Z",
            r"[\t\n]|    |  ",
            _DIGIT,
            r"[\p{P}!-/:-@\[-`{-~]",
            _GPT2,
        ),
        adds_bos=True,
    ),
    "gemma4": Rule((_LINES,), adds_bos=True, marks_spaces=True),
    "sarvam-moe": Rule((_LINES,), marks_spaces=True),
}
RULES = {name: rule for names, rule in _RULES.items() for name in names.split()}
PATTERNS = frozenset(pattern for rule in RULES.values() for pattern in rule.patterns)

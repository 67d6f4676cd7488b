"""Endless text of four kinds, made from a seed: ASCII prose, CJK, emoji, and a mix of scripts.

English comes from the documentation in Python itself (`pydoc_data.topics`). The rest is drawn from
words and blocks of Unicode, common ones more often, so that a vocabulary of any size meets
characters that it has to spell in bytes. Only the statistics are those of a language; the text has
no meaning.
"""

import functools
import random
import re
from collections.abc import Callable
from pydoc_data.topics import topics

# 30, 201 and 638 characters, then system prompts.
PROMPTS = {
    "short": "What is the capital of France?",
    "medium": (
        "Explain quantum computing to someone who knows how an ordinary computer works. Begin with "
        "what a qubit is, say what superposition and entanglement add to it, and end with one "
        "use that is realistic now."
    ),
}

_WORDS = {
    "zh": "的 是 我们 今天 天气 世界 模型 语言 可以 因为 所以 如果 时间 问题 数据 服务 学习 北京 "
    "上海 电脑 网络 需要 使用 非常 中国 公司 发展 工作 生活 朋友 喜欢 音乐 图书 城市 历史 科学",
    "ja": "です ます これは それは 東京 日本語 言葉 世界 時間 今日 ありがとう コンピュータ モデル "
    "サーバー 学校 先生 食べる 飲む 行きます しかし そして について として 注文 翻訳 有効",
    "ko": "안녕하세요 감사합니다 오늘 날씨 세계 언어 모델 시간 문제 데이터 학교 서울 컴퓨터 그리고 "
    "그러나 때문에 사람 친구 음악 도시 역사 과학",
    "ru": "привет мир сегодня погода язык модель время вопрос данные школа город потому что если "
    "который работа жизнь друг музыка книга история наука",
    "ar": "مرحبا العالم اليوم الطقس لغة نموذج وقت سؤال بيانات مدرسة مدينة لأن إذا عمل حياة صديق",
    "he": "שלום עולם היום שפה מודל זמן שאלה נתונים בית ספר עיר כי אם עבודה חיים חבר מוזיקה",
    "hi": "नमस्ते दुनिया आज मौसम भाषा मॉडल समय सवाल डेटा स्कूल शहर क्योंकि अगर काम जीवन दोस्त",
    "th": "สวัสดี โลก วันนี้ อากาศ ภาษา เวลา คำถาม ข้อมูล โรงเรียน เมือง เพราะ ถ้า งาน ชีวิต",
    "latin": "naïve café déjà-vu Straße größer mañana corazón São Paulo über Ångström œuvre",
    "code": "def return self.value for i in range(10): if x != None: {} [] => // import os; "
    'print("é") lambda x: x**2 \t\n    while True: break',
}
_BLOCKS = {
    "zh": [(0x4E00, 0x9FA5)],
    "ja": [(0x3041, 0x3096), (0x30A1, 0x30FA), (0x4E00, 0x9FA5)],
    "ko": [(0xAC00, 0xD7A3)],
    "ru": [(0x0430, 0x044F)],
    "ar": [(0x0621, 0x064A)],
    "he": [(0x05D0, 0x05EA)],
    "hi": [(0x0905, 0x094D)],
    "th": [(0x0E01, 0x0E3A), (0x0E40, 0x0E4E)],
    "latin": [(0x0061, 0x007A), (0x00E0, 0x00FE)],
    "emoji": [(0x1F600, 0x1F64F), (0x1F300, 0x1F5FF), (0x1F680, 0x1F6C5), (0x1F90C, 0x1F9FF),
              (0x1FA70, 0x1FAF8), (0x2600, 0x26FF)],
}  # fmt: skip
_CJK = ["zh", "ja", "ko"]
_JOINED = ["👩‍👩‍👧", "👨🏽‍💻", "🏳️‍🌈", "❤️‍🔥", "🧑‍🚀", "👍🏿", "1️⃣", "🫱🏼‍🫲🏾"]


def text(kind: str, characters: int, seed: int = 0) -> str:
    """Return at least this many characters of a kind, the same for the same seed."""
    generator = random.Random(f"{kind}-{seed}")
    parts, length = [], 0
    while length < characters:
        part = _KINDS[kind](generator)
        parts.append(part)
        length += len(part)
    return "".join(parts)


@functools.cache
def _paragraphs() -> list[str]:
    whole = "\n\n".join(topics[name] for name in sorted(topics))
    paragraphs = (re.sub(r"[\s*]+", " ", part).strip() for part in whole.split("\n\n"))
    return [part + "\n" for part in paragraphs if len(part) > 60 and part.isascii()]


def _common(generator: random.Random, size: int) -> int:
    """Return a place below `size`, far more often one of the first."""
    return int(size * generator.random() ** 2)


def _character(generator: random.Random, block: str) -> str:
    first, last = generator.choice(_BLOCKS[block])
    return chr(first + _common(generator, last - first + 1))


@functools.cache
def _words(language: str) -> list[str]:
    return _WORDS[language].split(" ")


def _word(generator: random.Random, language: str) -> str:
    words = _words(language)
    rare = 0.1 if language in _CJK else 0.4
    if language in _BLOCKS and generator.random() < rare:
        count = generator.randint(1, 1 if language in _CJK else 6)
        return "".join(_character(generator, language) for _ in range(count))
    return words[_common(generator, len(words))]


def _ascii(generator: random.Random) -> str:
    return generator.choice(_paragraphs())


def _cjk(generator: random.Random) -> str:
    language = generator.choice(_CJK)
    space = " " if language == "ko" else ""
    words = [_word(generator, language) for _ in range(generator.randint(3, 12))]
    return space.join(words) + generator.choice(["，", "。", "！", "\n"])


def _emoji(generator: random.Random) -> str:
    if generator.random() < 0.1:
        return generator.choice(_JOINED)
    if generator.random() < 0.1:
        return "".join(chr(0x1F1E6 + generator.randrange(26)) for _ in range(2))
    return _character(generator, "emoji") + " " * (generator.random() < 0.1)


def _mixed(generator: random.Random) -> str:
    language = generator.choice([name for name in _WORDS if name not in _CJK])
    words = [_word(generator, language) for _ in range(generator.randint(3, 12))]
    return " ".join(words) + generator.choice([". ", "! ", "\n", " 🚀 ", " 你好 "])


_KINDS: dict[str, Callable[[random.Random], str]] = {
    "ascii": _ascii, "cjk": _cjk, "emoji": _emoji, "mixed": _mixed,
}  # fmt: skip
KINDS = tuple(_KINDS)

PROMPTS["long"] = text("ascii", 638, seed=3)[:638]
for _name, _size in {"system 1k": 1000, "system 4k": 4000, "system 16k": 16_000}.items():
    PROMPTS[_name] = text("ascii", _size, seed=_size)[:_size]


def in_pieces(text: str, seed: int) -> list[str]:
    """Return a text in pieces of two to six characters, about as long as a model's tokens."""
    generator = random.Random(seed)
    pieces, place = [], 0
    while place < len(text):
        size = generator.randint(2, 6)
        pieces.append(text[place : place + size])
        place += size
    return pieces

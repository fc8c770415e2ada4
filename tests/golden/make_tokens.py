"""Writes tokens.json: the ids that llama.cpp gives varied text, with SmolLM2's own vocabulary and with a made one.

The made vocabulary was merged across all borders of words, so that every difference in how a
pre-tokenizer cuts shows in the ids. Run by hand, with llama-cpp-python, gguf, sentencepiece and
tokenizers installed: ``python make_tokens.py SMOLLM2.gguf``. The strings are our own.
"""

import io
import json
import sys
import tempfile
from pathlib import Path

import gguf
import llama_cpp
import sentencepiece
import tokenizers

PRE_TOKENIZERS = (
    "smollm",
    "gpt-2",
    "llama-bpe",
    "qwen2",
    "starcoder",
    "refact",
    "command-r",
    "deepseek-r1-qwen",
    "falcon3",
    "smaug-bpe",
    "tekken",
)
CONTROLS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>"]
WORDS = [
    "the",
    "Isotherm",
    "don't",
    "WE'LL",
    "it's",
    "naïve",
    "straße",
    "Ωmega",
    "привет",
    "日本語",
    "한국어",
    "مرحبا",
    "ไทย",
]
DIGITS = ["0", "42", "1234567", "3.14159", "1e-9", "٣٤", "Ⅷ", "x²", "½ cup", "007", "12,345.67", "v2.13.0"]
SPACES = [
    " ",
    "  ",
    "\t",
    "\n",
    "\n\n",
    " \n ",
    "\r\n",
    "a  b",
    "a   b    c",
    "  lead",
    "trail  ",
    "\u00a0nbsp",
    "\u3000wide",
]
EMOJI = ["🎉", "👩‍👩‍👧", "🇩🇪", "👍🏽", "a🎉b", "☃", "🤷‍♀️ ok", "❤️", "🧪🧪🧪"]
SIGNS = [
    "!?",
    "...",
    "—",
    "«quote»",
    "$100",
    "50%",
    "#tag",
    "@you",
    "a_b",
    "C++",
    "x=y",
    "(a)[b]{c}",
    "~`^|",
    "\\n",
    "'s 'S",
    "''",
]
CODE = [
    "def f(x):\n    return x ** 2\n",
    '<div class="a">\n\t<p>hi</p>\n</div>',
    "if(a&&b){c++;}",
    "SELECT * FROM t WHERE a='b';",
]
CASES = [
    "camelCase",
    "HTTPServer",
    "iPhone XS",
    "getHTTPResponseCode()",
    "ABCdefGHI",
    "fooBar.bazQux",
    "McDonald O'Neil",
    "aB",
    "eBay IDs",
    "/usr//bin\n/x",
    "*/\n//",
    "PyTorch TensorFlow",
    "mRNA",
]
SPECIAL = [
    "<|im_start|>user\nHi<|im_end|>\n",
    "<|endoftext|>",
    "a<|im_end|>b",
    "<|im_end|> <|im_end|>",
    "<|im_end",
    "<repo_name>x",
]
PROSE = [
    "A siphon lifts water over an edge because the longer leg is heavier.",
    "Temperature 0.6 was set by the operator; nobody asked for 1.0!",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
    "Le cœur déçu mais l'âme plutôt naïve, Louÿs rêva.",
    "今日は天気がいいですね。散歩に行きましょう！",
    "我们在三点十五分开会，请带上12份报告。",
    "Это проверка: 25 слов, 3 числа и одна точка.",
    "I'm sure they've said we'd go, but she'll decide; he's late.",
]


def strings() -> list[str]:
    """About two hundred, from short to long, with every pair of kinds side by side."""
    single = [*WORDS, *DIGITS, *SPACES, *EMOJI, *SIGNS, *CODE, *CASES, *SPECIAL, *PROSE]
    kinds = [WORDS, DIGITS, SPACES, EMOJI, SIGNS, CODE, CASES, SPECIAL]
    pairs = [f"{a[i % len(a)]}{glue}{b[i % len(b)]}" for glue in ("", " ") for i, a in enumerate(kinds) for b in kinds]
    return list(dict.fromkeys([*single, *pairs, " ".join(PROSE), "".join(WORDS + DIGITS + EMOJI)]))


def merged_across_words(texts: list[str]) -> tuple[list[str], list[str]]:
    """Tokens and merges of a byte-level BPE that was trained on uncut texts."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    tokenizer.pre_tokenizer = byte_level(add_prefix_space=False, use_regex=False)
    alphabet = byte_level.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=1500, initial_alphabet=alphabet, special_tokens=CONTROLS)
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].get), [" ".join(pair) for pair in model["merges"]]


def sentencepiece_vocabulary(texts: list[str]) -> tuple[list[str], list[float], list[int]]:
    """Tokens, scores and GGUF token types of a SentencePiece BPE with byte fallback."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for text in texts for line in text.splitlines() if line.strip()]),
        model_writer=model,
        model_type="bpe",
        vocab_size=700,
        byte_fallback=True,
        character_coverage=0.98,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        control_symbols=CONTROLS,
    )
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ids = range(pieces.get_piece_size())
    kinds = [2 if pieces.is_unknown(i) else 3 if pieces.is_control(i) else 6 if pieces.is_byte(i) else 1 for i in ids]
    return [pieces.id_to_piece(i) for i in ids], [pieces.get_score(i) for i in ids], kinds


def write_vocabulary(path: Path, pre: str, tokens: list[str], merges: list[str]) -> None:
    """A GGUF file without tensors, byte-level BPE."""
    writer = begun_file(path)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in CONTROLS else 1 for token in tokens])
    writer.add_token_merges(merges)
    finish(writer)


def write_sentencepiece(path: Path, prefix: bool, tokens: list[str], scores: list[float], kinds: list[int]) -> None:
    """A GGUF file without tensors, SentencePiece."""
    writer = begun_file(path)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(kinds)
    writer.add_add_space_prefix(prefix)
    finish(writer)


def begun_file(path: Path) -> gguf.GGUFWriter:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(1024)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(64)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    return writer


def finish(writer: gguf.GGUFWriter) -> None:
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def ids_of(path: Path, texts: list[str]) -> list[list[int]]:
    model = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
    return [model.tokenize(text.encode(), add_bos=False, special=True) for text in texts]


def main() -> None:
    texts = strings()
    tokens, merges = merged_across_words(texts)
    ids = {}
    with tempfile.TemporaryDirectory() as folder:
        for pre in PRE_TOKENIZERS:
            path = Path(folder) / f"{pre}.gguf"
            write_vocabulary(path, pre, tokens, merges)
            ids[pre] = ids_of(path, texts)
        pieces, scores, kinds = sentencepiece_vocabulary(texts)
        pieces_ids = {}
        for prefix in (True, False):
            path = Path(folder) / f"sentencepiece-{prefix}.gguf"
            write_sentencepiece(path, prefix, pieces, scores, kinds)
            pieces_ids[str(prefix)] = ids_of(path, texts)
    golden = {
        "llama_cpp_python": llama_cpp.__version__,
        "texts": texts,
        "smollm2": ids_of(Path(sys.argv[1]), texts),
        "made": {"tokens": tokens, "controls": CONTROLS, "merges": merges, "ids": ids},
        "sentencepiece": {"tokens": pieces, "scores": scores, "kinds": kinds, "ids_by_prefix": pieces_ids},
    }
    Path(__file__).with_name("tokens.json").write_text(json.dumps(golden, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Writes tokens.json: how llama.cpp cuts varied text, with SmolLM2's vocabulary and several pre-tokenizers.

Run by hand, with llama-cpp-python and gguf installed: ``python make_tokens.py MODEL.gguf``.
The strings are our own.
"""

# ruff: noqa: E501  (lists of strings read better in one line)

import json
import sys
import tempfile
from pathlib import Path

import gguf
import llama_cpp

PRE_TOKENIZERS = ("smollm", "gpt-2", "llama-bpe", "qwen2", "starcoder", "refact", "command-r", "deepseek-r1-qwen")
WORDS = ["the", "Isotherm", "don't", "WE'LL", "it's", "naïve", "straße", "Ωmega", "привет", "日本語", "한국어", "مرحبا", "ไทย"]
DIGITS = ["0", "42", "1234567", "3.14159", "1e-9", "٣٤", "Ⅷ", "x²", "½ cup", "007", "12,345.67", "v2.13.0"]
SPACES = [" ", "  ", "\t", "\n", "\n\n", " \n ", "\r\n", "a  b", "a   b    c", "  lead", "trail  ", "\u00a0nbsp", "\u3000wide"]
EMOJI = ["🎉", "👩‍👩‍👧", "🇩🇪", "👍🏽", "a🎉b", "☃", "🤷‍♀️ ok", "❤️", "🧪🧪🧪"]
SIGNS = ["!?", "...", "—", "«quote»", "$100", "50%", "#tag", "@you", "a_b", "C++", "x=y", "(a)[b]{c}", "~`^|", "\\n", "'s 'S", "''"]
CODE = ["def f(x):\n    return x ** 2\n", "<div class=\"a\">\n\t<p>hi</p>\n</div>", "if(a&&b){c++;}", "SELECT * FROM t WHERE a='b';"]
SPECIAL = ["<|im_start|>user\nHi<|im_end|>\n", "<|endoftext|>", "a<|im_end|>b", "<|im_end|> <|im_end|>", "<|im_end", "<repo_name>x"]
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
    single = [*WORDS, *DIGITS, *SPACES, *EMOJI, *SIGNS, *CODE, *SPECIAL, *PROSE]
    kinds = [WORDS, DIGITS, SPACES, EMOJI, SIGNS, CODE, SPECIAL]
    pairs = [f"{a[i % len(a)]}{glue}{b[i % len(b)]}" for glue in ("", " ") for i, a in enumerate(kinds) for b in kinds]
    return list(dict.fromkeys([*single, *pairs, " ".join(PROSE), "".join(WORDS + DIGITS + EMOJI)]))


def vocabulary_with(pre: str, reader: gguf.GGUFReader, path: Path) -> None:
    """A GGUF file without tensors: the reader's vocabulary under another pre-tokenizer."""
    writer = gguf.GGUFWriter(path, "llama")
    for name in ("block_count", "context_length", "embedding_length", "feed_forward_length"):
        writer.add_uint32(f"llama.{name}", reader.fields[f"llama.{name}"].contents())
    writer.add_head_count(reader.fields["llama.attention.head_count"].contents())
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(reader.fields["tokenizer.ggml.tokens"].contents())
    writer.add_token_types(reader.fields["tokenizer.ggml.token_type"].contents())
    writer.add_token_merges(reader.fields["tokenizer.ggml.merges"].contents())
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def main() -> None:
    reader = gguf.GGUFReader(sys.argv[1])
    texts = strings()
    ids: dict[str, list[list[int]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for pre in PRE_TOKENIZERS:
            path = Path(folder) / f"{pre}.gguf"
            vocabulary_with(pre, reader, path)
            model = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
            ids[pre] = [model.tokenize(text.encode(), add_bos=False, special=True) for text in texts]
    golden = {"llama_cpp_python": llama_cpp.__version__, "texts": texts, "ids": ids}
    Path(__file__).with_name("tokens.json").write_text(json.dumps(golden, ensure_ascii=False))


if __name__ == "__main__":
    main()

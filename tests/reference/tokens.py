"""Writes goldens/tokenizer/ and goldens/tokens.safetensors: small vocabularies, and what Hugging Face tokenizers, tiktoken and
SentencePiece make of odd texts. See README.md.

The vocabularies are trained on the project's own guides. CASE.text is UTF-8, u8[n]; CASE.gpt2, CASE.tiktoken, CASE.unigram and
CASE.bpe are its ids, i32[k].
"""
import base64
import io
import json
import pathlib
import random
import unicodedata

import numpy
import sentencepiece
import tiktoken
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

SEED = 29
GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
END = "<|endoftext|>"
here = pathlib.Path(__file__).parent
folder = here / "goldens" / "tokenizer"
folder.mkdir(exist_ok=True)
documents = [path.read_text() for path in sorted((here.parent.parent / "docs" / "guide").glob("*.md"))][:12]


def byte_characters():
    """GPT-2's character of each byte (encoder.py)."""
    itself = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in itself]
    return {**{byte: chr(byte) for byte in itself}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


def train_gpt2():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator([*documents, "naïve café 東京 東京 東京 😀😀 😀😀 don't we'll they've I'm"], trainer)
    vocabulary = tokenizer.get_vocab()
    merges = [tuple(merge) for merge in json.loads(tokenizer.to_str())["model"]["merges"]]
    vocabulary[END] = len(vocabulary)
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    loaded = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    loaded.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return loaded, merges


def make_tiktoken(merges):
    byte_of = {character: byte for byte, character in byte_characters().items()}
    tokens = [bytes([byte_of[character]]) for character in byte_characters().values()]
    tokens += [bytes(byte_of[c] for c in a + b) for a, b in merges]
    # A word that no join makes, and one whose joins by rank end elsewhere.
    tokens += [b" xyzzyqj", b"qjqjqj", b"\xf0\x9f"]
    ranks = {token: rank for rank, token in enumerate(tokens)}
    assert len(ranks) == len(tokens)
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items()]
    (folder / "ranks.tiktoken").write_text("".join(lines))
    return tiktoken.Encoding("small", pat_str=GPT2, mergeable_ranks=ranks, special_tokens={})


def train_sentencepiece(kind, **options):
    model = io.BytesIO()
    lines = [line for document in documents for line in document.splitlines() if line]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, vocab_size=500, model_type=kind,
                                             normalization_rule_name="identity", minloglevel=2, num_threads=1, **options)
    (folder / f"{kind}.model").write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def random_text(draw, length):
    """Assigned characters of all planes, most of them Latin, with runs of white space."""
    space = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2005\u200a\u2028\u2029\u202f\u205f\u3000"
    text = []
    while len(text) < length:
        kind = draw.random()
        if kind < 0.5:
            text.append(chr(draw.randrange(0x20, 0x7F)))
        elif kind < 0.7:
            text += [draw.choice(space)] * draw.randrange(1, 4)
        else:
            character = chr(draw.randrange(0x80, 0x2FFFF) if kind < 0.8 else draw.randrange(0x80, 0x3000))
            if unicodedata.category(character) not in ("Cn", "Cs", "Co"):
                text.append(character)
    return "".join(text)


CASES = {
    "empty": "", "space": " ", "spaces": "     ", "newlines": "\n\n\n", "nul": "a\0b\0\0",
    "words": "Hello world, this is a residual stream.  Two spaces;   three.",
    "contractions": "I'm you're he's she'd we'll they've don't isn't 'twas 'S 'LL CAN'T I'M o'clock''s '''ll rock'n'roll",
    "quotes": "‘don’t’ “quoted” don’t it`s", "code": "for (int i = 0; i < 10; ++i) {\n\tx[i] += 0x1F;\n}\n\n\n  return;\r\n",
    "spaces_inside": "a  b   c    d     e\tf\t\tg \t h", "trailing": "ends with spaces   ", "leading": "   begins with them",
    "line_ends": "one \n two\n\n three\r\n\r\nfour \r", "digits": "1 12 123 1234 12345678901234567890 3.14e-10 1,000,000",
    "numbers": "Ⅷ ½ ٣٤٥ ²³ ①② ௧௨௩ 一二三 𝟘𝟙", "accents": "naïve café e\u0301a\u0300 ÄÖÜß Ångström",
    "cjk": "東京は日本の首都です。北京是中国的首都。서울은 대한민국의 수도이다.", "rtl": "مرحبا بالعالم שלום עולם",
    "emoji": "😀😀 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 ☺️ 🇯🇵🇩🇪", "combining": "\u0301alone Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L", "marks": "हिन्दी ไทย தமிழ்",
    "odd_spaces": "a\u00a0b\u2003c\u3000d\u1680e\u202ff\u205fg\u2028h\u2029i\x85j", "not_spaces": "a\u180eb\u200bc\ufeffd\u2060e\x1cf\x1dg\x1eh\x1fi",
    "special": f"text with {END} in it{END}", "symbols": "!@#$%^&*()_+-=[]{}|;':\",./<>?~` €£¥©®™ ∀∃∑∫ →⇒ ─│┌",
    "planes": "𐍈𐍉 𠜎𠜱 𝔘𝔫𝔦 \U0001F9D1\U0010FFFF", "long": "a" * 3000 + " " * 2000 + "1" * 500 + "ab" * 400 + "!" * 300,
    "long_words": "reparametrisation" * 60, "whole": "x xyzzyqj xyzzyqjx qjqjqj qjqjqjq", "mixed": "abc123def456 x2 2x _a_1 a_b",
}

draw = random.Random(SEED)
for i in range(24):
    CASES[f"random_{i}"] = random_text(draw, draw.randrange(1, 300))
CASES["guide"] = documents[3]
gpt2, merges = train_gpt2()
ranks = make_tiktoken(merges)
unigram = train_sentencepiece("unigram", byte_fallback=True)
bpe = train_sentencepiece("bpe")
tensors = {}
for name, text in CASES.items():
    tensors[f"{name}.text"] = numpy.frombuffer(text.encode(), numpy.uint8)
    for kind, ids in {"gpt2": gpt2.encode(text).ids, "tiktoken": ranks.encode_ordinary(text), "unigram": unigram.encode(text),
                      "bpe": bpe.encode(text)}.items():
        tensors[f"{name}.{kind}"] = numpy.array(ids, numpy.int32)
tensors = {name: tensor for name, tensor in tensors.items() if tensor.size > 0}  # nothing: no tensor
save_file(tensors, here / "goldens" / "tokens.safetensors", metadata={"seed": str(SEED)})

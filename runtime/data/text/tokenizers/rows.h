// The tokenizers that data.tokenizer names, each in its own file.
#pragma once

#include <memory>
#include <string>

#include "runtime/data/text/tokenizer.h"

namespace rewire::runtime {

std::unique_ptr<const Tokenizer> make_bytes(const std::string&);
std::unique_ptr<const Tokenizer> make_gpt2(const std::string& folder);
std::unique_ptr<const Tokenizer> make_tiktoken(const std::string& file);
std::unique_ptr<const Tokenizer> make_sentencepiece(const std::string& file);

}  // namespace rewire::runtime

// The program that tokenises texts by a SentencePiece model for `rewire`:
// runtime/data/text/tokenizers/sentencepiece starts it with a socket as its standard input. No user calls it.
#include <sentencepiece_processor.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/text/tokenizers/sentencepiece_pipe.h"

namespace {

namespace pipe = rewire::runtime::sentencepiece_pipe;

template <class Number>
void append(std::string& message, Number number) {
  message.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::string bad(const sentencepiece::util::Status& status) {
  return pipe::kBad + status.ToString();
}

std::string vocabulary_of(const sentencepiece::SentencePieceProcessor& processor) {
  std::string message(1, pipe::kGood);
  append(message, static_cast<std::int32_t>(processor.eos_id()));
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    const bool is_text = !processor.IsControl(id) && !processor.IsUnknown(id) && !processor.IsUnused(id);
    const std::string& piece = processor.IdToPiece(id);
    message += !is_text ? pipe::kNoText : processor.IsByte(id) ? pipe::kByte : pipe::kText;
    append(message, static_cast<std::uint32_t>(piece.size()));
    message += piece;
  }
  return message;
}

std::string ids_of(const sentencepiece::SentencePieceProcessor& processor, const std::string& text) {
  std::vector<int> ids;
  if (const auto status = processor.Encode(text, &ids); !status.ok()) return bad(status);
  std::string message(1, pipe::kGood);
  message.append(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int));
  return message;
}

}  // namespace

int main() {
  struct stat input{};
  if (::fstat(STDIN_FILENO, &input) != 0 || !S_ISSOCK(input.st_mode)) {
    std::fputs("sentencepiece-worker: started by rewire to tokenise text, and by nobody else\n", stderr);
    return 2;
  }
  // Linux ends this worker when its parent ends. If that was before this line, the socket is closed.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::optional<std::string> model = pipe::receive_message(STDIN_FILENO);
  if (!model) return 0;
  sentencepiece::SentencePieceProcessor processor;
  const auto status = processor.LoadFromSerializedProto(*model);
  if (!pipe::send_message(STDIN_FILENO, status.ok() ? vocabulary_of(processor) : bad(status)) || !status.ok())
    return 0;
  while (const std::optional<std::string> text = pipe::receive_message(STDIN_FILENO)) {
    if (!pipe::send_message(STDIN_FILENO, ids_of(processor, *text))) break;
  }
  return 0;
}

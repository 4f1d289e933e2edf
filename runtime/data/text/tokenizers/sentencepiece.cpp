// SentencePiece models (Kudo and Richardson 2018), by their own library in a process of its own
// (sentencepiece_pipe.h).
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>

#include "codegen/files/descriptor.h"
#include "codegen/files/digest.h"
#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/text/tokenizers/rows.h"
#include "runtime/data/text/tokenizers/sentencepiece_pipe.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

namespace pipe = sentencepiece_pipe;

constexpr std::size_t kMostModelBytes = std::size_t{1} << 28;

/// $REWIRE_SPM_WORKER, else ../libexec/rewire/sentencepiece-worker from the folder of this program.
std::string sentencepiece_program() {
  if (const char* chosen = std::getenv("REWIRE_SPM_WORKER"); chosen != nullptr) return chosen;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path().parent_path() / "libexec/rewire/sentencepiece-worker").string();
}

/// The worker. It ends with this object.
class SentencePieceProcess {
 public:
  SentencePieceProcess() {
    const std::string program = sentencepiece_program();
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) fail(program, errno);
    socket_ = codegen::Descriptor(ends[0]);
    const codegen::Descriptor other(ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, other.get(), STDIN_FILENO);
    // It writes what its answers say.
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    std::array<char*, 2> arguments = {const_cast<char*>(program.c_str()), nullptr};
    const int error = ::posix_spawn(&process_, program.c_str(), &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) fail(program, error);
  }
  ~SentencePieceProcess() {
    socket_.close();
    while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  SentencePieceProcess(const SentencePieceProcess&) = delete;
  SentencePieceProcess& operator=(const SentencePieceProcess&) = delete;

  /// Returns what follows kGood. Throws UserError that begins with `name` otherwise.
  std::string ask(std::string_view message, std::string_view name) const {
    std::optional<std::string> answer;
    if (pipe::send_message(socket_.get(), message)) answer = pipe::receive_message(socket_.get());
    if (!answer || answer->empty()) user_error("{}: the SentencePiece worker has ended", name);
    const bool is_good = answer->front() == pipe::kGood;
    answer->erase(0, 1);
    if (!is_good) user_error("{}: SentencePiece: {}", name, visible(*answer));
    return std::move(*answer);
  }

 private:
  [[noreturn]] static void fail(const std::string& program, int error) {
    user_error("cannot start {}, which reads SentencePiece models: {}", visible(program),
               std::generic_category().message(error));
  }

  codegen::Descriptor socket_;
  pid_t process_ = -1;
};

/// Returns a piece's text: U+2581 is a space, "<0x0A>" a byte.
std::string text_of_piece(std::string_view piece, bool is_byte) {
  constexpr std::string_view kSpace = "\xe2\x96\x81";
  constexpr std::size_t kByteDigits = 3;  // after "<0x"
  if (is_byte) {
    unsigned byte = 0;
    if (piece.size() > kByteDigits)
      std::from_chars(piece.data() + kByteDigits, piece.data() + piece.size(), byte, 16);
    return std::string(1, static_cast<char>(byte));
  }
  std::string text;
  while (!piece.empty()) {
    const bool is_space = piece.starts_with(kSpace);
    text += is_space ? ' ' : piece.front();
    piece.remove_prefix(is_space ? kSpace.size() : 1);
  }
  return text;
}

class SentencePieces final : public Tokenizer {
 public:
  explicit SentencePieces(const std::string& file) {
    const std::vector<std::byte> model = read_file(file, kMostModelBytes);
    digest_ = codegen::digest_hex(model);
    const std::string answer =
        process_.ask({reinterpret_cast<const char*>(model.data()), model.size()}, visible(file));
    std::string_view rest = answer;
    const auto take = [&rest](auto& number) {
      std::memcpy(&number, rest.data(), sizeof number);
      rest.remove_prefix(sizeof number);
    };
    take(end_);
    while (!rest.empty()) {
      char kind = 0;
      std::uint32_t length = 0;
      take(kind);
      take(length);
      const std::string_view piece = rest.substr(0, length);
      rest.remove_prefix(length);
      texts_.push_back(kind == pipe::kNoText ? "" : text_of_piece(piece, kind == pipe::kByte));
    }
  }
  std::int64_t vocabulary() const override { return std::ssize(texts_); }
  std::int32_t end() const override { return end_; }
  void encode(std::string_view text, std::string_view name, const TakeTokens& take) const override {
    require_utf8(text, name);
    std::string answer;
    {
      const std::lock_guard lock(mutex_);
      answer = process_.ask(text, name);
    }
    if (answer.empty()) return;
    std::vector<std::int32_t> ids(answer.size() / sizeof(std::int32_t));
    std::memcpy(ids.data(), answer.data(), ids.size() * sizeof(std::int32_t));
    take(ids);
  }
  std::string_view text_of(std::int32_t id) const override {
    if (id < 0 || id >= vocabulary()) return {};
    return texts_[static_cast<std::size_t>(id)];
  }
  std::string digest() const override { return digest_; }

 private:
  mutable std::mutex mutex_;
  SentencePieceProcess process_;
  std::vector<std::string> texts_;
  std::string digest_;
  std::int32_t end_ = -1;
};

}  // namespace

std::unique_ptr<const Tokenizer> make_sentencepiece(const std::string& file) {
  return std::make_unique<SentencePieces>(file);
}

}  // namespace rewire::runtime

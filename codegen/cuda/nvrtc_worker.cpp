#include "codegen/cuda/nvrtc_worker.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <exception>

#include "ir/error.h"

namespace rewire::codegen::cuda {
namespace {

constexpr std::uint64_t kLongest = 1ULL << 30;

void put(std::string& bytes, std::uint64_t number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
}
void put(std::string& bytes, std::string_view text) {
  put(bytes, std::uint64_t{text.size()});
  bytes.append(text);
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  std::uint64_t number() {
    std::uint64_t number = 0;
    std::memcpy(&number, take(sizeof(number)).data(), sizeof(number));
    return number;
  }
  std::string text() { return std::string(take(number())); }
  void end() const {
    if (!left_.empty()) internal_error("an NVRTC worker's message is too long");
  }

 private:
  std::string_view take(std::uint64_t count) {
    if (count > left_.size()) internal_error("an NVRTC worker's message ends early");
    const std::string_view taken = left_.substr(0, static_cast<std::size_t>(count));
    left_.remove_prefix(static_cast<std::size_t>(count));
    return taken;
  }

  std::string_view left_;
};

/// Receives exactly `size` bytes. Returns false if the stream ends earlier.
bool receive_all(int socket, char* to, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::recv(socket, to, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

Answer answer_to(std::string_view text, int arch) {
  Answer answer;
  try {
    answer.compiled = try_compile(text, arch);
  } catch (const std::exception& error) {
    answer.failure = error.what();
  }
  return answer;
}

}  // namespace

std::string encode(const Hello& hello) {
  std::string bytes;
  put(bytes, hello.identity);
  put(bytes, hello.problem);
  return bytes;
}

std::string encode(const Answer& answer) {
  std::string bytes;
  put(bytes, std::uint64_t{answer.compiled.accepted ? 1U : 0U});
  put(bytes, answer.compiled.code);
  put(bytes, answer.compiled.log);
  put(bytes, answer.failure);
  return bytes;
}

Hello decode_hello(std::string_view bytes) {
  Reader reader(bytes);
  Hello hello;
  hello.identity = reader.text();
  hello.problem = reader.text();
  reader.end();
  return hello;
}

Answer decode_answer(std::string_view bytes) {
  Reader reader(bytes);
  Answer answer;
  answer.compiled.accepted = reader.number() != 0;
  answer.compiled.code = reader.text();
  answer.compiled.log = reader.text();
  answer.failure = reader.text();
  reader.end();
  return answer;
}

std::string framed(std::string_view message) {
  std::string bytes;
  put(bytes, message);
  return bytes;
}

std::optional<std::string> take_message(std::string& arrived) {
  std::uint64_t length = 0;
  if (arrived.size() < sizeof(length)) return std::nullopt;
  std::memcpy(&length, arrived.data(), sizeof(length));
  if (length > kLongest)
    internal_error("an NVRTC worker announced a message of {} bytes, more than it may have", length);
  const std::size_t end = sizeof(length) + static_cast<std::size_t>(length);
  if (arrived.size() < end) return std::nullopt;
  std::string message = arrived.substr(sizeof(length), end - sizeof(length));
  arrived.erase(0, end);
  return message;
}

bool send_message(int socket, std::string_view message) {
  const std::string bytes = framed(message);
  for (std::size_t sent = 0; sent < bytes.size();) {
    // If the peer has gone, send() returns an error and raises no signal (MSG_NOSIGNAL).
    const ssize_t count = ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

std::optional<std::string> receive_message(int socket) {
  std::uint64_t length = 0;
  if (!receive_all(socket, reinterpret_cast<char*>(&length), sizeof(length)) || length > kLongest)
    return std::nullopt;
  std::string message(static_cast<std::size_t>(length), '\0');
  if (!receive_all(socket, message.data(), message.size())) return std::nullopt;
  return message;
}

int serve_nvrtc(int socket, int arch) {
  Hello hello;
  try {
    hello.identity = cubin_identity(arch);
  } catch (const std::exception& error) {
    hello.problem = error.what();
  }
  if (!send_message(socket, encode(hello))) return 1;
  while (const std::optional<std::string> text = receive_message(socket)) {
    if (!send_message(socket, encode(answer_to(*text, arch)))) return 1;
  }
  return 0;
}

}  // namespace rewire::codegen::cuda

// Messages between a tokenizer and libexec/rewire/sentencepiece-worker, which is linked to SentencePiece. It is
// a process of its own because Debian's libsentencepiece exports an older protobuf than the one that Rewire
// is linked to: in one process, each library would call functions of the other's.
//
//   parent: the model's bytes
//   worker: kGood, the id that ends a text (int32, -1: none), and each piece: its kind, its length (uint32), its bytes
//   parent: a text             any number of times; the end of the stream ends the worker
//   worker: kGood and its ids (int32)
//
// An answer may also be kBad and a line of text. A message is its length, 8 bytes, and its bytes: both sides are
// of one build on one machine.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rewire::runtime::sentencepiece_pipe {

inline constexpr char kGood = 'g', kBad = 'b';
/// The kinds of pieces: text, one byte as "<0x0A>", and what is no text.
inline constexpr char kText = 't', kByte = 'x', kNoText = '-';

/// Sends or receives all bytes. Returns false if the other side is gone.
inline bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}
inline bool receive_all(int socket, char* to, std::size_t count) {
  while (count > 0) {
    const ssize_t got = ::recv(socket, to, count, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

inline bool send_message(int socket, std::string_view message) {
  const std::uint64_t length = message.size();
  return send_all(socket, {reinterpret_cast<const char*>(&length), sizeof length}) &&
         send_all(socket, message);
}
inline std::optional<std::string> receive_message(int socket) {
  std::uint64_t length = 0;
  if (!receive_all(socket, reinterpret_cast<char*>(&length), sizeof length)) return std::nullopt;
  std::string message(length, '\0');
  if (!receive_all(socket, message.data(), message.size())) return std::nullopt;
  return message;
}

}  // namespace rewire::runtime::sentencepiece_pipe

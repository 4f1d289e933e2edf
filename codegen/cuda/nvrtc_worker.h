// Runs NVRTC in processes of its own, since within one process it compiles one text at a time, whatever the
// threads. This is the worker's side and the messages on its socket; codegen/cuda/nvrtc_workers.h has the
// other side. A worker is a separate program, cli/nvrtc_worker, that only runs serve_nvrtc().
//
//   worker: Hello      first, once
//   parent: a text     one at a time; the end of the stream ends the worker
//   worker: Answer     to each
//
// A message is its length, 8 bytes, and its bytes: both sides are of one build on one machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "codegen/cuda/nvrtc.h"

namespace rewire::codegen::cuda {

/// A worker's compiler. The parent refuses a worker that would give other bytes than the parent itself.
struct Hello {
  std::string identity;  // as cubin_identity()
  std::string problem;   // why this worker cannot compile; "": it can
};

struct Answer {
  Compiled compiled;
  std::string failure;  // why NVRTC gave no answer about the text
};

std::string encode(const Hello& hello);
std::string encode(const Answer& answer);
/// Decodes a message. Throws InternalError if the bytes are no such message.
Hello decode_hello(std::string_view bytes);
Answer decode_answer(std::string_view bytes);

/// Returns a message with its length before it.
std::string framed(std::string_view message);
/// Takes one whole message from the front of the received bytes; nullopt: it is not complete yet. Throws
/// InternalError if the length is impossible.
std::optional<std::string> take_message(std::string& arrived);

/// Sends or receives a whole message, whatever signals and the kernel's buffers cut it into. Returns false
/// or nullopt if the other side is gone.
bool send_message(int socket, std::string_view message);
std::optional<std::string> receive_message(int socket);

/// Runs a worker: answers the texts that come over `socket` until it ends. Returns the exit code.
int serve_nvrtc(int socket, int arch);

}  // namespace rewire::codegen::cuda

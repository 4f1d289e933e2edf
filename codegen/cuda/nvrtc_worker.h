// NVRTC in processes of their own: inside one process it compiles one text at a time, whatever the threads.
// This is the worker's side and what it says over its socket; codegen/cuda/nvrtc_workers.h has the other
// side. A worker is a program of its own, cli/nvrtc_worker, that does nothing but serve_nvrtc().
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

/// What a worker compiles with. The parent takes none that would give other bytes than itself.
struct Hello {
  std::string identity;  // as cubin_identity()
  std::string problem;   // why this worker can compile nothing; "": it can
};

struct Answer {
  Compiled compiled;
  std::string failure;  // where NVRTC gave no answer about the text
};

std::string encode(const Hello& hello);
std::string encode(const Answer& answer);
/// InternalError if the bytes are no such message.
Hello decode_hello(std::string_view bytes);
Answer decode_answer(std::string_view bytes);

/// The length that stands before a message's bytes.
std::string framed(std::string_view message);
/// Takes one whole message from the front of what has arrived; nullopt: it is not whole yet. InternalError on
/// a length that no message has.
std::optional<std::string> take_message(std::string& arrived);

/// Writes and reads everything, whatever signals and the kernel's buffers cut it into; false, nullopt: the
/// other side has gone.
bool send_message(int socket, std::string_view message);
std::optional<std::string> receive_message(int socket);

/// A worker's life: answers what comes over `socket` until nothing more comes. Returns the exit code.
int serve_nvrtc(int socket, int arch);

}  // namespace rewire::codegen::cuda

#include "runtime/device/cuda/nccl.h"

#include <fmt/format.h>

#include "codegen/cuda/shared_library.h"
#include "ir/error.h"
#include "runtime/device/log.h"

namespace rewire::runtime::cuda {
namespace {

using Handle = void*;
constexpr int kFloat32 = 7, kInProgress = 7;

/// ncclUniqueId, which is passed by value.
struct UniqueId {
  std::array<std::byte, 128> bytes;
};

struct Nccl {
  codegen::cuda::SharedLibrary file{codegen::cuda::kNccl};
  int (*get_version)(int*) = nullptr;
  const char* (*get_error_string)(int) = nullptr;
  const char* (*get_last_error)(Handle) = nullptr;
  int (*get_unique_id)(UniqueId*) = nullptr;
  int (*comm_init_rank)(Handle*, int, UniqueId, int) = nullptr;
  int (*comm_destroy)(Handle) = nullptr;
  int (*comm_get_async_error)(Handle, int*) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*send)(const void*, std::size_t, int, int, Handle, void*) = nullptr;
  int (*recv)(void*, std::size_t, int, int, Handle, void*) = nullptr;

  Nccl() {
    file.find(get_version, "ncclGetVersion");
    file.find(get_error_string, "ncclGetErrorString");
    file.find(get_last_error, "ncclGetLastError");
    file.find(get_unique_id, "ncclGetUniqueId");
    file.find(comm_init_rank, "ncclCommInitRank");
    file.find(comm_destroy, "ncclCommDestroy");
    file.find(comm_get_async_error, "ncclCommGetAsyncError");
    file.find(group_start, "ncclGroupStart");
    file.find(group_end, "ncclGroupEnd");
    file.find(send, "ncclSend");
    file.find(recv, "ncclRecv");
  }
};

using Library = codegen::cuda::Loaded<Nccl>;

std::string words_of(int status, Handle handle) {
  const Nccl& nccl = Library::any();
  const char* more = nccl.get_last_error(handle);
  std::string text = nccl.get_error_string(status);
  if (more != nullptr && *more != '\0') text += std::string("; ") + more;
  return one_line(text);
}

void require(int status, const char* call, Handle handle = nullptr) {
  if (status != 0) throw RuntimeFailure(fmt::format("{}: {}", call, words_of(status, handle)));
}

void* pointer(Address address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

}  // namespace

std::optional<std::string> nccl_missing() {
  return Library::any().file.missing();
}

const codegen::cuda::SharedLibrary& nccl_file() {
  return Library::any().file;
}

std::string nccl_version() {
  int version = 0;
  require(Library::usable().get_version(&version), "ncclGetVersion");
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Communicator::Id Communicator::new_id() {
  UniqueId id{};
  require(Library::usable().get_unique_id(&id), "ncclGetUniqueId");
  return id.bytes;
}

Communicator::Communicator(const Id& id, int rank, int size) {
  require(Library::usable().comm_init_rank(&handle_, size, UniqueId{id}, rank), "ncclCommInitRank");
}

Communicator::~Communicator() {
  if (const int status = Library::any().comm_destroy(handle_); status != 0)
    write_log(LogLevel::warning, fmt::format("ncclCommDestroy: {}", words_of(status, nullptr)));
}

void Communicator::exchange(std::span<const Exchange> parts, int partner, const Stream& stream) const {
  const Nccl& nccl = Library::usable();
  require(nccl.group_start(), "ncclGroupStart", handle_);
  for (const Exchange& part : parts) {
    if (part.numbers_out > 0)
      require(nccl.send(pointer(part.out), static_cast<std::size_t>(part.numbers_out), kFloat32, partner,
                        handle_, stream.handle()),
              "ncclSend", handle_);
    if (part.numbers_in > 0)
      require(nccl.recv(pointer(part.in), static_cast<std::size_t>(part.numbers_in), kFloat32, partner,
                        handle_, stream.handle()),
              "ncclRecv", handle_);
  }
  require(nccl.group_end(), "ncclGroupEnd", handle_);
}

std::optional<std::string> Communicator::failure() const {
  int status = 0;
  if (const int call = Library::usable().comm_get_async_error(handle_, &status); call != 0) status = call;
  if (status == 0 || status == kInProgress) return std::nullopt;
  return words_of(status, handle_);
}

}  // namespace rewire::runtime::cuda

// The ABI of NCCL: communicators of several processes of this machine, whose messages are files in a folder that the
// unique id names. What is sent in a group is read before anything is received, when the stream comes to it. Two ranks
// on one device, a message of another size, and memory that is not of the device are faults.
// REWIRE_FAKE_NCCL=lost:3 in the environment of a rank: its third exchange never ends; error:3: and NCCL says so.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ir/error.h"
#include "tests/fake_cuda/machine.h"
#include "tests/fake_cuda/objects.h"
#include "tests/fake_cuda/stream.h"

namespace rewire::fake_cuda {
namespace {

namespace fs = std::filesystem;

enum NcclResult : int {
  kNcclGood = 0,
  kNcclInternal = 3,
  kNcclInvalidArgument = 4,
  kNcclInvalidUsage = 5,
  kNcclRemoteError = 6
};
constexpr int kFloat32 = 7;
constexpr auto kLongest = std::chrono::seconds(60);

struct UniqueId {
  unsigned char bytes[128];
};

struct Communicator {
  fs::path folder;
  int rank = 0, size = 1;
  std::map<int, int> sent, received;  // messages, by the other rank
  int exchanges = 0;
};

/// A message of the group that is being described.
struct Message {
  bool is_sent;
  void* memory;
  std::size_t bytes;
  int peer;
  void *communicator, *stream;
};

Objects<Communicator>& communicators() {
  static Objects<Communicator> all("nccl communicator");
  return all;
}
std::optional<std::vector<Message>> group;
std::string last_error;
std::atomic<int> lost_connection = 0;

/// True for the exchange that $REWIRE_FAKE_NCCL names.
bool is_lost(int exchange) {
  const char* const text = std::getenv("REWIRE_FAKE_NCCL");
  const std::string_view wish = text == nullptr ? "" : text;
  for (const char* const how : {"lost", "error"}) {
    if (wish != fmt::format("{}:{}", how, exchange)) continue;
    if (wish.starts_with("error")) lost_connection = kNcclRemoteError;
    return true;
  }
  return false;
}

int refuse_nccl(const char* call, int result, const std::string& why) {
  last_error = why;
  fault(std::string(call) + ": " + why);
  return result;
}

void write_whole(const fs::path& file, const void* bytes, std::size_t size) {
  const fs::path part = file.string() + ".part";
  std::ofstream(part, std::ios::binary)
      .write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
  fs::rename(part, file);
}

/// Waits for a file, and returns its bytes.
std::string awaited(const fs::path& file) {
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  while (!fs::exists(file)) {
    if (std::chrono::steady_clock::now() > deadline)
      throw RuntimeFailure(fmt::format("NCCL: nothing came as {}", file.filename().string()));
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

fs::path message(const Communicator& communicator, int from, int to, int number) {
  return communicator.folder / fmt::format("{}-{}-{}", from, to, number);
}

void require_on_device(const Message& part) {
  if (device_bytes_at(part.memory) < part.bytes)
    throw RuntimeFailure("NCCL: a buffer does not lie within an allocation of the device");
}

void exchange(Communicator& communicator, const std::vector<Message>& parts) {
  if (is_lost(++communicator.exchanges)) awaited(communicator.folder / "lost");
  for (const Message& part : parts) {
    require_on_device(part);
    if (part.is_sent)
      write_whole(message(communicator, communicator.rank, part.peer, communicator.sent[part.peer]++),
                  part.memory, part.bytes);
  }
  for (const Message& part : parts) {
    if (part.is_sent) continue;
    const fs::path file =
        message(communicator, part.peer, communicator.rank, communicator.received[part.peer]++);
    const std::string bytes = awaited(file);
    if (bytes.size() != part.bytes)
      throw RuntimeFailure(
          fmt::format("NCCL: {} bytes were sent and {} are received", bytes.size(), part.bytes));
    std::memcpy(part.memory, bytes.data(), bytes.size());
    fs::remove(file);
  }
  World::get().check_guards("an exchange by NCCL");
}

int add_message(const char* call, bool is_sent, void* memory, std::size_t count, int type, int peer,
                void* communicator, void* stream) {
  const std::lock_guard lock(World::get().mutex);
  if (const int result = enter(call); result != kNcclGood) return result;
  const Communicator* found = communicators().find(communicator);
  if (found == nullptr) return kNcclInvalidArgument;
  if (!group)
    return refuse_nccl(call, kNcclInvalidUsage, "outside of a group two ranks would wait for each other");
  if (type != kFloat32 || peer < 0 || peer >= found->size || peer == found->rank)
    return refuse_nccl(call, kNcclInvalidArgument, "the fake sends f32 to other ranks alone");
  group->push_back({is_sent, memory, count * sizeof(float), peer, communicator, stream});
  return kNcclGood;
}

bool overlap(const std::vector<Message>& parts) {
  for (const Message& in : parts) {
    if (in.is_sent) continue;
    for (const Message& other : parts) {
      const auto *a = static_cast<const char*>(in.memory), *b = static_cast<const char*>(other.memory);
      if (&in != &other && a < b + other.bytes && b < a + in.bytes) return true;
    }
  }
  return false;
}

}  // namespace

REWIRE_FAKE_API int ncclGetVersion(int* version) {
  *version = machine().nccl;
  return kNcclGood;
}
REWIRE_FAKE_API const char* ncclGetErrorString(int) {
  return "an error of the fake NCCL";
}
REWIRE_FAKE_API const char* ncclGetLastError(void*) {
  return last_error.c_str();
}

REWIRE_FAKE_API int ncclGetUniqueId(UniqueId* id) {
  const std::lock_guard lock(World::get().mutex);
  if (const int result = enter("ncclGetUniqueId"); result != kNcclGood) return result;
  std::random_device random;
  for (unsigned char& byte : id->bytes) byte = static_cast<unsigned char>(random());
  return kNcclGood;
}

REWIRE_FAKE_API int ncclCommInitRank(void** communicator, int size, UniqueId id, int rank) {
  static constexpr const char* kCall = "ncclCommInitRank";
  const std::lock_guard lock(World::get().mutex);
  if (const int result = enter(kCall); result != kNcclGood) return result;
  if (World::get().context_uses == 0) return refuse_nccl(kCall, kNcclInvalidUsage, "there is no context");
  std::string name = "rewire-fake-nccl-";
  for (int i = 0; i < 16; ++i) name += fmt::format("{:02x}", id.bytes[i]);
  Communicator made{fs::temp_directory_path() / name, rank, size, {}, {}};
  fs::create_directories(made.folder);
  const std::string device = std::to_string(World::get().device);
  write_whole(made.folder / fmt::format("joined-{}", rank), device.data(), device.size());
  for (int other = 0; other < size; ++other) {
    if (awaited(made.folder / fmt::format("joined-{}", other)) == device && other != rank)
      return refuse_nccl(kCall, kNcclInvalidUsage,
                         fmt::format("ranks {} and {} are on one GPU", rank, other));
  }
  *communicator = communicators().make(std::move(made));
  return kNcclGood;
}

REWIRE_FAKE_API int ncclCommDestroy(void* communicator) {
  const std::lock_guard lock(World::get().mutex);
  const int result = enter("ncclCommDestroy");
  World::get().run_all();
  const Communicator* found = communicators().find(communicator);
  if (found == nullptr) return kNcclInvalidArgument;
  write_whole(found->folder / fmt::format("left-{}", found->rank), "", 0);
  // The real one may wait for the others, too.
  for (int rank = 0; rank < found->size; ++rank) awaited(found->folder / fmt::format("left-{}", rank));
  write_whole(found->folder / fmt::format("gone-{}", found->rank), "", 0);
  bool all_gone = true;
  for (int rank = 0; rank < found->size; ++rank)
    all_gone = all_gone && fs::exists(found->folder / fmt::format("gone-{}", rank));
  std::error_code ignored;
  if (all_gone) fs::remove_all(found->folder, ignored);
  communicators().destroy(communicator);
  return result;
}

/// It may be asked while the device works, so it takes no lock.
REWIRE_FAKE_API int ncclCommGetAsyncError(void*, int* status) {
  *status = lost_connection;
  return kNcclGood;
}

REWIRE_FAKE_API int ncclGroupStart() {
  const std::lock_guard lock(World::get().mutex);
  if (const int result = enter("ncclGroupStart"); result != kNcclGood) return result;
  if (group) return refuse_nccl("ncclGroupStart", kNcclInvalidUsage, "the fake has no groups in groups");
  group.emplace();
  return kNcclGood;
}

REWIRE_FAKE_API int ncclGroupEnd() {
  static constexpr const char* kCall = "ncclGroupEnd";
  const std::lock_guard lock(World::get().mutex);
  if (const int result = enter(kCall); result != kNcclGood) return result;
  if (!group) return refuse_nccl(kCall, kNcclInvalidUsage, "no group was begun");
  const std::vector<Message> parts = *std::exchange(group, std::nullopt);
  if (parts.empty()) return kNcclGood;
  const auto is_other = [&](const Message& part) {
    return part.communicator != parts.front().communicator || part.stream != parts.front().stream;
  };
  if (std::ranges::any_of(parts, is_other))
    return refuse_nccl(kCall, kNcclInvalidUsage,
                       "the fake takes one communicator and one stream for a group");
  if (overlap(parts))
    return refuse_nccl(kCall, kNcclInvalidUsage, "what is received overlaps with another buffer");
  Communicator* communicator = communicators().find(parts.front().communicator);
  const int status =
      enqueue(parts.front().stream, kCall, [communicator, parts] { exchange(*communicator, parts); });
  return status == 0 ? kNcclGood : refuse_nccl(kCall, kNcclInternal, "the stream takes no work");
}

REWIRE_FAKE_API int ncclSend(const void* memory, std::size_t count, int type, int peer, void* communicator,
                             void* stream) {
  return add_message("ncclSend", true, const_cast<void*>(memory), count, type, peer, communicator, stream);
}
REWIRE_FAKE_API int ncclRecv(void* memory, std::size_t count, int type, int peer, void* communicator,
                             void* stream) {
  return add_message("ncclRecv", false, memory, count, type, peer, communicator, stream);
}

}  // namespace rewire::fake_cuda

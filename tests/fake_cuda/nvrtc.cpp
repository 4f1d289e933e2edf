// The ABI of NVRTC: the machine code it gives is the text itself, once its kernels have been found
// (kernels.h).
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "tests/fake_cuda/abi.h"
#include "tests/fake_cuda/machine.h"

namespace rewire::fake_cuda {
namespace {

enum NvrtcStatus : int { kGood = 0, kInvalidProgram = 4, kInvalidOption = 5, kCompilation = 6 };

struct Text {
  std::string text, image, log;
};

/// What a compiler says of the first "#error", where "#line 1 FILE" has named the file; "": there is none.
std::string first_error(const std::string& text) {
  const std::size_t error = text.find("\n#error");
  const std::string mark = "#line 1 \"";
  const std::size_t line = error == std::string::npos ? error : text.rfind(mark, error);
  if (line == std::string::npos) return "";
  const std::size_t name = line + mark.size();
  const auto begin = text.begin() + static_cast<std::ptrdiff_t>(line);
  const auto number = std::count(begin, text.begin() + static_cast<std::ptrdiff_t>(error) + 1, '\n');
  return text.substr(name, text.find('"', name) - name) + "(" + std::to_string(number) +
         "): error: #error directive\n1 error detected in the compilation of \"rewire.cu\".\n";
}

int hand_out(const char* call, void* program, const std::string Text::* field, std::size_t* size, char* to) {
  const std::lock_guard lock(World::get().mutex);
  if (const int status = enter(call); status != kGood) return status;
  if (program == nullptr) return kInvalidProgram;
  const std::string& text = static_cast<const Text*>(program)->*field;
  const std::size_t bytes = text.size() + (field == &Text::image ? 0 : 1);
  if (size != nullptr) *size = bytes;
  if (to != nullptr) std::memcpy(to, text.c_str(), bytes);
  return kGood;
}

}  // namespace

REWIRE_FAKE_API int nvrtcVersion(int* major, int* minor) {
  *major = machine().nvrtc_major;
  *minor = machine().nvrtc_minor;
  return kGood;
}
REWIRE_FAKE_API int nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(machine().archs.size());
  return kGood;
}
REWIRE_FAKE_API int nvrtcGetSupportedArchs(int* archs) {
  std::ranges::copy(machine().archs, archs);
  return kGood;
}
REWIRE_FAKE_API const char* nvrtcGetErrorString(int status) {
  return status == kGood ? "NVRTC_SUCCESS" : "NVRTC_ERROR of the fake library";
}

REWIRE_FAKE_API int nvrtcCreateProgram(void** program, const char* text, const char*, int, const char* const*,
                                       const char* const*) {
  const std::lock_guard lock(World::get().mutex);
  if (const int status = enter("nvrtcCreateProgram"); status != kGood) return status;
  *program = new Text{text, "", ""};
  return kGood;
}
REWIRE_FAKE_API int nvrtcDestroyProgram(void** program) {
  delete static_cast<Text*>(*program);
  *program = nullptr;
  return kGood;
}
REWIRE_FAKE_API int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  const std::lock_guard lock(World::get().mutex);
  if (const int status = enter("nvrtcCompileProgram"); status != kGood) return status;
  for (int i = 0; i < count; ++i) {
    if (!std::string(options[i]).starts_with("--")) return kInvalidOption;
  }
  Text& text = *static_cast<Text*>(program);
  if (const std::string error = first_error(text.text); !error.empty()) {
    text.log = error;
    return kCompilation;
  }
  if (parse_module(text.text) == nullptr) {
    text.log = "the fake NVRTC takes a text of the prelude and kernels";
    return kCompilation;
  }
  text.image = to_image(text.text);
  return kGood;
}

REWIRE_FAKE_API int nvrtcGetProgramLogSize(void* program, std::size_t* size) {
  return hand_out("nvrtcGetProgramLogSize", program, &Text::log, size, nullptr);
}
REWIRE_FAKE_API int nvrtcGetProgramLog(void* program, char* to) {
  return hand_out("nvrtcGetProgramLog", program, &Text::log, nullptr, to);
}
REWIRE_FAKE_API int nvrtcGetCUBINSize(void* program, std::size_t* size) {
  return hand_out("nvrtcGetCUBINSize", program, &Text::image, size, nullptr);
}
REWIRE_FAKE_API int nvrtcGetCUBIN(void* program, char* to) {
  return hand_out("nvrtcGetCUBIN", program, &Text::image, nullptr, to);
}
REWIRE_FAKE_API int nvrtcGetPTXSize(void* program, std::size_t* size) {
  return hand_out("nvrtcGetPTXSize", program, &Text::text, size, nullptr);
}
REWIRE_FAKE_API int nvrtcGetPTX(void* program, char* to) {
  return hand_out("nvrtcGetPTX", program, &Text::text, nullptr, to);
}

}  // namespace rewire::fake_cuda

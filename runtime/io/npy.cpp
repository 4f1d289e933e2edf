// Reads and writes .npy: the magic, a version, the length of a Python dictionary literal, that literal, then
// the elements. A small parser of our own reads only the forms of the literal that NumPy writes.
#include "runtime/io/npy.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "codegen/files/descriptor.h"
#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

using ir::DType;

constexpr std::string_view kMagic = "\x93NUMPY";

struct Descr {
  std::string_view text;
  DType dtype;
};
constexpr std::array<Descr, 7> kDescrs = {{{"<f8", DType::f64},
                                           {"<f4", DType::f32},
                                           {"<f2", DType::f16},
                                           {"<i8", DType::i64},
                                           {"<i4", DType::i32},
                                           {"|u1", DType::u8},
                                           {"|b1", DType::i1}}};

struct Header {
  std::string descr;
  bool fortran_order = false;
  ir::Shape shape;
};

/// Parses "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }": the keys in any order, each once.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& file_name) : text_(text), file_name_(file_name) {}

  Header parse() {
    Header header;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !descr) {
        if (peek() == '[') fail("a structured dtype; save each field as its own array");
        header.descr = string();
        descr = true;
      } else if (key == "fortran_order" && !order) {
        header.fortran_order = boolean();
        order = true;
      } else if (key == "shape" && !shape) {
        header.shape = tuple();
        shape = true;
      } else {
        fail(fmt::format("an unknown or repeated key '{}'", printable(key)));
      }
      if (!accept(',') && peek() != '}') fail("no ',' or '}' after a value");
    }
    skip_space();
    if (!text_.empty()) fail("text after the closing '}'");
    if (!descr || !order || !shape) fail("not all of 'descr', 'fortran_order' and 'shape'");
    return header;
  }

 private:
  [[noreturn]] void fail(std::string_view fault) const {
    user_error("{}: not a readable .npy file: the header has {}", file_name_, fault);
  }

  void skip_space() {
    const std::size_t start = text_.find_first_not_of(" \t\n");
    text_.remove_prefix(std::min(start, text_.size()));
  }
  char peek() {
    skip_space();
    return text_.empty() ? '\0' : text_.front();
  }
  bool accept(char character) {
    if (peek() != character) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char character) {
    if (!accept(character)) fail(fmt::format("no '{}' where one is required", character));
  }

  std::string string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail("no string where one is required");
    const std::size_t end = text_.find(quote, 1);
    if (end == std::string_view::npos) fail("an unterminated string");
    std::string value(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return value;
  }

  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (text_.starts_with(word)) {
        text_.remove_prefix(word.size());
        return value;
      }
    }
    fail("a 'fortran_order' that is neither True nor False");
  }

  ir::Shape tuple() {
    ir::Shape shape;
    expect('(');
    while (!accept(')')) {
      skip_space();
      std::int64_t extent = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), extent);
      if (error != std::errc()) fail("a 'shape' that is not a tuple of integers");
      if (extent < 1) fail(fmt::format("the extent {} in 'shape'; extents must be 1 or more", extent));
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      shape.push_back(extent);
      if (!accept(',') && peek() != ')') fail("no ',' or ')' after an extent");
    }
    return shape;
  }

  std::string_view text_;
  const std::string& file_name_;
};

/// Returns the header's text, and moves `bytes` on to the elements.
std::string_view take_header(std::span<const std::byte>& bytes, const std::string& file_name) {
  const auto* data = reinterpret_cast<const char*>(bytes.data());
  const std::string_view text(data, bytes.size());
  if (!text.starts_with(kMagic))
    user_error("{}: not a .npy file: it does not begin with \\x93NUMPY", file_name);
  const std::size_t preamble = kMagic.size() + 2;
  if (text.size() < preamble) user_error("{}: truncated .npy file: {} bytes", file_name, text.size());
  const int major = static_cast<unsigned char>(text[6]);
  const int minor = static_cast<unsigned char>(text[7]);
  if (major < 1 || major > 3 || minor != 0) {
    user_error("{}: .npy version {}.{} is not supported; use 1.0, 2.0 or 3.0", file_name, major, minor);
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  if (text.size() < preamble + length_bytes) {
    user_error("{}: truncated .npy file: {} bytes", file_name, text.size());
  }
  std::uint32_t length = 0;
  std::memcpy(&length, data + preamble, length_bytes);
  const std::size_t start = preamble + length_bytes;
  if (length > text.size() - start) {
    user_error("{}: truncated .npy file: its header has {} bytes, but {} are left in the file", file_name,
               length, text.size() - start);
  }
  bytes = bytes.subspan(start + length);
  return text.substr(start, length);
}

std::optional<std::size_t> checked_bytes(DType dtype, const ir::Shape& shape) {
  std::size_t bytes = ir::dtype_bytes(dtype);
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes)) return std::nullopt;
  }
  return bytes;
}

std::string header_text(std::string_view descr, const ir::Shape& shape) {
  const std::string_view comma = shape.size() == 1 ? "," : "";
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr,
                                 fmt::join(shape, ", "), comma);
  // NumPy leaves room for axis 0 to grow to 21 digits in place. So do we, to write the same bytes.
  constexpr std::size_t kGrowthDigits = 21;
  if (!shape.empty()) text.append(kGrowthDigits - fmt::format("{}", shape[0]).size(), ' ');
  return text;
}

void check_c_order(const Header& header, const std::string& file_name) {
  if (!header.fortran_order) return;
  user_error("{}: the array is in Fortran order; save numpy.ascontiguousarray(array)", file_name);
}

/// Returns the type of the array after the header, as the header states it.
ir::TensorType array_type(std::string_view header_text, const std::string& file_name) {
  Header header = HeaderParser(header_text, file_name).parse();
  const auto found = std::ranges::find(kDescrs, header.descr, &Descr::text);
  if (found == kDescrs.end()) {
    user_error("{}: dtype '{}' is not supported; save as <f8 <f4 <f2 <i8 <i4 |u1 or |b1", file_name,
               printable(header.descr));
  }
  check_c_order(header, file_name);
  return {found->dtype, std::move(header.shape)};
}

void check_size(const ir::TensorType& type, std::size_t there, const std::string& file_name) {
  const std::optional<std::size_t> size = checked_bytes(type.dtype, type.shape);
  if (size == there) return;
  user_error("{}: {} of shape ({}) takes {} bytes, but {} follow the header", file_name,
             std::ranges::find(kDescrs, type.dtype, &Descr::dtype)->text,
             printable(fmt::format("{}", fmt::join(type.shape, ", "))),
             size ? std::to_string(*size) : "more than 2^64", there);
}

void make_truths(HostTensor& tensor) {
  if (tensor.type().dtype != DType::i1) return;
  for (std::uint8_t& truth : tensor.as<std::uint8_t>()) truth = truth != 0 ? 1 : 0;
}

}  // namespace

HostTensor parse_npy(std::span<const std::byte> bytes, const std::string& file_name) {
  const ir::TensorType type = array_type(take_header(bytes, file_name), file_name);
  check_size(type, bytes.size(), file_name);
  HostTensor tensor(type);
  std::memcpy(tensor.bytes().data(), bytes.data(), bytes.size());
  make_truths(tensor);
  return tensor;
}

NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& file_name) {
  std::span<const std::byte> rest = bytes;
  Header header = HeaderParser(take_header(rest, file_name), file_name).parse();
  check_c_order(header, file_name);
  return {std::move(header.descr), std::move(header.shape), bytes.size() - rest.size()};
}

struct NpyRows::File {
  std::string path;
  codegen::Descriptor file;
  std::size_t first = 0;  // byte of the elements
  struct timespec changed{};
  std::int64_t count = 0;
  ir::TensorType row;

  std::size_t read(std::size_t offset, std::span<std::byte> out) const {
    std::size_t done = 0;
    while (done < out.size()) {
      const ssize_t got =
          ::pread(file.get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) user_error("cannot read {}: {}", path, std::generic_category().message(errno));
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }
};

NpyRows::NpyRows(const std::string& path) {
  constexpr std::size_t kMostHeaderBytes = std::size_t{1} << 20;  // NumPy itself reads no longer one
  auto opened = std::make_unique<File>();
  opened->path = visible(path);
  opened->file = codegen::Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (opened->file.get() < 0 || ::fstat(opened->file.get(), &status) != 0)
    user_error("cannot read {}: {}", opened->path, std::generic_category().message(errno));
  if (!S_ISREG(status.st_mode)) user_error("{}: it is not a regular file", opened->path);
  std::vector<std::byte> head(std::min(kMostHeaderBytes, static_cast<std::size_t>(status.st_size)));
  head.resize(opened->read(0, head));
  std::span<const std::byte> rest = head;
  ir::TensorType type = array_type(take_header(rest, opened->path), opened->path);
  opened->first = head.size() - rest.size();
  check_size(type, static_cast<std::size_t>(status.st_size) - opened->first, opened->path);
  if (type.shape.empty()) user_error("{}: it is one number, not an array of rows", opened->path);
  if (type.dtype == DType::i1) user_error("{}: rows of truth values are not supported", opened->path);
  opened->changed = status.st_mtim;
  opened->count = type.shape.front();
  type.shape.erase(type.shape.begin());
  opened->row = std::move(type);
  file_ = std::move(opened);
}

NpyRows::~NpyRows() = default;

std::int64_t NpyRows::count() const {
  return file_->count;
}

const ir::TensorType& NpyRows::type() const {
  return file_->row;
}

void NpyRows::read(std::int64_t index, std::span<std::byte> out) const {
  struct stat now{};
  const bool is_same = ::fstat(file_->file.get(), &now) == 0 && now.st_mtim.tv_sec == file_->changed.tv_sec &&
                       now.st_mtim.tv_nsec == file_->changed.tv_nsec;
  if (!is_same || file_->read(file_->first + static_cast<std::size_t>(index) * out.size(), out) != out.size())
    user_error("{}: the file has changed since it was opened: run the command again", file_->path);
}

HostTensor read_npy(const FilePlace& place) {
  return parse_npy(read_file(place), place.path());
}

void write_npy(const std::string& path, const HostTensor& tensor) {
  if (tensor.type().dtype == DType::bf16) {
    write_npy(path, convert(tensor, DType::f32));
    return;
  }
  std::string_view descr;
  for (const Descr& candidate : kDescrs) {
    if (candidate.dtype == tensor.type().dtype) descr = candidate.text;
  }
  std::string header = header_text(descr, tensor.type().shape);
  // Magic, version and length take 10 bytes; the elements begin at a multiple of 64, after a newline.
  constexpr std::size_t kPreamble = 10, kAlignment = 64;
  const std::size_t unpadded = kPreamble + header.size() + 1;
  header.append(kAlignment - unpadded % kAlignment, ' ');  // a whole 64 where none were needed, as NumPy
  header += '\n';
  if (header.size() > 0xffff) user_error("cannot write {}: rank {} is too high", path, tensor.type().rank());
  const auto length = static_cast<std::uint16_t>(header.size());
  std::string preamble(kMagic);
  preamble += {'\x01', '\x00', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  AtomicFile file(path);
  const std::string start = preamble + header;
  file.write(std::as_bytes(std::span(start.data(), start.size())));
  file.write(tensor.bytes());
  file.commit();
}

}  // namespace rewire::runtime

// .npy: the same bytes as NumPy writes, and one clear message for every fault.
#include <cstring>

#include "ir/error.h"
#include "runtime/io/files.h"
#include "runtime/io/npy.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

using namespace std::string_literals;
using ir::DType;
using test::message_of;
using test::TemporaryFolder;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

HostTensor parse(const std::string& text) {
  return parse_npy(bytes_of(text), "x.npy");
}

std::string message(const std::string& text) {
  return message_of<UserError>([&] { parse(text); });
}

/// A version 1.0 file with this header literal.
std::string file_with(const std::string& header, const std::string& data = "") {
  return "\x93NUMPY\x01\x00"s + static_cast<char>(header.size() & 0xff) +
         static_cast<char>(header.size() >> 8) + header + data;
}

// Written by numpy 2.4.6: numpy.save of [[1.5, -2, 3.25], [0, 1e-3, 7]] as <f4, [True, False, True], and -5
// as <i8.
const std::string kMatrix =
    "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"s +
    std::string(58, ' ') +
    "\n\x00\x00\xc0\x3f\x00\x00\x00\xc0\x00\x00\x50\x40\x00\x00\x00\x00\x6f\x12\x83\x3a\x00\x00\xe0\x40"s;
const std::string kTruths =
    "\x93NUMPY\x01\x00v\x00{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }"s +
    std::string(60, ' ') + "\n\x01\x00\x01"s;
const std::string kScalar = "\x93NUMPY\x01\x00v\x00{'descr': '<i8', 'fortran_order': False, 'shape': (), }"s +
                            std::string(62, ' ') + "\n\xfb\xff\xff\xff\xff\xff\xff\xff"s;

TEST_CASE("A file that NumPy wrote is read, and written back byte for byte") {
  const HostTensor matrix = parse(kMatrix);
  CHECK(matrix.type() == ir::TensorType{DType::f32, {2, 3}});
  CHECK(to_double(matrix).data == std::vector<double>{1.5, -2, 3.25, 0, double{1e-3f}, 7});
  const HostTensor truths = parse(kTruths);
  CHECK(truths.type() == ir::TensorType{DType::i1, {3}});
  CHECK(to_double(truths).data == std::vector<double>{1, 0, 1});
  const HostTensor scalar = parse(kScalar);
  CHECK(scalar.type() == ir::TensorType{DType::i64, {}});
  CHECK(scalar.as<std::int64_t>()[0] == -5);

  const TemporaryFolder folder;
  const std::string path = folder.file("y.npy");
  for (const std::string* golden : {&kMatrix, &kTruths, &kScalar}) {
    write_npy(path, parse(*golden));
    const std::vector<std::byte> written = read_file(path);
    CHECK(std::string(reinterpret_cast<const char*>(written.data()), written.size()) == *golden);
  }
}

TEST_CASE("Every dtype makes the round trip through .npy; bf16 becomes f4") {
  const TemporaryFolder folder;
  const std::string path = folder.file("y.npy");
  for (const DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::i64, DType::i32, DType::u8, DType::i1, DType::bf16}) {
    const HostTensor tensor = to_host(ir::Tensor({dtype, {1, 3, 1}}, {0, 1, 1}));
    write_npy(path, tensor);
    const HostTensor back = read_npy(path);
    CHECK(back.type() == ir::TensorType{dtype == DType::bf16 ? DType::f32 : dtype, {1, 3, 1}});
    CHECK(to_double(back).data == to_double(tensor).data);
  }
}

TEST_CASE("Versions 2.0 and 3.0, other key orders and quotes are read") {
  const std::string header = R"({"shape":(2,),"fortran_order":False,"descr":"|u1"})";
  CHECK(parse(file_with(header, "ab")).as<std::uint8_t>()[1] == 'b');
  for (const char version : {'\x02', '\x03'}) {
    const std::string text =
        "\x93NUMPY"s + version + '\0' + static_cast<char>(header.size()) + "\0\0\0"s + header;
    CHECK(parse(text + "ab").type() == ir::TensorType{DType::u8, {2}});
  }
}

TEST_CASE("A truth value other than 0 and 1 is read as true") {
  CHECK(parse(file_with("{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", "\x07\x00"s))
            .as<std::uint8_t>()[0] == 1);
}

TEST_CASE("A file that is no .npy, or of a version to come, is refused") {
  CHECK(message("") == "x.npy: not a .npy file: it does not begin with \\x93NUMPY");
  CHECK(message("PK\x03\x04 a zip file") == "x.npy: not a .npy file: it does not begin with \\x93NUMPY");
  CHECK(message("\x93NUMPY") == "x.npy: truncated .npy file: 6 bytes");
  CHECK(message("\x93NUMPY\x01\x00\x10"s) == "x.npy: truncated .npy file: 9 bytes");
  CHECK(message("\x93NUMPY\x04\x00"s) == "x.npy: .npy version 4.0 is not supported; use 1.0, 2.0 or 3.0");
  CHECK(message("\x93NUMPY\x01\x00\x10\x00{}"s) ==
        "x.npy: truncated .npy file: its header has 16 bytes, but 2 are left in the file");
  CHECK(message("\x93NUMPY\x02\x00\xff\xff\xff\xff{}"s) ==
        "x.npy: truncated .npy file: its header has 4294967295 bytes, but 2 are left in the file");
}

TEST_CASE("Every truncation of a good .npy file is refused") {
  for (std::size_t size = 0; size < kMatrix.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(parse(kMatrix.substr(0, size)), UserError);
  }
  CHECK(message(kMatrix + "x") == "x.npy: <f4 of shape (2, 3) takes 24 bytes, but 25 follow the header");
}

TEST_CASE("Each fault of the header is named") {
  const auto fault = [](const std::string& header) { return message(file_with(header)); };
  const std::string start = "x.npy: not a readable .npy file: the header has ";
  CHECK(fault("") == start + "no '{' where one is required");
  CHECK(fault("{}") == start + "not all of 'descr', 'fortran_order' and 'shape'");
  CHECK(fault("{'descr': '<f4', 'shape': ()}") == start + "not all of 'descr', 'fortran_order' and 'shape'");
  CHECK(fault("{'descr': '<f4', 'descr': '<f8'}") == start + "an unknown or repeated key 'descr'");
  CHECK(fault("{'colour': 1}") == start + "an unknown or repeated key 'colour'");
  CHECK(fault("{'descr' '<f4'}") == start + "no ':' where one is required");
  CHECK(fault("{'descr': '<f4' 'shape': ()}") == start + "no ',' or '}' after a value");
  CHECK(fault("{'descr': '<f4") == start + "an unterminated string");
  CHECK(fault("{'descr': 4}") == start + "no string where one is required");
  CHECK(fault("{'descr': [('r', '<f4')]}") == start + "a structured dtype; save each field as its own array");
  CHECK(fault("{'fortran_order': None}") == start + "a 'fortran_order' that is neither True nor False");
  CHECK(fault("{'shape': 3}") == start + "no '(' where one is required");
  CHECK(fault("{'shape': (a,)}") == start + "a 'shape' that is not a tuple of integers");
  CHECK(fault("{'shape': (3 4)}") == start + "no ',' or ')' after an extent");
  CHECK(fault("{'shape': (99999999999999999999,)}") == start + "a 'shape' that is not a tuple of integers");
  CHECK(fault("{'shape': (2, 0)}") == start + "the extent 0 in 'shape'; extents must be 1 or more");
  CHECK(fault("{'shape': (-1,)}") == start + "the extent -1 in 'shape'; extents must be 1 or more");
  CHECK(fault("{'descr': '<f4', 'fortran_order': False, 'shape': ()} x") ==
        start + "text after the closing '}'");
}

TEST_CASE("Types, orders and sizes that cannot be read are refused before anything is allocated") {
  const auto fault = [](const std::string& descr, const std::string& order, const std::string& shape) {
    return message(
        file_with("{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + "}"));
  };
  CHECK(fault(">f4", "False", "(1,)") ==
        "x.npy: dtype '>f4' is not supported; save as <f8 <f4 <f2 <i8 <i4 |u1 or |b1");
  CHECK(fault("|O", "False", "(1,)") ==
        "x.npy: dtype '|O' is not supported; save as <f8 <f4 <f2 <i8 <i4 |u1 or |b1");
  CHECK(fault("<f4", "True", "(2, 2)") ==
        "x.npy: the array is in Fortran order; save numpy.ascontiguousarray(array)");
  CHECK(fault("<f4", "False", "(1099511627776,)") ==
        "x.npy: <f4 of shape (1099511627776) takes 4398046511104 bytes, but 0 follow the header");
  CHECK(fault("<f4", "False", "(4611686018427387904,)") ==
        "x.npy: <f4 of shape (4611686018427387904) takes more than 2^64 bytes, but 0 follow the header");
}

}  // namespace
}  // namespace rewire::runtime

// A .npy file in the place of a batch of images.
#include "tests/hostile/cases.h"
#include "tests/hostile/families.h"
#include "tests/hostile/good.h"

namespace rewire::test {
namespace {

constexpr std::size_t kImageBytes = std::size_t{3} * 28 * 28 * 4;

std::string header(const std::string& descr, const std::string& shape, const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': (" + shape + "), }\n";
}

}  // namespace

void add_npy_cases(std::vector<Case>& cases) {
  const std::string file = "x.npy", kShape = "3, 1, 28, 28";
  Table table(cases, "npy",
              Words{"run"} + kModel +
                  Words{"--weights", good().file("w.safetensors"), "--input", "@/x.npy", "--output",
                        "@/out.npy", "--quiet"},
              {copy(good().file("x.npy"), file)});
  table.row("sound", {}, fine());
  const Expectation no = refused("@/x.npy");
  add_odd_files(table, file, Origin::command_line, no);
  add_lost_links(table, file, no);
  const std::string sound = good().bytes(file);
  add_cuts(table, file, sound.size(), 12, no);
  // The magic, the version and the length of the header.
  add_flips(table, file, 0, 10, 10, no);

  const auto bytes = [&](const std::string& what, std::string content) {
    table.row(what, {put(file, std::move(content))}, no);
  };
  for (const char* descr : {"<f16", ">f4", "<c8", "<U4", "|O", "|V4", "<M8[ns]", "f4", "", "<f", "4",
                            "<f4<f4", "<f99999999999999999999", "\x1b[2J"})
    bytes(std::string("of the type '") + descr + "'", npy_bytes(header(descr, kShape), kImageBytes));
  for (const char* shape : {"",
                            "3",
                            "3, 1, 28",
                            "3, 1, 28, 28, 1",
                            "3, 1, 28, 29",
                            "0, 1, 28, 28",
                            "-3, 1, 28, 28",
                            "3, 1, 28, -28",
                            "4294967296, 4294967296, 1, 1",
                            "9223372036854775807",
                            "18446744073709551616, 1, 28, 28",
                            "9223372036854775807, 2, 1, 1",
                            "3.0, 1, 28, 28",
                            "3, 1, 28, x",
                            "(3, 1), 28, 28",
                            "3 1 28 28",
                            "3,, 1, 28, 28",
                            "True, 1, 28, 28",
                            "1e3, 1, 28, 28",
                            "0x3, 1, 28, 28"})
    bytes(std::string("of the shape (") + shape + ")", npy_bytes(header("<f4", shape), kImageBytes));
  bytes("of a hundred thousand axes", npy_bytes(header("<f4",
                                                       [] {
                                                         std::string ones;
                                                         for (int i = 0; i < 20'000; ++i) ones += "1,";
                                                         return ones;
                                                       }()),
                                                4));
  bytes("in Fortran order", npy_bytes(header("<f4", kShape, "True"), kImageBytes));
  bytes("in an order that is no truth", npy_bytes(header("<f4", kShape, "Maybe"), kImageBytes));
  for (const char* text : {"", "{}", "{", "}", "{'descr': '<f4'}", "{'descr': '<f4', 'shape': (3,1,28,28)}",
                           "{'fortran_order': False, 'shape': (3,1,28,28)}", "['descr']", "None",
                           "{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': (3,1,28,28)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (3,1,28,28), 'more': 1}",
                           "{'descr': ('<f4',), 'fortran_order': False, 'shape': (3,1,28,28)}",
                           "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,1,28,28)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': [3,1,28,28]}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (3,1,28,28)} more",
                           "{'descr: '<f4', 'fortran_order': False, 'shape': (3,1,28,28)}"})
    bytes(std::string("with the header ") + text, npy_bytes(text, kImageBytes));
  bytes("with a header of brackets",
        npy_bytes("{'descr': " + std::string(60'000, '(') + ", 'fortran_order': False}", kImageBytes));
  bytes("with zeros in the header",
        npy_bytes(std::string("{'descr': '<f4\0', 'fortran_order': False, 'shape': (3,1,28,28)}", 65),
                  kImageBytes));
  bytes("of version 9", "\x93NUMPY\x09" + sound.substr(7));
  bytes("of version 2 with a header of 4 GB",
        std::string("\x93NUMPY\x02\0", 8) + little_endian(0xffffffff, 4) + sound.substr(10));
  table.row("with bytes behind it", {extend(file, "x")}, no);
  table.row("twice in one file", {extend(file, sound)}, no);
}

}  // namespace rewire::test

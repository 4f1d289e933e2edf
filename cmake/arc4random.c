// arc4random for REWIRE_BUNDLE: LLVM and libstdc++ call it, but the C library has it only since 2.36. Its numbers name temporary
// files and seed std::random_device.
#include <stdint.h>
#include <sys/random.h>

uint32_t arc4random(void) {
  uint32_t value;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}

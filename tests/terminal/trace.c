/* A library that leaves a trace where any of its code runs: the file $REWIRE_TRACE. It is no plugin that can be used. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void leave_trace(void) {
  const char* file = getenv("REWIRE_TRACE");
  if (file != NULL) close(open(file, O_WRONLY | O_CREAT, 0600));
}

__attribute__((visibility("default"))) const void* rewire_plugin_query(unsigned version) {
  (void)version;
  return NULL;
}

/* A library whose paths are at fault: tests/floors/library_paths.cmake. */
int rewire_library_path(void) { return 0; }

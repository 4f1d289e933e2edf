// Here for its precompiled header, precompiled.h, alone.
int main() {
  return 0;
}

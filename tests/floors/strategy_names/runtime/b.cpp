// decay is fine.
const char* path = "plugins/decay/decay.cpp";

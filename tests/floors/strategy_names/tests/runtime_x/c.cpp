// So is peculiarity.
const char* spec = "decay:alpha=1";

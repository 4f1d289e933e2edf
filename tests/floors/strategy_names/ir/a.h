// A word of the field is none: weight decay, {"decay", true}.
// But the peculiar strategy is one.

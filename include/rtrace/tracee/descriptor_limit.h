#pragma once

namespace rtrace::tracee {

// As many descriptors as this process may ask for (RLIMIT_NOFILE, getrlimit(2)), for one is kept open for
// each process that is traced. What it begins itself inherits that.
void raise_descriptor_limit();

// Whether enough are left, `newest` being open, for what is opened and closed again while processes are
// traced, and to undo what was changed in them. A new one has the lowest number that is free (open(2)).
bool leaves_descriptors(int newest);

}  // namespace rtrace::tracee

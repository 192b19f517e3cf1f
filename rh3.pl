use POSIX; $|=1; sigaction(SIGTRAP, POSIX::SigAction->new(sub {print "H\n"}, POSIX::SigSet->new, 0)); getppid() for 1..5000; kill TRAP=>$$; print "after\n";

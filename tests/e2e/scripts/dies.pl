# dies.pl COUNT: dies under sort, under calls, and inside the interpreter itself, COUNT times each.
use strict;
use warnings;

$| = 1;
print "pid $$\n";
<STDIN>;
my $count = shift;
my ($caught, $divided, $nested) = (0, 0, 0);

sub deep {
  my ($levels, $text) = @_;
  return $levels ? deep($levels - 1, $text) : die "$text\n";
}

for my $i (1 .. $count) {
  eval { my @sorted = sort { deep(2, "e$i") } 3, 1, 2; 1 } or $caught += $@ eq "e$i\n";
  eval { my $quotient = $i / ($i - $i); 1 } or $divided += $@ =~ /division by zero/;
  eval { eval { die "inner\n" }; die "outer $@" } ; $nested += $@ eq "outer inner\n";
}
print "caught $caught divided $divided nested $nested\n";
print "Perl_die_sv ", 3 * $count, " 0\n", "Perl_die $count 0\n", "Perl_die_unwind ", 4 * $count, " 0\n";

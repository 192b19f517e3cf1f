# perl.pl SOCKET COUNT WHEN: COUNT times a slow query and a numbered one, through DBI and DBD::mysql.
#
# WHEN says what waits for a line on standard input: "load" the loading of the extension, "query" the first
# query, "never" nothing. Each numbered query that has been answered is told on standard output.
use strict;
use warnings;

my ($socket, $count, $when) = @ARGV;
$| = 1;

sub hold {
    my ($point) = @_;
    return if $point ne $when;
    print "holding before $point\n";
    my $line = <STDIN>;
    return;
}

print "pid $$\n";
hold('load');
require DBI;
my $db = DBI->connect("DBI:mysql:mysql_socket=$socket", 'rtrace', '', { RaiseError => 1 });
hold('query');
for my $number (1 .. $count) {
    my ($slept) = $db->selectrow_array('SELECT SLEEP(0.2)');
    die "the sleep was cut short\n" if $slept != 0;
    my $rows = $db->selectall_arrayref(
        "/* $number */ SELECT table_name FROM information_schema.tables LIMIT 3");
    die "not three rows\n" if @$rows != 3;
    print "answered $number\n";
}
print 'queries ', 2 * $count, "\n";

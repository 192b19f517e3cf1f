# Something of most of what perl can do; it ends with status 7.
use strict; use warnings; use POSIX; use Data::Dumper; use List::Util qw(sum max first reduce shuffle);
use Scalar::Util qw(weaken blessed reftype); use Time::HiRes qw(time); use Digest::SHA qw(sha256_hex);
use Digest::MD5 qw(md5_hex); use Encode; use JSON::PP; use Storable qw(dclone freeze thaw); use Socket; use IO::Socket::INET;
use IO::Handle; use File::Temp; use Compress::Zlib; use threads; use threads::shared; use Thread::Queue; use Fcntl;
use Sys::Hostname; use IPC::Open3; use B; use re; use Math::BigInt; use Time::Local; use Unicode::Normalize;
use Hash::Util qw(lock_keys); use Tie::Hash; use attributes; use mro; use MIME::Base64; use List::Util 'pairs'; use DB_File ();
use File::Glob ':bsd_glob'; use I18N::Langinfo qw(langinfo CODESET); use PerlIO::scalar; use PerlIO::encoding; use SDBM_File;
use IPC::SysV;
$| = 1; $Data::Dumper::Sortkeys = 1; $Data::Dumper::Indent = 1;
print Dumper({a => [1, 2.5, undef], b => \"x"}), JSON::PP->new->canonical->encode({x => [1, {y => undef}]}), "\n";
print sha256_hex("x"), md5_hex("y"), " ", length(uncompress(compress("hello" x 1000))), "\n";
printf "%d %s %f %x %c %e %g %-10s| %+d %010.3f %% %vd %s %s %s %s\n", 1, "two", 3.0, 255, 99, 1e10, 1e-5, "left", 5, 3.14159, "1.22.333", 1, 2, 3, 4;
my $s = "hello world"; (my $t = $s) =~ s/o(.)?/uc($1 \/\/ "")/ge; print "$t\n"; print join("|", $s =~ /(\w)(\w+)/g), "\n";
print join(",", map { sprintf "%02x", $_ } unpack("C*", pack("nNv", 1, 2, 3))), "\n";
for my $code ('1/0', 'die { code => 5 }', 'undef->foo', 'my @a = (1) x -1;
$a[-9] = 1', 'syntax error here(', 'no_such(1)', 'use strict; $$x', 'require Nope::Nope', '"a" =~ /(/') { my $r = eval $code;
my $e = $@; $e = ref $e ? "ref $e->{code}\n" : $e; print "E: ", substr($e, 0, 60), "\n"; }
{ package Foo; sub new { bless {v => $_[1]}, $_[0] } sub v { $_[0]{v} } our $AUTOLOAD; sub AUTOLOAD { my $n = $AUTOLOAD;
return if $n =~ /DESTROY/;
"auto $n" } use overload '+' => sub { Foo->new($_[0]{v} + (ref $_[1] ? $_[1]{v} : $_[1])) }, '""' => sub { "Foo(" . $_[0]{v} . ")" }, '<=>' => sub { $_[0]{v} <=> $_[1]{v} };
}
my $f = Foo->new(3); print $f + 4, " ", $f->zork, " ", (sort { $a <=> $b } Foo->new(2), Foo->new(1))[0], "\n";
print sum(1 .. 100), " ", max(3, 9, 2), " ", (reduce { $a * $b } 1 .. 10), " ", (first { $_ > 3 } 1 .. 9), "\n";
my %h = map { $_ => length } qw(a bb ccc); print join(",", map { "$_=$h{$_}" } sort keys %h), "\n";
my @s = sort { $h{$a} <=> $h{$b} || $a cmp $b } keys %h; print "@s\n";
my $d = dclone({a => [1, 2, {b => 3}]}); print $d->{a}[2]{b}, " ", thaw(freeze([1, 2]))->[1], "\n";
my $q = Thread::Queue->new; my @t = map { my $n = $_; threads->create(sub { $q->enqueue($n * 2); return $n * 3 }) } 1 .. 3;
print join(",", sort map { $_->join } @t), " ", $q->pending, "\n";
my $shared :shared = 0; $_->join for map { threads->create(sub { for (1 .. 100) { lock $shared; $shared++ } }) } 1 .. 3;
print "$shared\n";
pipe(my $r, my $w); my $pid = fork; if (!$pid) { print $w "child\n"; close $w; POSIX::_exit(3) } close $w; print scalar <$r>;
waitpid $pid, 0; print $? >> 8, "\n";
print `echo sub`, system("exit 2") >> 8, "\n"; local $SIG{USR1} = sub { print "usr1\n" }; kill USR1 => $$;

print encode("UTF-8", "\x{e4}\x{263a}"), " ", length(decode("UTF-8", "\xc3\xa4")), " ", lc("ÄB"), " ", NFD("\x{e4}") eq "a\x{308}" ? "nfd" : "no", "\n";
print Math::BigInt->new(2)->bpow(100), " ", POSIX::floor(3.7), " ", POSIX::strftime("%A %j", gmtime(0)), " ", timegm(0, 0, 0, 1, 0, 100), " ", scalar(gmtime(0)), "\n";
my ($fh, $fn) = File::Temp::tempfile(UNLINK => 1); print $fh "line $_\n" for 1 .. 5; seek $fh, 0, 0; my @l = <$fh>;
print scalar(@l), " ", -s $fn, "\n"; open my $m, "<", \"in\nmemory\n"; print <$m>;
my $x = {}; $x->{self} = $x; weaken $x->{self}; print reftype($x), " ", defined blessed($f) ? 1 : 0, "\n"; local $_ = "tr";
tr/a-z/A-Z/; print "$_\n"; my @sorted = reverse sort { $a <=> $b } 10, 9, 100; print "@sorted\n";
my $srv = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1");
if (!fork) { my $c = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $srv->sockport); print $c "net\n"; close $c;
POSIX::_exit(0) } my $c = $srv->accept; print scalar <$c>; wait;
format STDOUT =
@<<<<< @>>>>> @##.##
"left", "right", 3.14159
.
write; print wantarray() ? 1 : 0, "\n"; sub ctx { wantarray ? "list" : defined(wantarray) ? "scalar" : "void" } my @c = ctx();
my $c2 = ctx(); print "@c $c2\n"; sub rec { my $n = shift; $n ? 1 + rec($n - 1) : 0 } { no warnings; print rec(500), "\n";
} my $str = ""; $str .= chr(65 + $_ % 26) for 1 .. 1000;
print length $str, " ", index($str, "XYZ"), " ", substr($str, 3, 5), "\n"; my @stack = (1 .. 10); splice @stack, 2, 3, "a", "b";
print "@stack\n"; print join(",", map { $_->[0] } sort { $a->[1] <=> $b->[1] } map { [$_, length] } qw(ccc a bb)), "\n";
print "sprintf: ", sprintf("%s %s", "a", "b"), " ", join(",", (1) x 3), " ", "abc" x 2, " ", "10" + 5, "\n"; goto END1;
print "no\n"; END1: print "label\n"; my $it = do { my $i = 0; sub { $i++ } }; $it->() for 1 .. 3; print $it->(), "\n";
tie my %tied, "Tie::StdHash"; $tied{a} = 1; print $tied{a}, "\n"; eval { local $SIG{__DIE__} = sub { print "handler: $_[0]" };
die "x\n" }; print encode_base64("abc"); chdir "/"; print getcwd(), " ", (stat "/")[2] ? 1 : 0, " ", (bsd_glob("/et*"))[0], "\n";
print "done\n"; exit 7;

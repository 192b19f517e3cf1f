<?php
// Something of most of what php can do; it ends with status 7.
echo json_encode(["a" => [1, 2.5, null, true]]), json_encode(json_decode('{"x":[1,{"y":null}]}')), "\n";
printf("%d %s %f %x %c %e %g %-10s| %+d %010.3f %% %s %s %s %s\n", 1, "two", 3.0, 255, 99, 1e10, 1e-5, "left", 5, 3.14159, 1, 2, 3, 4);
echo preg_replace_callback('/o(.)?/', fn($m) => strtoupper($m[1] ?? ""), "hello world"), " ", implode("|", preg_split('/[,;]/', "a,b;c")), "\n";
foreach (['intdiv(1,0)', '[][0] ?? throw new Exception("t")', 'undefined_f()', 'new DateTime("zzz")', '(function(int $a){})("x")', '1 +* 2', '$u->foo()', 'str_repeat("x", -1)', 'array_combine([1],[1,2])', 'random_int(5,1)'] as $c) try { eval("$c;");
echo "none\n"; } catch (Throwable $e) { echo get_class($e), " ", $e->getMessage(), "\n"; }
echo hash("sha256", "x"), md5("y"), crc32("z"), " ", strlen(gzuncompress(gzcompress(str_repeat("hello", 1000)))), "\n";
function gen() { try { for ($i = 0; $i < 3; $i++) { $x = yield $i => $i * 2; if ($x) echo "got $x\n"; } return 9;
} finally { echo "fin\n"; } } $g = gen(); foreach ($g as $k => $v) echo "$k=$v "; echo $g->getReturn(), "\n";
$f = new Fiber(function ($a) { $b = Fiber::suspend($a * 2); $c = Fiber::suspend($b * 3); return $c; });
echo $f->start(1), $f->resume(2), "\n"; $f->resume(5); echo $f->getReturn(), "\n";
abstract class A { abstract function f(); function __call($n, $a) { return "$n(" . implode(",", $a) . ")";
} static function __callStatic($n, $a) { return "s$n"; } function __get($n) { return "get $n";
} } class B extends A implements ArrayAccess, IteratorAggregate, Countable { private $d = [1, 2, 3];
function f() { return static::class; } function offsetExists(mixed $o): bool { return isset($this->d[$o]);
} function offsetGet(mixed $o): mixed { return $this->d[$o]; } function offsetSet(mixed $o, mixed $v): void { $this->d[$o] = $v;
} function offsetUnset(mixed $o): void { unset($this->d[$o]);
} function getIterator(): Iterator { return new ArrayIterator($this->d); } function count(): int { return count($this->d);
} function __destruct() { echo "destroyed\n"; } }
$b = new B; echo $b->f(), $b->zork(1, 2), B::st(), $b->prop, $b[1], count($b), implode(",", iterator_to_array($b)), "\n";
unset($b);
enum Suit: string { case H = "h"; case S = "s"; static function x() { return self::from("h");
} } echo Suit::x()->name, " ", Suit::tryFrom("q")?->name ?? "none", "\n";
$a = [3, 1, 2]; usort($a, fn($x, $y) => $y <=> $x);
echo implode(",", $a), " ", array_sum(array_map(fn($x) => $x ** 2, range(1, 10))), " ", implode(",", array_filter(range(1, 10), fn($x) => $x % 2)), "\n";
echo date("Y-m-d", 0), " ", (new DateTime("2024-02-29"))->modify("+1 year")->format("c"), " ", ucwords("a b"), " ", similar_text("World", "Word"), " ", levenshtein("a", "b"), " ", soundex("Robert"), " ", metaphone("Thompson"), "\n";
echo serialize(unserialize(serialize([1, "a" => new ArrayObject([1])]))), " ", var_export([1, 2.0, null], true), "\n";
$r = fopen("php://memory", "w+"); fwrite($r, "line1\nline2\n"); rewind($r); echo fgets($r), stream_get_contents($r);
file_put_contents($t = tempnam("/tmp", "x"), "data"); echo file_get_contents($t), filesize($t); unlink($t); echo "\n";
echo shell_exec("echo sub"), strlen(exec("echo abc")), "\n"; $p = proc_open("cat", [["pipe", "r"], ["pipe", "w"]], $pp);
fwrite($pp[0], "piped"); fclose($pp[0]); echo stream_get_contents($pp[1]), proc_close($p), "\n";
$s = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0); fwrite($s[0], "hi\n"); echo fgets($s[1]); echo "x\n";
echo (function () { static $n = 0; return ++$n;
})(), " ", array_reduce([1, 2, 3], fn($c, $i) => $c + $i), " ", str_pad("x", 5, "-", STR_PAD_BOTH), " ", number_format(1234567.891, 2), " ", PHP_INT_MAX + 1, " ", 0.1 + 0.2, " ", 7 <=> 3, "\n";
ob_start(); echo "buffered"; echo strtoupper(ob_get_clean()), "\n"; set_error_handler(fn($n, $m) => print("handled: $m\n"));
echo $undefined; $w = WeakReference::create($o = new stdClass); unset($o); var_dump($w->get());
echo (new ReflectionClass('B'))->getMethods()[0]->name, " ", gc_collect_cycles() >= 0, "\n";
function rec($n) { return $n ? 1 + rec($n - 1) : 0; } echo rec(5000), "\n";
echo match (true) { 1 > 2 => "a", default => "b" }, "\n"; register_shutdown_function(fn() => print("bye\n")); exit(7);

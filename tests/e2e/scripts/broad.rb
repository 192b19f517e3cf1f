# Something of most of what ruby can do; it ends with status 7.
require 'json'; require 'set'; require 'date'; require 'time'; require 'zlib'; require 'socket'; require 'digest';
require 'stringio'
require 'tempfile'; require 'open3'; require 'yaml'; require 'erb'; require 'bigdecimal'; require 'strscan'; require 'openssl';
require 'fiddle'; require 'ripper'; require 'etc'; require 'io/console'; require 'pathname'; require 'monitor';
require 'objspace'; require 'coverage'
S = Struct.new(:a, :b, :c, :d, :e, :f, :g, :h) 
s = S.new(1,2,3,4,5,6,7,8); puts s.inspect, s.to_h
T = Struct.new(:x, :y, keyword_init: true); p T.new(x: 1, y: 2)
puts JSON.generate({a: [1, 2.5, nil, true], "b" => "ü"}), JSON.parse('{"x":[1,{"y":null}]}').inspect
puts YAML.load({a: [1, {b: "c"}]}.to_yaml, permitted_classes: [Symbol]).inspect
puts Zlib::Inflate.inflate(Zlib::Deflate.deflate("hello" * 1000)).size, Digest::SHA256.hexdigest("x"), Digest::MD5.hexdigest("y")
puts OpenSSL::Digest::SHA512.hexdigest("z")[0, 20]
puts format("%d %s %f %x %p %c %e %g %-10s| %+d %010.3f %% %s %s %s %s %s", 1, "two", 3.0, 255, :sym, "c", 1e10, 1e-5, "left", 5, 3.14159, 1, 2, 3, 4, 5)
begin; raise ArgumentError, "bad #{1}"; rescue => e; puts e.message, e.backtrace.size; end
begin; Integer("zz"); rescue => e; puts e.message; end
begin; nil.foo; rescue NoMethodError => e; puts e.message; end
begin; [1,2].first(-1); rescue => e; puts e.message; end
begin; [].fetch(9); rescue => e; puts e.message; end
begin; eval("1 +* 2"); rescue SyntaxError => e; puts e.message.lines.size; end
def m(a, b = 2, *c, d:, e: 5, **f, &g) = [a, b, c, d, e, f, g&.call]
p m(1, d: 4), m(1, 2, 3, d: 4, z: 6) { 7 }
p [3,1,2].sort, [3,1,2].sort_by { -_1 }, (1..10).each_slice(3).to_a, %w[a b].zip([1,2]).to_h, [1,[2,[3]]].flatten
p "hello world".gsub(/o(.)?/) { $1.to_s.upcase }, "a,b;c".split(/[,;]/), "x".unpack("C*"), [1,2,3].pack("nNv"), "abc".tr('a-c', 'x-z'), "%05d" % 3
f = Fiber.new { |x| 3.times { |i| x = Fiber.yield(x * i) }; :done }
p f.resume(1), f.resume(2), f.resume(3), f.resume(4)
e = Enumerator.new { |y| 3.times { |i| y << i } }; p e.next, e.next, e.next, (e.next rescue "stop")
r = catch(:x) { 10.times { |i| throw :x, i if i == 5 } ; 0 }; p r
t = 4.times.map { |i| Thread.new { Thread.current[:x] = i; 100.times { Thread.pass }; i * 2 } }; p t.map(&:value)
q = Queue.new; c = Thread.new { a = []; while (x = q.pop) != :end; a << x; end; a }; 5.times { q << _1 }; q << :end; p c.value
mu = Mutex.new; n = 0; 4.times.map { Thread.new { 100.times { mu.synchronize { n += 1 } } } }.each(&:join); p n
rd, wr = IO.pipe; pid = fork { rd.close; wr.puts "child"; exit!(3) }; wr.close; puts rd.read; Process.wait(pid); p $?.exitstatus
o, st = Open3.capture2("cat", stdin_data: "piped"); p o, st.success?
p `echo sub`.chomp, system("true"), system("exit 2")
GC.start; GC.compact rescue 0; p ObjectSpace.count_objects.key?(:TOTAL)
p 2**200, 10.pow(50, 7), 1.0 / 3, Rational(1, 3), Complex(1, 2) * Complex(3, 4), BigDecimal("1.1") + BigDecimal("2.2"), 100.digits, 255.to_s(2)
p Date.new(2024, 2, 29).next_year.to_s, Time.at(0).utc.iso8601, Time.at(0).utc.strftime("%A %B %d %j")
p "äöü".encode("ISO-8859-1").bytes, "äöü".unicode_normalize(:nfd).size, "abc".force_encoding("BINARY").valid_encoding?
Signal.trap("USR1") { $got = true }; Process.kill("USR1", $$); Thread.pass until $got; p $got
class Foo; include Comparable; attr_accessor :v; def initialize(v) = @v = v; def <=>(o) = v <=> o.v;
def method_missing(n, *a) = [n, a]; def respond_to_missing?(*) = true; end
p Foo.new(1) < Foo.new(2), Foo.new(1).bar(2), [Foo.new(3), Foo.new(1)].min.v
module Ref; refine String do; def shout = upcase + "!"; end; end; using Ref; p "x".shout
case [1, [2, {k: 3}]]
  in [a, [b, {k:}]]
    p a, b, k
end
p ObjectSpace.each_object(Class).count > 100, ObjectSpace::WeakMap.new.size
ra = Ractor.new { Ractor.receive * 2 }; ra.send(21); p ra.take
p Marshal.load(Marshal.dump([1, "s", :y, 2.5, {a: 1}, s])), Ripper.sexp("1+1").size
sv = TCPServer.new("127.0.0.1", 0); th = Thread.new { c = sv.accept; c.puts "hi"; c.close };
puts TCPSocket.new("127.0.0.1", sv.addr[1]).read; th.join
p Process.clock_gettime(Process::CLOCK_MONOTONIC) > 0, Etc.getlogin.class, Dir.children("/proc/self/fd").size > 2
p binding.local_variables.size > 3, __method__.inspect, caller.size, ObjectSpace.memsize_of("x" * 1000) > 500
at_exit { puts "bye" }
exit 7

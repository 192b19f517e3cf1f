# gc.rb COUNT: prints its pid, waits for a line, collects COUNT times through rb_gc_start, called as C code does, and fails if
# the VM itself has counted fewer collections than that.
require 'fiddle'
$stdout.sync = true
collect = Fiddle::Function.new(Fiddle::Handle::DEFAULT['rb_gc_start'], [], Fiddle::TYPE_VOIDP)
puts "pid #{Process.pid}"
$stdin.gets
before = GC.count
Integer(ARGV[0]).times { collect.call }
abort "not collected" if GC.count - before < Integer(ARGV[0])
puts "collections #{ARGV[0]}"

# raises.rb COUNT: leaves the interpreter's functions by raise and throw, COUNT times each, and counts what it calls.
$stdout.sync = true
puts "pid #{$$}"
$stdin.gets
count = Integer(ARGV[0])
$each = [0, 0]

# Array#each is rb_ary_each; whether it comes back is known only afterwards.
def each(values, &block)
  $each[0] += 1
  values.each(&block)
  $each[1] += 1
end

caught = (1..count).count do |i|
  each([1, 2]) { each([3]) { raise ArgumentError, "e#{i}" } }
rescue ArgumentError => e
  e.message == "e#{i}"
end
refused = (1..count).count do
  Integer("zz")
rescue ArgumentError
  true
end
thrown = (1..count).sum { catch(:out) { each([1]) { throw :out, 1 } } }
puts "caught #{caught} refused #{refused} thrown #{thrown}"
puts "rb_ary_each #{$each[0]} #{$each[1]}", "rb_make_exception #{count} #{count}", "rb_catch_obj #{count} #{count}"
puts "rb_raise #{count} 0", "rb_exc_raise #{count} 0"

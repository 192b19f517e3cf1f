# fibers.rb COUNT: fibers that yield from within Array#each, resumed from within Array#each, in an order of their own.
$stdout.sync = true
puts "pid #{$$}"
$stdin.gets
count = Integer(ARGV[0])
each = resumes = yields = sum = 0
fibers = Array.new(7) do |number|
  Fiber.new do
    count.times do |round|
      each += 1
      [number, round].each do |value|
        yields += 1
        Fiber.yield(value)
      end
    end
    :done
  end
end
order = 1
until fibers.empty?
  order = (order * 1103515245 + 12345) & 0xffffffff
  fiber = fibers[(order >> 16) % fibers.size]
  value = nil
  each += 1
  [fiber].each do |one|
    resumes += 1
    value = one.resume
  end
  value == :done ? fibers.delete(fiber) : sum += value
end
puts "sum #{sum}"
puts "rb_ary_each #{each} #{each}", "rb_fiber_resume_kw #{resumes} #{resumes}", "rb_fiber_yield_kw #{yields} #{yields}"

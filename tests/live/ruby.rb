# ruby.rb SOCKET COUNT WHEN: COUNT times a slow query and a numbered one, through Sequel and mysql2.
#
# WHEN says what waits for a line on standard input: "load" the loading of the extension, "query" the first
# query, "never" nothing. Each numbered query that has been answered is told on standard output.
$stdout.sync = true
socket, count, @when = ARGV

def hold(point)
  return unless point == @when

  puts "holding before #{point}"
  $stdin.gets
end

puts "pid #{Process.pid}"
hold 'load'
require 'sequel'
db = Sequel.connect(adapter: 'mysql2', socket: socket, user: 'rtrace')
db.test_connection
hold 'query'
(1..count.to_i).each do |number|
  slept = db.fetch('SELECT SLEEP(0.2)').all
  abort 'the sleep was cut short' unless slept.first.values == [0]
  rows = db.fetch("/* #{number} */ SELECT table_name FROM information_schema.tables LIMIT 3").all
  abort 'not three rows' unless rows.size == 3
  puts "answered #{number}"
end
puts "queries #{2 * count.to_i}"

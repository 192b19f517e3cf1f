"""python.py SOCKET COUNT WHEN: COUNT times a slow query and a numbered one, through MySQLdb.

WHEN says what waits for a line on standard input: "load" the import of the extension, "query" the first
query, "never" nothing. Each numbered query that has been answered is told on standard output.
"""
import os
import sys


def hold(point, when):
    if point == when:
        print("holding before", point, flush=True)
        sys.stdin.readline()


socket, count, when = sys.argv[1], int(sys.argv[2]), sys.argv[3]
print("pid", os.getpid(), flush=True)
hold("load", when)
import MySQLdb  # noqa: E402  (loading it here is the point)

connection = MySQLdb.connect(unix_socket=socket, user="rtrace")
cursor = connection.cursor()
hold("query", when)
for number in range(1, count + 1):
    cursor.execute("SELECT SLEEP(0.2)")
    if cursor.fetchall() != ((0,),):
        sys.exit("the sleep was cut short")
    cursor.execute("/* %d */ SELECT table_name FROM information_schema.tables LIMIT 3" % number)
    if len(cursor.fetchall()) != 3:
        sys.exit("not three rows")
    print("answered", number, flush=True)
print("queries", 2 * count, flush=True)

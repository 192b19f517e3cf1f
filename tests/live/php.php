<?php
// php.php SOCKET COUNT WHEN: COUNT times a slow query and a numbered one, through mysqli.
//
// WHEN says what waits for a line on standard input: "load" the first connection (PHP has
// loaded its extensions before any script runs), "query" the first query, "never" nothing. Each numbered query that has been answered
// is told on standard output.
[, $socket, $count, $when] = $argv;

function hold(string $point, string $when): void
{
    if ($point === $when) {
        echo "holding before $point\n";
        fgets(STDIN);
    }
}

echo 'pid ', getmypid(), "\n";
hold('load', $when);
mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
$db = new mysqli('localhost', 'rtrace', '', '', 0, $socket);
hold('query', $when);
for ($number = 1; $number <= $count; $number++) {
    $slept = $db->query('SELECT SLEEP(0.2)')->fetch_row();
    if ($slept[0] != 0) {
        fwrite(STDERR, "the sleep was cut short\n");
        exit(1);
    }
    $rows = $db->query("/* $number */ SELECT table_name FROM information_schema.tables LIMIT 3")->fetch_all();
    if (count($rows) !== 3) {
        fwrite(STDERR, "not three rows\n");
        exit(1);
    }
    echo "answered $number\n";
}
echo 'queries ', 2 * $count, "\n";

// deflates.js N: compresses N buffers, and prints how long they are then. Without N: 100 for each line that it
// reads, and prints one.
const zlib = require('zlib');
function deflated(number) {
  const pieces = [];
  for (let i = 0; i < 200; i++) pieces.push('piece ' + i * number);
  return zlib.deflateSync(Buffer.from(pieces.join(' '))).length;
}
if (process.argv[2]) {
  for (let number = 0; number < Number(process.argv[2]); number++) console.log(deflated(number));
} else {
  process.stdin.on('data', () => {
    let all = 0;
    for (let number = 0; number < 100; number++) all += deflated(number);
    console.log(all);
  });
}

// Inside a peer's own environment: one command of one adapter, as run.py does it for Python.
// Packages are found from the folder that the place names, not from where this file lies.
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const PLACE = JSON.parse(process.env.PEERS_PLACE);
const WARM = 10;
const [adapterPath, command, ...words] = process.argv.slice(2);
const monotonic = () => Number(process.hrtime.bigint()) / 1e9;
const sleep = (s) => new Promise((resolve) => setTimeout(resolve, s * 1000));
const require = createRequire(path.join(PLACE.home, "from.js"));
const adapter = (await import(pathToFileURL(adapterPath))).default(require);

function makeHit() {
  const file = path.join(PLACE.counts, `${process.pid}.count`);
  const count = fs.openSync(file, "w");
  const waits = fs.openSync(file.replace(".count", ".waits"), "a");
  const bytes = Buffer.alloc(8);
  let hits = 0;
  let written = -1;
  setInterval(() => {
    if (hits === written) return;
    bytes.writeBigUInt64LE(BigInt((written = hits)));
    fs.writeSync(count, bytes, 0, 8, 0);
  }, 2);
  return (args) => {
    if (args.sent) fs.writeSync(waits, `${monotonic() - args.sent}\n`);
    hits += 1;
  };
}

function counted() {
  return fs
    .readdirSync(PLACE.counts)
    .filter((name) => name.endsWith(".count"))
    .map((name) => fs.readFileSync(path.join(PLACE.counts, name)))
    .reduce((all, bytes) => all + (bytes.length === 8 ? Number(bytes.readBigUInt64LE()) : 0), 0);
}

const args = (n, sent) => ({ ...PLACE.arguments, n, ...(sent ? { sent } : {}) });

async function enqueue(jobs) {
  const made = Array.from({ length: jobs }, (_, n) => args(n));
  const sender = await adapter.sender(PLACE);
  const began = monotonic();
  for (let first = 0; first < jobs; first += adapter.CHUNK) await sender.many(made.slice(first, first + adapter.CHUNK));
  const seconds = monotonic() - began;
  await sender.close();
  return { seconds };
}

async function send(jobs, perS) {
  const sender = await adapter.sender(PLACE);
  for (let n = 0; n < WARM; n += 1) await sender.one(args(n));
  const until = monotonic() + 60;
  while (counted() < WARM) {
    if (monotonic() > until) throw new Error(`${counted()} of the first ${WARM} jobs began within 60 s`);
    await sleep(0.05);
  }
  for (let n = 0; n < jobs; n += 1) {
    await sender.one(args(n, monotonic()));
    await sleep((0.5 + Math.random()) / perS);
  }
  await sender.close();
  return {};
}

if (command === "work") {
  await adapter.work(PLACE, makeHit());
} else {
  let answer = {};
  if (command === "install") await adapter.install(PLACE);
  else if (command === "enqueue") answer = await enqueue(Number(words[0]));
  else answer = await send(Number(words[0]), Number(words[1]));
  console.log(JSON.stringify(answer));
  process.exit(0);
}

// Works until it is ended, and prints the moment of the first and the last no-op, and what each ping took.
"use strict";
const Redis = require("ioredis");
const { Worker } = require("bullmq");

const connection = new Redis(process.argv[2], { maxRetriesPerRequest: null });
const rate = Number(process.argv[3]);
const last = Number(process.env.BENCH_COUNT);
const now = () => (performance.timeOrigin + performance.now()) / 1000;
let number = 0;

const work = async (job) => {
  if (job.name === "ping") {
    process.stdout.write(`${now() - job.data.at}\n`);
  } else if (++number === 1 || number === last) {
    process.stdout.write(`${now()}\n`);
  }
};

const limits = rate ? { limiter: { max: rate, duration: 1000 } } : {};
new Worker("bench", work, { connection, concurrency: 64, ...limits });

// Posts what it is told to, a line each, and answers "done": ready, clean, post N, post_many N, limit N,
// fan_in N, ping MOMENT.
"use strict";
const readline = require("readline");
const Redis = require("ioredis");
const { FlowProducer, Queue } = require("bullmq");

const connection = new Redis(process.argv[2], { maxRetriesPerRequest: null });
const options = { removeOnComplete: true };
const queue = new Queue("bench", { connection });
const flows = new FlowProducer({ connection });

const commands = {
  ready: () => queue.waitUntilReady(),
  clean: () => connection.flushall(),
  post: async (count) => {
    for (let posted = 0; posted < count; posted++) await queue.add("no-op", {}, options);
  },
  post_many: async (count) => {
    const batch = Array.from({ length: 100 }, () => ({ name: "no-op", data: {}, opts: options }));
    for (let posted = 0; posted < count; posted += 100) await queue.addBulk(batch);
  },
  limit: (running) => queue.setGlobalConcurrency(running),
  // What waits is in a queue of its own, which has no worker: only the no-ops are to be drained.
  fan_in: (count) => flows.add({
    name: "report",
    queueName: "reports",
    children: Array.from({ length: count }, () => ({ name: "no-op", queueName: "bench", data: {}, opts: options })),
  }),
  ping: (at) => queue.add("ping", { at }, options),
};

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, value] = line.split(" ");
    await commands[command](Number(value));
    process.stdout.write("done\n");
  }
  process.exit(0);
})();

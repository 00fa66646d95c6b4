import { connect, headers } from "nats";
const nc = await connect({ servers: process.env.NATS_URL ?? "127.0.0.1:4222" });
const run = process.argv[2] ?? `run-${Date.now()}`; // yours: the conversation's ID, from where you store it
const outcomes = nc.subscribe(`tollgate.results.default.${run}.>`, { max: 1 });
const h = headers();
h.set("Tollgate-Run-Id", run);
h.set("Idempotency-Key", `${run}:1`); // yours: one key for each step, the same again after a crash
h.set("Tollgate-Deadline", new Date(Date.now() + 20_000).toISOString());
await nc.jetstream().publish("tollgate.calls.default.demo.echo", JSON.stringify({ text: "hello" }), { headers: h });
for await (const m of outcomes) { console.log(m.json().status, m.json().content[0].text); await nc.close(); }

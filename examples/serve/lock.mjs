// Works for SECONDS under a lock of the agent, and stops if the lock is lost:
// node lock.mjs NAME SECONDS. QUORUMLOCK_AGENT is the agent's socket.
import http from "node:http";
import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

const [name, seconds] = process.argv.slice(2);

// The lock belongs to this connection: if this process dies, the agent releases the lock.
const socket = net.connect(process.env.QUORUMLOCK_AGENT ?? "/run/quorumlock/agent.sock");
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
agent.createConnection = () => socket;

async function ask(method, path, body, timeout = 15_000) {
  const response = await new Promise((resolve, reject) => {
    const request = http.request({ agent, method, path, timeout }, resolve);
    request.on("timeout", () => request.destroy(new Error("the agent does not answer")));
    request.on("error", reject);
    request.end(body && JSON.stringify(body));
  });
  const answer = JSON.parse(Buffer.concat(await response.toArray()));
  if (response.statusCode !== 200) throw new Error(answer.message ?? answer.error);
  return answer;
}

// Deadlines count from the moment before the request. While the machine is suspended, this clock stands still.
const lost = new AbortController();
let timer;
function heldUntil(deadline) {
  clearTimeout(timer);
  timer = setTimeout(() => lost.abort(new Error("its time is over")), deadline - performance.now());
  timer.unref(); // the process may end before the timer fires
}

const sent = performance.now();
const held = await ask("POST", "/v1/locks", { names: [name], timeout_ms: 60_000, keep_ms: 30_000 }, 75_000);
heldUntil(sent + held.until_ms);
socket.once("close", () => lost.abort(new Error("the agent is gone")));
// Keep the lock each second, well before its deadline.
const keeper = setInterval(() => {
  const sent = performance.now();
  const kept = ask("POST", `/v1/locks/${held.id}/keep`);
  kept.then(({ until_ms }) => heldUntil(sent + until_ms)).catch((error) => lost.abort(error));
}, 1000);

try {
  console.log(`token ${held.token}`); // storage must refuse a token that is lower than an earlier one
  await sleep(seconds * 1000, null, { signal: lost.signal }); // the work: give it the signal
  console.log("done");
} catch (error) {
  console.error(`stopped: ${lost.signal.reason?.message ?? error.message}`);
  process.exitCode = lost.signal.aborted ? 76 : 1;
} finally {
  clearInterval(keeper);
  if (!lost.signal.aborted) await ask("DELETE", `/v1/locks/${held.id}`);
  socket.destroy();
}

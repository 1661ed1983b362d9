// What OpenAI's Node library makes of the server at argv[2], byte for byte.
import { createRequire } from "node:module";

const OpenAI = createRequire(process.cwd() + "/")("openai").OpenAI;
const client = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "lab", maxRetries: 0, timeout: 60000 });
const messages = [{ role: "user", content: process.argv[3] }];

for (const stream of [false, true]) {
  const response = await client.chat.completions.create({ model: "lab", messages, stream }).asResponse();
  console.log(response.status, response.headers.get("content-type"));
  console.log(JSON.stringify(await response.text()));
}
console.log(JSON.stringify(await client.chat.completions.create({ model: "lab", messages, stream: false })));
const events = await client.chat.completions.create({
  model: "lab",
  messages,
  stream: true,
  stream_options: { include_usage: true },
});
for await (const chunk of events) console.log(JSON.stringify(chunk));

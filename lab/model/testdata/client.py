# What OpenAI's Python library makes of the server at argv[1], byte for byte.
import sys

from openai import OpenAI

client = OpenAI(base_url=sys.argv[1] + "/v1", api_key="lab", max_retries=0, timeout=60)
messages = [{"role": "user", "content": sys.argv[2]}]

raw = client.chat.completions.with_raw_response.create(model="lab", messages=messages)
print(raw.status_code, raw.headers["content-type"])
print(raw.http_response.content)
print(raw.parse().model_dump_json())

streams = client.chat.completions.with_streaming_response
with streams.create(model="lab", messages=messages, stream=True) as response:
    print(response.status_code, response.headers["content-type"])
    print(b"".join(response.iter_bytes()))

for chunk in client.chat.completions.create(
    model="lab", messages=messages, stream=True, stream_options={"include_usage": True}
):
    print(chunk.model_dump_json())

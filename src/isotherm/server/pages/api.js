// Talks to the server this page came from: one chat as a stream, and what the server says about itself.

export class ApiError extends Error {}

function headers(key) {
  return { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) };
}

/** The served model and the table of sampling values; throws ApiError with the server's own words. */
export async function aboutServer(key) {
  const [models, policy] = await Promise.all(["v1/models", "v1/policy"].map(async (path) => {
    const answer = await fetch(path, { headers: headers(key) });
    if (!answer.ok) throw await refusal(answer);
    return answer.json();
  }));
  return { model: models.data[0], policy };
}

/** Yields the chunks of a streamed chat. An error event and a stream without [DONE] are errors, not ends. */
export async function* streamChat(body, key, signal) {
  const answer = await fetch("v1/chat/completions", {
    method: "POST",
    headers: headers(key),
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  if (!answer.ok) throw await refusal(answer);
  for await (const data of eventData(answer.body)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ApiError(chunk.error.message);
    yield chunk;
  }
  throw new ApiError("The connection closed before the answer was complete.");
}

async function refusal(answer) {
  const text = await answer.text();
  try {
    return new ApiError(JSON.parse(text).error.message);
  } catch {
    return new ApiError(`The server answered ${answer.status}.`);
  }
}

async function* eventData(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (waiting + value).split("\n\n");
    waiting = parts.pop();
    for (const part of parts) {
      if (part.startsWith("data: ")) yield part.slice(6);
    }
  }
}

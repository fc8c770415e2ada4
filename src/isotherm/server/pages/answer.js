// One answer under way: takes chunks in, knows its text, its times and its facts.

export class Answer {
  constructor() {
    this.message = { role: "assistant", content: "", reasoning: "" };
    this.began = performance.now();
    this.first = null;
    this.last = null;
    this.report = null;
    this.usage = null;
    this.finish = null;
  }

  take(chunk) {
    this.report = chunk.isotherm ?? this.report;
    this.usage = chunk.usage ?? this.usage;
    const choice = chunk.choices[0];
    if (!choice) return;
    const { content, reasoning_content: reasoning } = choice.delta;
    if (content || reasoning) {
      this.last = performance.now();
      this.first ??= this.last;
    }
    this.message.content += content ?? "";
    this.message.reasoning += reasoning ?? "";
    this.finish = choice.finish_reason ?? this.finish;
  }

  /** Times are milliseconds; the rate leaves the first token out, which waits for the prompt. */
  facts() {
    const tokens = this.usage?.completion_tokens ?? null;
    const spent = this.last - this.first;
    return {
      tokens,
      ttft: this.first === null ? null : this.first - this.began,
      rate: tokens > 1 && spent > 0 ? ((tokens - 1) / spent) * 1000 : null,
      finish: this.finish ?? "you",
      report: this.report,
    };
  }

  words() {
    const { tokens, ttft, rate, finish } = this.facts();
    return [
      tokens === null ? null : `${tokens} tokens`,
      rate === null ? null : `${rate.toFixed(1)} tokens/s`,
      ttft === null ? null : `first after ${(ttft / 1000).toFixed(2)} s`,
      finish === "length" ? "cut at the token limit" : finish === "you" ? "stopped" : null,
    ].filter(Boolean).join(" · ");
  }
}

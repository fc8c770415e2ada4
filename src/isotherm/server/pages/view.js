// Draws messages, the conversation list and the facts of the last answer. Text from outside only ever becomes text nodes.

export const find = (id) => document.getElementById(id);

export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** Plain text with fenced and inline code set apart; nothing else of Markdown, and no HTML at all. */
function formatted(text) {
  const nodes = [];
  text.split(/^```.*\n?/m).forEach((part, place) => {
    if (place % 2 === 1) nodes.push(element("pre", {}, element("code", { textContent: part })));
    else {
      part.split(/`([^`\n]+)`/).forEach((piece, inner) => {
        if (piece) nodes.push(inner % 2 === 1 ? element("code", { textContent: piece }) : piece);
      });
    }
  });
  return nodes;
}

export class MessageView {
  constructor(message) {
    this.root = element("article", { className: `message ${message.role}` });
    this.root.setAttribute("aria-label", message.role === "user" ? "You" : "Model");
    this.thinking = element("div", { className: "thought" });
    this.details = element("details", { hidden: true }, element("summary", { textContent: "Reasoning" }), this.thinking);
    this.text = element("div", { className: "text" });
    this.error = element("p", { className: "error", hidden: true });
    this.error.setAttribute("role", "alert");
    this.meta = element("div", { className: "meta" });
    this.root.append(...(message.role === "user" ? [this.text] : [this.details, this.text, this.error, this.meta]));
    this.draw(message);
  }

  draw(message) {
    this.details.hidden = !message.reasoning;
    this.thinking.textContent = message.reasoning ?? "";
    this.text.replaceChildren(...(message.role === "user" ? [message.content] : formatted(message.content)));
    this.error.hidden = !message.error;
    this.error.textContent = message.error ?? "";
  }

  waiting(flag) {
    this.root.classList.toggle("waiting", flag);
    this.root.setAttribute("aria-busy", String(flag));
  }

  finish(words, actions) {
    const buttons = actions.map(([textContent, onclick]) => element("button", { type: "button", className: "plain", textContent, onclick }));
    this.meta.replaceChildren(...(words ? [words] : []), ...buttons);
  }
}

export function drawWelcome(model) {
  const words = model ? `${model} is ready. What would you like to know?` : "Waiting for the server.";
  return element("div", { className: "welcome" }, element("h1", { textContent: "Isotherm" }), element("p", { textContent: words }));
}

export function drawConversations(conversations, title, choose, remove) {
  find("conversations").replaceChildren(...conversations.all.map((each) => {
    const current = each === conversations.current;
    const open = element("button", { type: "button", className: "open", textContent: title(each), onclick: () => choose(each) });
    if (current) open.setAttribute("aria-current", "true");
    const drop = element("button", { type: "button", className: "plain delete", textContent: "×", onclick: () => remove(each) });
    drop.setAttribute("aria-label", `Delete conversation ${title(each)}`);
    return element("li", { className: current ? "current" : "" }, open, drop);
  }));
}

/** The panel of the last answer; null empties it. */
export function drawFacts(facts) {
  for (const id of ["figures", "origins", "notes"]) find(id).hidden = !facts;
  find("nothing").hidden = Boolean(facts);
  if (!facts) return;
  find("rate").textContent = facts.rate === null ? "–" : facts.rate.toFixed(1);
  find("ttft").textContent = facts.ttft === null ? "–" : `${(facts.ttft / 1000).toFixed(2)} s`;
  find("count").textContent = facts.tokens ?? "–";
  find("finish").textContent = facts.finish;
  const rows = Object.entries(facts.report?.sampling ?? {}).map(([name, { value, origin }]) => element(
    "tr", {},
    element("th", { scope: "row", textContent: name }),
    element("td", { textContent: name === "temperature" && facts.report.greedy ? `${value} (greedy)` : String(value) }),
    element("td", {}, element("span", { className: `origin ${origin}`, textContent: origin })),
  ));
  find("origins").tBodies[0].replaceChildren(...rows);
  find("origins").hidden = rows.length === 0;
  const notes = [...(facts.report?.warnings ?? []).map((each) => each.message), ...(facts.report?.clamped ?? []).map((each) => each.reason)];
  find("notes").replaceChildren(...notes.map((textContent) => element("li", { textContent })));
  find("notes").hidden = notes.length === 0;
}

/** What applies to a field that is left empty. */
export function drawDefaults(policy) {
  for (const name of ["temperature", "top_p", "max_tokens"]) {
    const { value, origin } = policy.sampling[name];
    find(`${name}-default`).textContent = value === null ? "what fits" : `${value} by ${origin}`;
  }
}

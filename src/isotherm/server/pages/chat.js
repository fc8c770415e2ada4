// The chat page: wires the controls to the server.

import { Answer } from "./answer.js";
import { aboutServer, streamChat } from "./api.js";
import { Conversations, remember, remembered, rememberedKey, rememberKey, titleOf } from "./store.js";
import { drawConversations, drawFacts, drawDefaults, drawWelcome, find, MessageView } from "./view.js";

const NUMBERS = ["temperature", "top_p", "max_tokens", "seed"];
const THEMES = ["auto", "light", "dark"];
const conversations = new Conversations();
const messages = find("messages");
const prompt = find("prompt");
let running = null;
let model = null;
let frame = 0;

/** Only what is set is sent: an empty field must be absent, not null and not a default of ours. */
function requestBody(history) {
  const system = find("system").value.trim();
  const body = {
    messages: [
      ...(system ? [{ role: "system", content: system }] : []),
      ...history.map(({ role, content }) => ({ role, content })),
    ],
  };
  for (const name of NUMBERS) {
    if (find(name).value !== "") body[name] = find(name).valueAsNumber;
  }
  return body;
}

function draw() {
  const current = conversations.current;
  const views = current.messages.map((message) => new MessageView(message));
  messages.replaceChildren(...(views.length ? views.map((view) => view.root) : [drawWelcome(model)]));
  const last = views.at(-1);
  const message = current.messages.at(-1);
  if (last && message.role === "assistant") last.finish(message.words ?? "", actions());
  drawConversations(conversations, titleOf, choose, remove);
  messages.scrollTop = messages.scrollHeight;
}

function actions() {
  const content = conversations.current.messages.at(-1).content;
  const copy = ["Copy", () => navigator.clipboard?.writeText(content)];
  return content ? [copy, ["Try again", again]] : [["Try again", again]];
}

function choose(conversation) {
  running?.abort();
  conversations.choose(conversation);
  drawFacts(null);
  draw();
  toggle("sidebar", false);
}

function remove(conversation) {
  if (conversation === conversations.current) running?.abort();
  conversations.remove(conversation);
  draw();
}

async function send() {
  const content = prompt.value.trim();
  if (!content || running || !find("settings").reportValidity()) return;
  prompt.value = "";
  grow();
  conversations.current.messages.push({ role: "user", content });
  await answer();
}

async function again() {
  if (running) return;
  if (conversations.current.messages.at(-1)?.role === "assistant") conversations.current.messages.pop();
  await answer();
}

async function answer() {
  const conversation = conversations.current;
  const body = requestBody(conversation.messages);
  const taking = new Answer();
  conversation.messages.push(taking.message);
  draw();
  const view = new MessageView(taking.message);
  messages.lastElementChild.replaceWith(view.root);
  const abort = (running = new AbortController());
  busy(true, view);
  try {
    for await (const chunk of streamChat(body, find("key").value, abort.signal)) {
      taking.take(chunk);
      showSoon(view, taking.message);
    }
  } catch (error) {
    if (!abort.signal.aborted) taking.message.error = error.message;
  } finally {
    running = null;
    busy(false, view);
    settle(conversation, view, taking);
  }
}

function settle(conversation, view, taking) {
  taking.message.words = taking.message.error ? "" : taking.words();
  show(view, taking.message);
  conversations.keep();
  drawConversations(conversations, titleOf, choose, remove);
  if (conversations.current !== conversation) return;
  view.finish(taking.message.words, actions());
  drawFacts(taking.report ? taking.facts() : null);
  prompt.focus();
}

/** Draws at most once a frame, however fast tokens come. */
function showSoon(view, message) {
  if (!frame) frame = requestAnimationFrame(() => { frame = 0; show(view, message); });
}

/** Follows the text only while its end is in sight: a reader who scrolled up is left alone. */
function show(view, message) {
  const following = messages.scrollHeight - messages.scrollTop - messages.clientHeight < 60;
  view.draw(message);
  if (following) messages.scrollTop = messages.scrollHeight;
}

function busy(flag, view) {
  view.waiting(flag);
  find("send").hidden = flag;
  find("stop").hidden = !flag;
}

function grow() {
  prompt.style.height = "auto";
  prompt.style.height = `${prompt.scrollHeight + 2}px`;
}

function toggle(id, shown) {
  find(id).classList.toggle("shown", shown);
  find(`show-${id}`).setAttribute("aria-expanded", String(shown));
}

function setTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  find("theme").textContent = `Theme: ${name}`;
  remember("theme", name);
}

async function connect() {
  try {
    const about = await aboutServer(find("key").value);
    model = about.model.id;
    find("model").textContent = model;
    find("status").className = "dot ready";
    drawDefaults(about.policy);
  } catch (error) {
    find("model").textContent = error.message;
    find("more").open = true;
    find("status").className = "dot lost";
  }
  if (conversations.current.messages.length === 0) draw();
}

function keys(event) {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
}

find("composer").addEventListener("submit", (event) => { event.preventDefault(); send(); });
find("settings").addEventListener("submit", (event) => event.preventDefault());
find("settings").addEventListener("change", () => {
  remember("settings", Object.fromEntries([...NUMBERS, "system"].map((name) => [name, find(name).value])));
});
find("settings").addEventListener("reset", () => { remember("settings", {}); rememberKey(""); });
find("key").addEventListener("change", () => { rememberKey(find("key").value); connect(); });
find("new").addEventListener("click", () => { choose(conversations.open()); prompt.focus(); });
find("stop").addEventListener("click", () => running?.abort());
find("theme").addEventListener("click", () => setTheme(THEMES[(THEMES.indexOf(remembered("theme", "auto")) + 1) % THEMES.length]));
for (const id of ["sidebar", "inspector"]) {
  find(`show-${id}`).addEventListener("click", () => toggle(id, !find(id).classList.contains("shown")));
}
messages.addEventListener("click", () => { toggle("sidebar", false); toggle("inspector", false); });
prompt.addEventListener("input", grow);
prompt.addEventListener("keydown", keys);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") running?.abort(); });

for (const [name, value] of Object.entries(remembered("settings", {}))) {
  if (find(name)) find(name).value = value;
}
find("key").value = rememberedKey();
setTheme(remembered("theme", "auto"));
draw();
connect();
prompt.focus();

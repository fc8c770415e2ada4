// Conversations and choices, kept in this browser; without storage the page works and forgets.

const CONVERSATIONS = "isotherm.conversations";
const MOST = 50;

function read(storage, name, fallback) {
  try {
    return JSON.parse(storage.getItem(name)) ?? fallback;
  } catch {
    return fallback;
  }
}

function write(storage, name, value) {
  try {
    storage.setItem(name, JSON.stringify(value));
  } catch {
    // Storage is full or forbidden: what is on the screen stays, it is just not kept.
  }
}

export const remembered = (name, fallback) => read(localStorage, `isotherm.${name}`, fallback);
export const remember = (name, value) => write(localStorage, `isotherm.${name}`, value);

/** The key is forgotten with the tab. */
export const rememberedKey = () => read(sessionStorage, "isotherm.key", "");
export const rememberKey = (key) => write(sessionStorage, "isotherm.key", key);

export class Conversations {
  constructor() {
    this.all = read(localStorage, CONVERSATIONS, []);
    this.current = this.all[0] ?? this.open();
  }

  open() {
    const unused = this.all.find((each) => each.messages.length === 0);
    const fresh = unused ?? { id: crypto.randomUUID?.() ?? String(Math.random()), messages: [] };
    this.all = [fresh, ...this.all.filter((each) => each !== fresh)];
    this.current = fresh;
    return fresh;
  }

  choose(conversation) {
    this.current = conversation;
  }

  remove(conversation) {
    this.all = this.all.filter((each) => each !== conversation);
    if (this.current === conversation) this.current = this.all[0] ?? this.open();
    this.keep();
  }

  keep() {
    const used = this.all.filter((each) => each.messages.length > 0);
    write(localStorage, CONVERSATIONS, used.slice(0, MOST));
  }
}

export function titleOf(conversation) {
  const first = conversation.messages.find((message) => message.role === "user");
  return first ? first.content.slice(0, 60) : "New conversation";
}

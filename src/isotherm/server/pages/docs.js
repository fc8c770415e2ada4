// Renders this server's own OpenAPI document; nothing is loaded from anywhere else.

import { element, find } from "./view.js";

const HUGE = 2 ** 31 - 1; // Bounds of this size are those of the wire, not worth a reader's time.
let schemas = {};

const named = (schema) => (schema.$ref ? schemas[schema.$ref.split("/").at(-1)] : schema);

/** A schema in a few words: number 0 to 2, one of a|b, list of Message. */
function words(schema) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return schema.anyOf.map(words).join(" or ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
  if (schema.type === "array") return `list of ${words(schema.items ?? {})}`;
  if (schema.type === "object" && typeof schema.additionalProperties === "object") return `object of ${words(schema.additionalProperties)}`;
  return [schema.type ?? "anything", range(schema)].filter(Boolean).join(" ");
}

function range(schema) {
  const low = schema.minimum ?? schema.exclusiveMinimum ?? -Infinity;
  const high = schema.maximum ?? Infinity;
  const from = low > -HUGE ? `${schema.minimum === undefined ? "above" : "from"} ${low}` : "";
  return [from, high < HUGE ? `to ${high}` : ""].filter(Boolean).join(" ");
}

/** Text with its `quoted` words as code. */
function prose(text) {
  return text.split(/`+([^`]+)`+/).map((part, place) => (place % 2 ? element("code", { textContent: part }) : part));
}

function fields(schema) {
  const found = named(schema);
  const rows = Object.entries(found.properties ?? {}).map(([name, property]) => {
    const required = found.required?.includes(name) ?? false;
    return element(
      "tr", {},
      element("th", { scope: "row", className: required ? "required" : "" }, element("code", { textContent: name })),
      element("td", { textContent: words(property) }),
      element("td", {}, ...prose(property.description ?? named(property).description ?? "")),
    );
  });
  const about = element("p", { className: "hint" }, ...prose(found.description ?? ""));
  return rows.length ? [about, element("table", {}, element("tbody", {}, ...rows))] : [about];
}

/** The objects that a schema is made of, itself first, each once. */
function parts(schema, seen = new Map()) {
  if (schema.$ref && !seen.has(schema.$ref)) seen.set(schema.$ref, schema);
  else if (schema.$ref) return seen;
  const inside = named(schema);
  const children = [...Object.values(inside.properties ?? {}), ...(inside.anyOf ?? []), inside.items, inside.additionalProperties];
  for (const child of children) if (child && typeof child === "object") parts(child, seen);
  return seen;
}

function section(title, schema, open) {
  const [first, ...others] = [...parts(schema).values()];
  const inner = others.map((other) => element("details", {}, element("summary", { textContent: words(other) }), ...fields(other)));
  return element("details", { open }, element("summary", { textContent: title }), ...fields(first ?? schema), ...inner);
}

function example(method, path, body) {
  const url = `${location.origin}${path}`;
  if (!body) return `curl ${url}`;
  const sent = path.endsWith("chat/completions") || path === "/tokenize"
    ? { messages: [{ role: "user", content: "Hello" }] }
    : path === "/detokenize" ? { tokens: [1, 2, 3] } : { prompt: "Once upon a time" };
  return `curl ${url} \\\n  -H 'content-type: application/json' \\\n  -d '${JSON.stringify(sent)}'`;
}

function route(path, method, about, id) {
  const body = about.requestBody?.content["application/json"].schema;
  const answers = Object.entries(about.responses ?? {});
  const success = about.responses?.[200]?.content?.["application/json"]?.schema;
  const statuses = element("ul", {}, ...answers.map(([status, each]) => element("li", { textContent: `${status} ${each.description}` })));
  return element(
    "section", { className: "route", id },
    element("h2", {}, element("span", { className: `method ${method}`, textContent: method.toUpperCase() }), path),
    element("p", {}, ...prose(about.description ?? about.summary ?? "")),
    ...(body ? [section("Request", body, true)] : []),
    ...(success ? [section("Answer", success, false)] : []),
    element("details", {}, element("summary", { textContent: "Statuses" }), statuses),
    element("pre", {}, element("code", { textContent: example(method, path, body) })),
  );
}

const document_ = await (await fetch("openapi.json")).json();
schemas = document_.components?.schemas ?? {};
find("title").textContent = `${document_.info.title} ${document_.info.version}`;
find("description").replaceChildren(...prose(document_.info.description ?? ""));
const routes = Object.entries(document_.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, about]) => ({ path, method, about, id: `${method}${path.replaceAll(/[^a-z]+/g, "-")}` })));
find("contents").replaceChildren(...routes.map(({ path, method, id }) => element("li", {}, element("a", { href: `#${id}`, textContent: `${method.toUpperCase()} ${path}` }))));
find("routes").replaceChildren(...routes.map(({ path, method, about, id }) => route(path, method, about, id)));

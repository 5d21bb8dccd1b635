/** Asks the server that sent this page; knows its errors, its token and its keys. */
import { page } from "./page.svelte";

const TOKEN = "omnigraph-token";

export class ServerError extends Error {
  constructor(
    readonly status: number,
    readonly body: {
      error?: string;
      kind?: string;
      code?: string;
      hint?: string;
      request_id?: string;
      outcome?: { effects?: string; action?: string };
      [field: string]: unknown;
    },
  ) {
    super(body.error ?? `the server answered ${status}`);
  }
}

/** The server could not be reached; what was typed stays, and asking again is safe for reads. */
export class ConnectionLost extends Error {
  constructor() {
    super("the server does not answer; what you typed is still here, and nothing was sent twice");
  }
}

export function readToken(): string | null {
  return sessionStorage.getItem(TOKEN);
}

export function keepToken(token: string): void {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

interface Ask {
  method?: string;
  body?: unknown;
  accept?: string;
  signal?: AbortSignal | undefined;
  headers?: Record<string, string>;
}

export async function ask(path: string, how: Ask = {}): Promise<Response> {
  const headers: Record<string, string> = { accept: how.accept ?? "application/json", ...how.headers };
  const token = readToken();
  if (token) headers["authorization"] = `Bearer ${token}`;
  if (how.body !== undefined) headers["content-type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(path, {
      method: how.method ?? (how.body === undefined ? "GET" : "POST"),
      headers,
      body: how.body === undefined ? null : JSON.stringify(how.body),
      signal: how.signal ?? null,
      credentials: "omit",
      cache: "no-store",
    });
  } catch (error) {
    if (how.signal?.aborted) throw error;
    noticeLoss();
    throw new ConnectionLost();
  }
  noticeReturn();
  if (!response.ok) throw new ServerError(response.status, await readBody(response));
  return response;
}

const LOOK_AGAIN = 1500;

function noticeLoss(): void {
  if (!page.online) return;
  page.online = false;
  const timer = setInterval(() => {
    fetch("/healthz", { credentials: "omit", cache: "no-store" }).then(
      () => (clearInterval(timer), noticeReturn()),
      () => undefined,
    );
  }, LOOK_AGAIN);
}

function noticeReturn(): void {
  if (page.online) return;
  page.online = true;
  page.returns++;
}

async function readBody(response: Response): Promise<ServerError["body"]> {
  try {
    return parseExact(await response.text()) as ServerError["body"];
  } catch {
    return { error: `the server answered ${response.status} ${response.statusText}` };
  }
}

export async function askJson<T>(path: string, how: Ask = {}): Promise<T> {
  return parseExact(await (await ask(path, how)).text()) as T;
}

/** A write: with a key of its own, so that asking again after a lost answer does it once; with a head, only if that is still the head. */
export async function write<T>(path: string, body: unknown, how: { head?: string | undefined } = {}): Promise<T> {
  const headers: Record<string, string> = { "idempotency-key": makeKey() };
  if (how.head) headers["omnigraph-if-graph-commit"] = how.head;
  const send = () => askJson<T>(how.head ? `${path}/if-graph-commit` : path, { body, headers });
  for (const pause of PAUSES) {
    try {
      return await send();
    } catch (error) {
      if (!(error instanceof ConnectionLost)) throw error;
      await new Promise((done) => setTimeout(done, pause));
    }
  }
  return send();
}

/** A server that restarts is back within a minute; the key makes the write happen once, however often it is asked for. */
const PAUSES = [500, 1000, 2000, 4000, 8000, 15_000, 30_000];

/** A key that no other write has; `randomUUID` is missing where the page came without TLS from another machine. */
function makeKey(): string {
  return [...crypto.getRandomValues(new Uint32Array(4))].map((part) => part.toString(16).padStart(8, "0")).join("-");
}

/** Where the routes of a graph begin. Reads that follow the page are asked again when the server comes back. */
export function graphPath(graph: string): string {
  void page.returns;
  return `/graphs/${encodeURIComponent(graph)}`;
}

export function search(path: string, options: Record<string, string | number | string[] | undefined>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one));
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/** JSON whose whole numbers beyond 2^53 stay exact: they become texts of their digits. */
export function parseExact(text: string): unknown {
  return JSON.parse(text, reviveExact as Parameters<typeof JSON.parse>[1]);
}

function reviveExact(_: string, value: unknown, context?: { source?: string }): unknown {
  if (typeof value !== "number" || Number.isSafeInteger(value) || !context?.source) return value;
  return /^-?\d+$/.test(context.source) ? context.source : value;
}

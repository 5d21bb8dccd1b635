/** Where the page is: every view is an address, and an address is every view. */

export interface Place {
  graph: string;
  /** A branch, a tag or a commit. */
  ref: string;
  screen: string;
  /** The segments after the screen. */
  args: string[];
  options: URLSearchParams;
}

const ROOT = "/ui/";

export function parseAddress(url: URL): Place | null {
  const [head, graph, ref, screen, ...args] = url.pathname
    .slice(ROOT.length)
    .split("/")
    .map(decodeURIComponent);
  if (head !== "g" || !graph) return null;
  const options = new URLSearchParams(url.search);
  if (!ref?.startsWith("@")) return { graph, ref: "main", screen: "start", args: [], options };
  return { graph, ref: ref.slice(1), screen: screen || "start", args, options };
}

export function spellAddress(place: {
  graph: string;
  ref: string;
  screen: string;
  args?: string[];
  options?: URLSearchParams | Record<string, string | undefined>;
}): string {
  const path = ["g", place.graph, `@${place.ref}`, place.screen, ...(place.args ?? [])];
  const query = new URLSearchParams();
  const given =
    place.options instanceof URLSearchParams
      ? [...place.options]
      : Object.entries(place.options ?? {});
  for (const [name, value] of given) if (value !== undefined && value !== "") query.append(name, value);
  const search = query.toString();
  return ROOT + path.map(encodeSegment).join("/") + (search ? `?${search}` : "");
}

/** `@`, `.` and `:` are legible and legal in a path; a slash of a branch is not a separator. */
function encodeSegment(segment: string): string {
  return encodeURIComponent(segment).replaceAll("%40", "@").replaceAll("%3A", ":");
}

/** `base..head` of a comparison; neither may hold the dots. */
export function splitPair(text: string | undefined): [string, string] | null {
  const cut = text?.indexOf("..") ?? -1;
  if (!text || cut < 1 || cut + 2 >= text.length) return null;
  return [text.slice(0, cut), text.slice(cut + 2)];
}

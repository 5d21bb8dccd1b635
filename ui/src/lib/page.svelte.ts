/** The state of the whole page: its place, what the server is, who asks. */
import { parseAddress, spellAddress, type Place } from "./address";

class Page {
  place = $state.raw<Place | null>(parseAddress(new URL(location.href)));
  /** Said to screen readers after a change of screens. */
  title = $state("OmniGraph");
  online = $state(true);
  /** How often the server came back: what depends on it is read again. */
  returns = $state(0);
  readOnly = $state(false);
  /** Whether the ref of the place is a commit or a tag, not a branch. */
  past = $state(false);

  go(address: string, replace = false): void {
    history[replace ? "replaceState" : "pushState"](null, "", address);
    this.place = parseAddress(new URL(location.href));
    if (!replace) window.scrollTo(0, 0);
  }

  /** The address of a screen of this graph, at this ref unless another is named; the branch that time runs along goes with the ref. */
  to(
    screen: string,
    args: string[] = [],
    options: Record<string, string | undefined> = {},
    ref = this.place?.ref ?? "main",
  ): string {
    const time = ref === this.place?.ref ? this.place.options.get("time") : null;
    return spellAddress({ graph: this.place?.graph ?? "default", ref, screen, args, options: time ? { time, ...options } : options });
  }

  /** The same view with other options, which replaces the address: no step back per key stroke. */
  option(changes: Record<string, string | undefined>): void {
    const place = this.place;
    if (!place) return;
    const options = new URLSearchParams(place.options);
    for (const [name, value] of Object.entries(changes)) {
      if (value === undefined || value === "") options.delete(name);
      else options.set(name, value);
    }
    this.go(spellAddress({ ...place, options }), true);
  }
}

export const page = new Page();

/** The segments after the screen, while the place is on one of these screens: a screen that is being left keeps its own. */
export function holdArgs(...screens: string[]): { readonly current: string[] } {
  let last: string[] = [];
  const held = $derived.by(() => {
    const place = page.place;
    if (place && screens.includes(place.screen)) last = place.args;
    return last;
  });
  return {
    get current() {
      return held;
    },
  };
}

export function followAddresses(): void {
  addEventListener("popstate", () => (page.place = parseAddress(new URL(location.href))));
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element).closest?.("a");
    if (!link || link.target || link.hasAttribute("download")) return;
    const url = new URL(link.href, location.href);
    if (url.origin !== location.origin || !url.pathname.startsWith("/ui/")) return;
    event.preventDefault();
    page.go(url.pathname + url.search);
  });
}

/** The schema as a text: read, checked by planning, and applied to the head that was seen. */
import type { Lint } from "./queries";
import { readRefs } from "./refs";
import { askJson, graphPath, ServerError, write } from "./server";
import type { Commit, Diagnostic, Value } from "./shapes";
import { spellValue } from "./text";

export interface Step {
  kind: string;
  type_kind?: string;
  type_name?: string;
  property_name?: string;
  code?: string;
  tier?: string;
  [fact: string]: unknown;
}

export interface Plan {
  supported: boolean;
  steps: Step[];
  warnings?: string[];
}

/** The text, and the commit of main that had it. */
export async function readSchema(graph: string): Promise<{ text: string; head: string }> {
  const refs = await readRefs(graph, true);
  const found = await askJson<{ schema_source: string }>(`${graphPath(graph)}/schema`);
  return { text: found.schema_source, head: refs.branches.find((branch) => branch.name === "main")?.head ?? "" };
}

export function planSchema(graph: string, text: string, allowLoss: boolean): Promise<Plan> {
  return askJson<Plan>(`${graphPath(graph)}/schema/plan`, { body: { schema_source: text, allow_data_loss: allowLoss } });
}

export function applySchema(graph: string, text: string, allowLoss: boolean, head: string): Promise<{ commit: Commit | null }> {
  return write(`${graphPath(graph)}/schema/apply`, { schema_source: text, allow_data_loss: allowLoss }, { head });
}

/** The mistakes of a schema text, at their places; a plan is made only to learn of them. */
export async function checkSchema(graph: string, text: string): Promise<Lint> {
  try {
    await planSchema(graph, text, false);
    return { diagnostics: [], queries: [] };
  } catch (error) {
    if (!(error instanceof ServerError) || !Array.isArray(error.body["diagnostics"])) throw error;
    return { diagnostics: (error.body["diagnostics"] as Found[]).map(placeOf), queries: [] };
  }
}

interface Found {
  code: string;
  severity: Diagnostic["severity"];
  message: string;
  fix?: string;
  position: { line: number; column: number };
  span: { start: number; end: number };
}

function placeOf(found: Found): Diagnostic {
  const { line, column } = found.position;
  const { code, severity, message, fix } = found;
  const length = Math.max(1, found.span.end - found.span.start);
  return { code, severity, message, hint: fix ?? null, line, column, end_line: line, end_column: column + length };
}

const SHOWN_APART = new Set(["kind", "type_kind", "type_name", "property_name", "code", "tier"]);

/** What a step does, in words: its other facts follow its subject. */
export function spellStep(step: Step): { what: string; subject: string; facts: string } {
  const subject = [step.type_name, step.property_name].filter(Boolean).join(".");
  const facts = Object.entries(step)
    .filter(([name]) => !SHOWN_APART.has(name))
    .map(([name, value]) => `${name.replaceAll("_", " ")}: ${spellValue(value as Value)}`);
  return { what: step.kind.replaceAll("_", " "), subject, facts: facts.join("; ") };
}

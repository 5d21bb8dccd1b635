/** What a team does with a graph, by the client: `node story.ts URL` on a server of an empty graph. */
import assert from 'node:assert/strict';

import {
  createBranch,
  deleteBranch,
  diff,
  exportGraph,
  getCommit,
  getSchema,
  listBranches,
  listCommits,
  load,
  loadNdjson,
  mergeBranches,
  mutate,
  mutateIfGraphCommit,
  query,
  type ErrorOutput,
} from './src/index.ts';
import { createClient } from './src/client/index.ts';

const [url, token] = process.argv.slice(2);
if (url === undefined) throw new Error('usage: node story.ts URL [TOKEN]');
const client = createClient({ baseUrl: url, ...(token === undefined ? {} : { auth: token }) });
const at = { client, path: { graph_id: 'default' } };
const sure = { ...at, throwOnError: true } as const;

const NAMES = 'query names() { match { $p: Person } return { $p.name } order { $p.name } }';
const ADD = 'query add($n: String) { insert Person { name: $n } }';
const UPDATE = 'query up($n: String, $a: I32) { update Person set { age: $a } where name = $n }';
const LINES = [
  { type: 'Person', data: { name: 'Ada', age: 36, photo: 'base64:aGVsbG8gd29ybGQ=' } },
  { type: 'Person', data: { name: 'Bo', age: 20, born: '2001-02-03' } },
  { edge: 'Knows', from: 'Ada', to: 'Bo', data: { since: 2020 } },
].map((record) => JSON.stringify(record) + '\n').join('');

async function names(branch?: string): Promise<unknown[]> {
  const { data } = await query({ ...sure, body: { query: NAMES, branch: branch ?? null } });
  return (data as { rows: { 'p.name'?: unknown }[] }).rows.map((row) => row['p.name']);
}

function refused(found: { error?: ErrorOutput | undefined }, kind: string): ErrorOutput {
  assert.ok(found.error, `this was not refused: ${kind}`);
  assert.equal(found.error.kind, kind);
  return found.error;
}

const loaded = (await load({ ...sure, body: { data: LINES, mode: 'append' } })).data;
assert.deepEqual([loaded.total_rows, loaded.branch_created], [3, false]);
assert.deepEqual(await names(), ['Ada', 'Bo']);

await createBranch({ ...sure, body: { name: 'review/a' } });
assert.deepEqual((await listBranches(sure)).data.branches, ['main', 'review/a']);
const twice = await createBranch({ ...at, body: { name: 'review/a' } });
assert.equal(refused(twice, 'branch_exists').branch?.name, 'review/a');
const added = await mutate({ ...sure, body: { query: ADD, params: { n: 'Cy' }, branch: 'review/a' } });
assert.equal(added.data.affected_nodes, 1);
assert.deepEqual(await names('review/a'), ['Ada', 'Bo', 'Cy']);
const differences = (await diff({ ...sure, query: { from: 'main', to: 'review/a' } })).data;
assert.deepEqual(differences.changes.map((change) => [change.op, change.id]), [['insert', 'Cy']]);

const update = (age: number, branch: string | null) =>
  mutate({ ...sure, body: { query: UPDATE, params: { n: 'Ada', a: age }, branch } });
await update(40, 'review/a');
await update(41, null);
const conflict = refused(
  await mergeBranches({ ...at, body: { source: 'review/a' } }),
  'merge_conflicts',
);
assert.deepEqual(conflict.merge_conflicts?.map((one) => one.row_id), ['Ada']);
assert.deepEqual(conflict.outcome, { execution: 'finished', effects: 'none', action: 'fix' });
await update(40, null);
const merged = (await mergeBranches({ ...sure, body: { source: 'review/a' } })).data;
assert.equal(merged.outcome, 'merged');
assert.deepEqual(await names(), ['Ada', 'Bo', 'Cy']);

const { commits } = (await listCommits(sure)).data;
const [head, before] = commits;
assert.ok(head && before);
assert.deepEqual(head, merged.commit);
const shown = await getCommit({ ...sure, path: { ...at.path, commit: head.graph_commit_id } });
assert.deepEqual(shown.data, head);
const late = await mutateIfGraphCommit({
  ...at,
  headers: { 'Omnigraph-If-Graph-Commit': before.graph_commit_id },
  body: { query: ADD, params: { n: 'Di' } },
});
assert.equal(refused(late, 'precondition_failed').precondition_failure?.actual, head.graph_commit_id);
const wrong = refused(await query({ ...at, body: { query: 'query q( {' } }), 'query_error');
assert.equal(wrong.diagnostic?.position.line, 1);

const text = await ((await exportGraph(sure)).data as Blob).text();
assert.equal(text.split('\n').length - 1, 4);
const again = await loadNdjson({ ...sure, query: { mode: 'overwrite' }, body: new Blob([text]) });
assert.equal(again.data.total_rows, 4);
const sorted = (lines: string) => lines.split('\n').sort();
assert.deepEqual(sorted(await ((await exportGraph(sure)).data as Blob).text()), sorted(text));

const key = { 'Idempotency-Key': 'once' };
const once = await mutate({ ...sure, headers: key, body: { query: ADD, params: { n: 'Ed' } } });
const repeated = await mutate({ ...sure, headers: key, body: { query: ADD, params: { n: 'Ed' } } });
assert.deepEqual([repeated.data.commit, repeated.data.replayed], [once.data.commit, true]);
await deleteBranch({ ...sure, path: { ...at.path, branch: 'review/a' } });
assert.deepEqual((await listBranches(sure)).data.branches, ['main']);
assert.match((await getSchema(sure)).data.schema_source, /node Person/);
console.log('the story ended well');

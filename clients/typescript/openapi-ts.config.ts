import { defineConfig } from '@hey-api/openapi-ts';

export default defineConfig({
  input: '../../docs/reference/openapi.json',
  // Imports name files as they are: node runs them without a build.
  output: { path: process.env.CLIENT_OUT ?? 'src', module: { extension: '.ts' } },
  // One way to call: routes that name their graph work on every server.
  parser: { filters: { deprecated: false, operations: { exclude: ['/ \\/(?!graphs|healthz|readyz)/'] } } },
});

"""Code that reads or writes Lance's own files in Lance's own form, without Lance's API.

One switch turns all of it off: `Datasets.unofficial`, which `open_store` sets from the setting `unofficial_lance`. Lance
then does the same work by its API, more slowly and with the same result. Only relocation has no such way and is refused.
A form that keeps data safe stays on, independent of the switch: `storage.lance.restores` uses `version_files` and
`version_puts`.

| Module | Form | With the switch off |
| --- | --- | --- |
| `btrees` | pages of a B-tree segment | Lance sorts and builds the segment |
| `copies` | data files of fragments | rows are read and written again |
| `shared_deletions` | a second name for a deletion file | Lance writes a new deletion file |
| `sequences` | row ids and versions of rows inside a manifest | Lance decodes them; updates are not split into append and takeover |
| `deletion_files` | contents of deletion files | a scan finds the rows that are left |
| `version_files` | names of manifest files | Lance lists the versions |
| `branch_refs`, `ref_names` | refs of branches | Lance lists the branches |
| `drafts` | manifest files, made by Lance on the local disk and put into the store | Lance commits to the store |
| `version_puts` | the PUT of a manifest file | only Restores use it |
| `local_drafts`, `manifest_files`, `messages` | manifest files of a group's appends on a local disk, made of the files before | Lance commits every append |
| `addresses` | addresses inside branch manifests | `relocate` is refused |
"""

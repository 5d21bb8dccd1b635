"""The command lines of the session, in their order: of each command a right call, and a wrong one.

`=` runs a line with `--json` and again without, `+` with `--json` alone, `-` as it is. `{first}`
and `{head}` are the first and the last commit of main at that time. `!` copies a file over another.
"""

from typing import Final

LEFT_OUT: Final = {
    "serve": "runs until a signal comes; the parts `remote`, `http` and `tools` start it",
    "ui": "runs until a signal comes, and needs a browser",
    "demo": "loads on Spark where it is installed",
    "recovery discard": "needs an interrupted write that recovery refuses",
    "mcp": "talks over stdin and stdout; the part `tools` starts it",
}
"""Commands without a right call here, and why; their wrong calls are below."""

LINES: Final = """\
+ version
- version
- completion bash
- completion nothing
+ config path
= config show
= config check
= profile list
= profile show dev
= profile show nothing
- nothing
- branch
- branch nothing
- --server
- branch list --nothing
+ init g --schema people.pg
+ init g --schema people.pg
+ init h --schema broken.pg
+ init h
+ load g --data people.jsonl --mode append --as ada --message first
+ load g --data people.jsonl --mode append
= load g --data bad.jsonl --mode merge
+ load g --data bad.jsonl --mode merge --rejects rejects.jsonl
+ load g --data missing.jsonl --mode merge
+ load g --data more.jsonl --mode merge --check
+ load g --data more.jsonl --mode merge --key l
+ load g --data more.jsonl --mode merge --key l
- load g --data more.jsonl --mode merge
+ load g --data rows.csv --mode merge --type Person --branch side --from main
+ load g --data edges.jsonl --mode merge --create-missing Person
= query --store g -e "{names}"
= query friends --store g --query people.gq --param who=Ada
- query friends --store g --query people.gq --param who=Ada --format csv
- query friends --store g --query people.gq --param who=Ada --format jsonl
- query friends --store g --query people.gq --param who=Ada --format kv
+ query friends --store g --query people.gq --params '{"who": "Ada"}' --branch side
+ query names --store g --queries queries --at {first}
+ query names --store g --queries queries --out names.csv
= query friends --store g --query people.gq
= query other --store g --query people.gq
= query --store g -e "query q() {"
= query --store g -e "query q() { match { $p: Persn } return { $p } }"
- query friends --store g --query people.gq --param who=Ada --explain
+ query --store g
+ query --store nowhere -e "{names}"
+ query --store g -e "{names}" --branch nowhere
+ alias friends Ada
- alias friends Ada
+ alias nothing
+ mutate add --store g --query people.gq --param n=Eve --as eve
+ mutate add --store g --query people.gq --param n=Fay --key m --message why
+ mutate add --store g --query people.gq --param n=Fay --key m --message why
- mutate add --store g --query people.gq --param n=Gil
+ mutate add --store g --query people.gq --param n=Hal --if-commit {first}
+ mutate add --store g --query people.gq --param n=Hal --param a=999
+ mutate friends --store g --query people.gq --param who=Ada
= operation m --store g
= operation nothing --store g
+ operation m --store nowhere
- export g
- export g --type Knows
- export g --type Nothing
= snapshot g
= snapshot g --at 2
+ snapshot g --branch nowhere
= describe g
= status g
= jobs g
+ describe nowhere
+ status nowhere
+ jobs nowhere
= analyze pagerank g --edges Knows
+ analyze wcc g --write Person.score --as ada
+ analyze bfs g --from Person Ada
+ analyze nothing g
- shell g < shell.txt
- shell g < wrong.txt
- shell nowhere < shell.txt
= branch create draft --store g
+ branch create keyed --store g --key c
+ branch create keyed --store g --key c
+ branch create old --store g --at {first}
+ branch create draft --store g
= branch list g
= branch show side --store g
+ branch show nothing --store g
+ branch list nowhere
= branch merge side --store g --dry-run
= branch merge side --store g --as ada --message merged
+ branch merge side --store g
+ branch merge nothing --store g
+ mutate age --store g --query people.gq --param n=Ada --param a=40 --branch draft
+ mutate age --store g --query people.gq --param n=Ada --param a=41
= branch merge draft --store g
+ branch merge draft --store g --rejects conflicts.jsonl
= branch delete old --store g --yes
+ branch delete keyed --store g --yes --key d
+ branch delete keyed --store g --yes --key d
+ branch delete main --store g --yes
= commit list g
+ commit list g --stat --limit 2
+ commit list g --filter actor=eve
+ commit list g --filter nothing=1
= commit show {head} --store g
+ commit show nothing --store g
= commit changes {head} --store g
+ commit changes {head} --store g --images --limit 2
+ commit changes nothing --store g
= diff main draft --store g
+ diff main draft --store g --stat
- diff main draft --store g --stat
+ diff main draft --store g --images --op update
+ diff main draft --store g --out diff.jsonl
+ diff main nothing --store g
= history Person Ada --store g
= history Person Nobody --store g
+ history Persn Ada --store g
- blob get node Person Ada photo --store g
- blob get node Person Ada photo --store g --offset 2 --length 3
- blob get node Person Bo photo --store g
= blob stat node Person Ada photo --store g
+ blob stat node Person Nobody photo --store g
= tag create v1 --store g
+ tag create v1 --store g --at {first}
= tag list g
+ tag list nowhere
= tag delete v1 --store g
+ tag delete v1 --store g
= changes poll g --start beginning --limit 2
+ changes poll g
+ changes poll g --start later
= changes baseline g --out base.jsonl --type City
+ changes baseline g
- schema show g
+ schema show g
+ schema show nowhere
= schema plan g --schema grown.pg
+ schema plan --from people.pg --to grown.pg
= schema plan g --schema other.pg --check
+ schema plan g --schema broken.pg
+ branch delete side --store g --yes
+ branch delete draft --store g --yes
= schema apply g --schema grown.pg --yes
+ schema apply g --schema other.pg --yes
= schema infer rows.csv --evidence
+ schema infer missing.csv
= lint g --query people.gq
+ lint --schema people.pg --query broken.gq
- lint --schema people.pg --query broken.gq
= lint --schema broken.pg
= fmt people.pg --check
+ fmt untidy.gq
+ fmt broken.gq
= policy validate --policy policy.yaml
= policy validate --policy broken.yaml
= policy test --policy policy.yaml --tests cases.yaml
+ policy test --policy policy.yaml --tests missing.yaml
= policy explain --policy policy.yaml --actor bo --action change --branch main
+ policy explain --policy policy.yaml --actor bo --action nothing
= policy matrix --policy policy.yaml
+ policy matrix --policy missing.yaml
= policy set g --from policy.yaml --as ada
+ policy set g --from broken.yaml --as ada
= policy show g
+ policy show g --version 9
+ policy set g --remove --as bo
+ policy set g --remove --as ada
+ mutate add --store g --query people.gq --param n=Z --policy policy.yaml --as bo
= index status g
+ index status nowhere
= index build g
+ index build nowhere
= optimize g
+ optimize nowhere
= doctor g
+ doctor g --deep
+ doctor nowhere
= cleanup g --keep 2
+ cleanup g
= cleanup g --keep 2 --confirm --yes
= repair g
+ repair nowhere
= recovery list g
+ recovery list nowhere
= recovery run g
+ recovery run nowhere
+ recovery discard 01ARZ3NDEKTSV4RRFFQ69G5FAV g --confirm
= relocate g
+ relocate nowhere
+ login prod --token t-ada
+ login nothing --token t-ada
+ login
= graphs list --server prod
= query --server prod -e "{names}"
+ mutate --server prod -e "query q() { insert Note { text: \\"x\\" } }"
+ branch create x --server prod --as bo
+ export --server prod
+ logout prod
+ logout nothing
+ logout
+ graphs list --server prod
+ graphs list
+ demo --nothing
- serve
- serve nowhere --unauthenticated
- ui nowhere
- mcp nowhere
! home/config.yaml < unknown.yaml
= config check
= config show
= profile list
! home/config.yaml < broken.gq
= config check
+ query
"""

#!/bin/sh
# The life of a graph by commands alone: init, load, branch, mutate, diff, merge, query, export and reload.
#
#   run.sh FOLDER WORK     FOLDER has schema.pg, data.jsonl, changes.txt and questions.txt; WORK is empty
set -eu
folder=$1
work=$2
export OMNIGRAPH_STORE="$work/graph.omni" OMNIGRAPH_ACTOR=ada OMNIGRAPH_HOME="$work/home"

omnigraphdb init "$OMNIGRAPH_STORE" --schema "$folder/schema.pg"
omnigraphdb load --data "$folder/data.jsonl" --mode append
omnigraphdb branch create review
omnigraphdb shell "$OMNIGRAPH_STORE" <"$folder/changes.txt"
omnigraphdb diff main review
omnigraphdb branch merge review --granularity property

# The questions, asked of the graph and of a copy that was made from its export.
ask() {
    { cat "$folder/questions.txt"; echo ".export $work/$2"; } | omnigraphdb shell "$1" --format csv >"$work/$3"
}
ask "$OMNIGRAPH_STORE" export.jsonl answers.csv
omnigraphdb init "$work/copy.omni" --schema "$folder/schema.pg"
omnigraphdb load "$work/copy.omni" --data "$work/export.jsonl" --mode append
ask "$work/copy.omni" again.jsonl again.csv
cmp "$work/export.jsonl" "$work/again.jsonl"
cat "$work/answers.csv"

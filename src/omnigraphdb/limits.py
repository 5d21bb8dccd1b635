"""Every bound of the system, named, with its reason."""

REJECTS_SORTED_MAX = 100_000
"""Problems of a load that are put in input order before they are written; more are written as they are found."""

PROBLEMS_SHOWN_MAX = 20
"""A bad file reports this many problems and the total: enough to fix a pattern, not a flood."""

PROBLEMS_HELD_MAX = 16_384
"""Problems that a load which reports all of them holds in memory; more go to a file."""

CONFLICTS_SHOWN_MAX = 1_000
"""Merge conflicts on the wire; the exception holds all of them, of a merge by steps the first so many."""

VALUE_SHOWN_CHARS_MAX = 60
"""User values in messages are shortened to this."""

RECORD_SHOWN_CHARS_MAX = 80
"""A record that is not JSON is shown up to this."""

LINE_SHOWN_CHARS_MAX = 160
"""A source line in a message is cut to this much around its caret."""

SUGGESTED_CHARS_MAX = 200
"""A longer name is not a misspelling of an existing name, and comparing it would take seconds."""

SUGGESTIONS_MAX = 3
"""Names offered by did-you-mean."""

NAMES_SHOWN_MAX = 20
"""Known names listed when none is near the one given."""

SUGGESTION_CANDIDATES_MAX = 1_000
"""Names looked at for a suggestion in a query, so that a huge text cannot stall its own error."""

PUBLISH_RETRIES_MAX = 5
"""Lost swaps of the manifest before a round of a publish ends; one try comes before them."""

PREPARE_ROUNDS_MAX = 3
"""Times a re-basable write is prepared again under its locks when its base moved."""

MIGRATION_ROUNDS_MAX = 5
"""Lost rounds of an internal-schema step before the publisher's own retry takes over."""

MUTATION_BYTES_MAX = 256 * 1024 * 1024
"""Pending rows of one mutation; a bulk write belongs to load."""

RETURNED_BYTES_KEPT_MAX = 64 * 1024
"""Bytes that a mutation with an idempotency key may return, as JSON: the manifest keeps them for a repetition."""

SOURCE_BYTES_MAX = 4 * 1024 * 1024
"""Schema and query text; far above any real file, far below a size that would stall the parser."""

SCHEMA_PROPERTIES_MAX = 100_000
"""Properties that the node types of a schema inherit altogether: interfaces multiply the properties of a text."""

NESTING_MAX = 64
"""Depth of nested blocks in a query; deeper text is refused before the stack is."""

EXPRESSION_STEPS_MAX = 256
"""Operators of one rank in a row, such as `a + b + c`; each adds a level to the evaluated expression."""

RECORDS_TYPED = 16_384
"""Records from memory that are held before they become columns."""

RECORDS_WEIGHED = 64
"""Records in the sample by which the bytes of a batch of records are estimated."""

BLOCK_BYTES = 8 * 1024 * 1024
"""Lines of a load file that are held before they become columns."""

BLOCK_LINES = 262_144
"""Lines of a load file that are held before they become columns: a short line takes many times its bytes."""

FRAME_ROWS = 65_536
"""Rows of a frame that become a typed column at once: each of them may hold a value to refuse."""

JSONL_LINE_BYTES_MAX = 32 * 1024 * 1024
"""One record of a load file."""

BRANCH_NAME_BYTES_MAX = 255
"""A branch name becomes a path."""

BRANCH_FILE_BYTES_MAX = 200
"""A branch's ref is one file, '/' written as '%2F', and a file name is written under a longer temporary one."""

FILE_BYTES_MAX = 255
"""The longest name that a file system takes."""

PATH_CHARS_MAX = 4096
"""The longest path that a system takes; an address of an object store is shorter."""

LOAD_CONCURRENCY = 8
"""Tables staged at once by a load."""

MANIFEST_FRAGMENTS_MAX = 8
"""The publisher folds the manifest past this many fragments of recent rows: openings and swaps cost more with each."""

TAIL_ROWS_MAX = 16
"""A swap of the manifest writes the rows of its newest fragment anew, up to this many, instead of a deletion file."""

FOLD_RATIO_MAX = 4
"""A fold of the manifest leaves a file of its history alone that has more than this many times the rows of all newer ones."""

HISTORY_FILE_ROWS_MAX = 8192
"""A publisher that folds the manifest rewrites no more rows of its history, about a megabyte; optimize rewrites all of it."""

HISTORY_ROWS_MIN = 64
"""Fewer old rows than these stay with the recent ones: a file of their own would cost more than it spares."""

RECENT_COMMITS = 32
"""The newest commits that a fold leaves among the recent rows, so that a page of the log reads no history."""

PUBLISH_BACKOFF_SECONDS = 0.02
"""First wait after a lost manifest swap, about one publish; doubled per round, shortened at random."""

PUBLISH_BACKOFF_SECONDS_MAX = 2.0
"""Longest wait between two rounds where processes cannot lock one another out, shortened at random."""

PUBLISH_LOCK_SECONDS_MAX = 5.0
"""A publisher that waited this long for its lock takes the spare one: a stopped process may hold the first."""

PUBLISH_ROUNDS_MAX = 9
"""Rounds of swaps before a publish gives up. A publisher that holds the publish lock needs one; on a busy machine the
lock can be missed by chance, and on an object store there is none."""

PUBLISH_LOCKS = 64
"""Locks between the publishers of one process; more than the branches that are written at one moment."""

BRANCH_STATES_MAX = 32
"""Manifest states kept per graph: one per branch in use, and as many past ones."""

MANIFEST_SECONDS_MIN = 3600.0
"""Cleanup of an object store keeps versions of the manifest that were replaced less than this ago: a publisher without
a lock may still build on one, and Lance would not notice the versions in between."""

KNOWN_HEAD_SECONDS_MAX = 600.0
"""A publisher uses a state of the manifest that it knows for as long as this, and then asks for the newest; much less than
`MANIFEST_SECONDS_MIN`."""

COMMIT_STEPS_MAX = 16
"""Manifest versions tried past a commit's recorded one: each step is a metadata change that slipped in."""

CONTRACT_ROUNDS_MAX = 100
"""Looks at schema files that disagree while a schema change puts them in place one after the other."""

CONTRACT_LOOKS_MAX = 1_000
"""Looks of a reader in all, when schema changes follow one another while it looks."""

CONTRACT_WAIT_SECONDS = 0.05
"""Time between two such looks."""

BRANCH_CAPTURES_MAX = 3
"""Times a new branch takes the versions that its source shows, when cleanup removes them before the branch exists."""

EXAMINATIONS_MAX = 5
"""Looks at the whole graph that are begun again because others changed it while it was looked at."""

REF_LOOKS_MAX = 20
"""Listings of branches that are begun again because the same one of them was dropped before it was read."""

BRANCH_CREATE_WAITS_MAX = 5
"""Looks at files without a ref before they count as left behind; a rival creator writes its ref by then."""

BRANCH_CREATE_WAIT_SECONDS = 0.2
"""Time between two such looks."""

TABLE_HANDLES_MAX = 64
"""Opened table versions kept per graph."""

LEASE_SECONDS = 30.0
"""Life of a lease on an object store; renewed three times within it."""

LEASE_RENEW_SECONDS = 10.0
"""Time between two renewals of a lease by its live holder."""

LEASE_MARGIN_PART = 6
"""A holder stops trusting its lease this part of its life early, a rival waits as much longer: requests take time."""

LEASE_TURN_SECONDS = 1.0
"""Time in which a waiter must take a released lease before the next in line may: some polls."""

LEASE_WAITERS_MAX = 64
"""Processes that stand in line for a lease; others look again until there is room."""

STORE_CONNECT_SECONDS = 5.0
"""An object store that does not answer by then is reported as unreachable."""

STORE_RETRIES_MAX = 5
"""Times a request for a small object is repeated by the store client."""

STORE_RETRY_SECONDS = 30.0
"""No repetition starts later than this after the first try."""

OBJECT_GUARD_SECONDS_MAX = 30.0
"""A guard on local objects is held for microseconds; a longer wait means a stopped process holds it."""

OBJECT_ROUNDS_MAX = 16
"""Times a write begins again when others change the object that it replaces: a directory, a temporary name, a lease."""

LOCK_WAIT_SECONDS = 60.0
"""Time that a writer waits for a live one when `lock_wait` is not set: longer than almost every commit."""

LOCK_WAIT_SECONDS_MAX = 86_400.0
"""The longest `lock_wait`: a day."""

HOLDER_POLL_SECONDS = 0.25
"""Longest time between two looks of a waiting writer at the holder of the lock of a live one."""

CLAIM_POLL_SECONDS = 0.02
"""Time after which a writer whose wait is over checks again whether a holder of its locks took it along."""

LOCK_TIMES_KNOWN = 8
"""Times for which a lock was held, from which a writer concludes how long those before it take; fewer tell nothing."""

LOCK_TIMES_LOCKS_MAX = 256
"""Locks of which a process remembers how long they were held last."""

GROUP_MEMBERS_MAX = 64
"""Writes that share one publish at most: it bounds the names in one sidecar and the wait of the first of them."""

GROUP_WAIT_SECONDS_MAX = 0.025
"""Longest wait of the first of a group for others that prepare an insert on a local disk: twice the time of eight of
them, and about as long as the publish that each of them would make alone."""

GROUP_BYTES_MAX = 16 * 1024 * 1024
"""Bytes of rows that the writes of one publish bring at most; a larger write publishes alone."""

DRAFT_COPIES_MAX = 64
"""Tables of an object store whose newest manifest a writer of groups keeps on the local disk."""

DRAFT_FILE_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of the manifest file that a group on a local disk makes versions of; with a longer one Lance commits as fast."""

DRAFT_FILES_MAX = 8
"""Tables on a local disk whose newest manifest file a writer of groups keeps in memory."""

DRAFT_PUTS_MAX = 16
"""Versions of tables that are put into an object store at the same time."""

LEASE_PUTS_MAX = 16
"""Leases that a process gives back, or renews, at the same time."""

ENTRY_SECONDS_MAX = 5.0
"""Time that a writer on an object store relies on its last look: interrupted writes of others stay unseen that long at
most."""

UNUSED_APPENDS_MAX = 256
"""Staged appends whose files wait to be used by the same write again."""

HOLDER_BYTES_MAX = 4096
"""Bytes of a lock file that are read to tell its holder."""

LEASES_KNOWN_MAX = 256
"""Leases this process gave back and may take again without reading them first; as many of others that it watches."""

SERVER_READS_MAX = 16
"""Reads of all actors that a server runs at a time: more would only share the processors, and hold memory meanwhile."""

SERVER_STATUS_MAX = 4
"""Requests about a server itself that it runs at a time: they never wait for reads of graphs."""

STORE_TIME_SECONDS_MAX = 60.0
"""Time that a process counts on from the time of an object store before it asks again: the store's clock may be set."""

STORE_TIME_STEP_SECONDS = 1.0
"""Stores date objects in whole seconds, so an age by their clock may be this much less."""

ARMED_KNOWN_MAX = 256
"""Sidecars under way whose state on the store is known without reading it."""

LEASE_POLL_SECONDS = 0.25
"""Longest time between two looks of a waiting writer at another's lease."""

PRODUCT_ROWS_MAX = 200_000_000
"""Pairs of unconnected entities one query may form; more would not fit in memory."""

CACHE_NAMES_MAX = 4_096
"""Layouts, families and costs a read cache remembers by name; each is small."""

HELD_PART = 4
"""A column is held whole in memory only if it takes less than one in this many parts of the cache."""

KEY_MAP_ROWS_MAX = 2_000_000
"""Entities of a table whose ids are mapped in memory; larger tables are looked up in their index."""

PATHS_MAX = 2**62
"""Matches one row of a result may stand for: counts are 64 bits wide."""

PATH_HOPS_MAX = 64
"""Hops that a path which is bound to a variable may have, unless a setting says otherwise."""

PATHS_TRIED_MAX = 100_000
"""Paths that a search for the best ones tries, of which a minimum of hops may leave out most."""

PATH_PAIRS_ALONE_MAX = 64
"""Pairs of nodes whose paths are searched pair by pair, from both ends; more pairs share a search from their starts."""

MORSEL_ROWS = 1 << 20
"""Rows of bindings in flight between two operators: enough for NumPy's speed, little enough to hold many."""

REACH_CELLS = 1 << 24
"""Sources times nodes that one search with several hops marks at once, a byte each."""

RESULT_BATCH_ROWS = 65_536
"""Rows of one batch of a streamed result."""

SCAN_BATCH_ROWS = 65_536
"""Rows per batch of a stream: large enough for Arrow's kernels, small enough to hold a few."""

SCAN_BOUNDED_BATCHES = 2
"""Batches that a scan in bounded memory decodes ahead of its reader."""

ADJACENCY_FILE_ROWS_MIN = 16_384
"""Edges of a table that are worth an adjacency file: fewer are read from their columns in a few milliseconds."""

ADJACENCY_FILE_BYTES_MAX = 1024 * 1024 * 1024
"""Bytes of an adjacency file: it is written in one piece."""

ADJACENCY_DRIVER_BYTES_MAX = 48 * 1024 * 1024
"""Memory in which the driver of Spark, or the process beside it, builds an adjacency: neither may grow with the rows of a table."""

ADJACENCY_EDGE_BYTES = 140
"""Memory that building an adjacency takes for an edge, as measured from 200,000 to 3,000,000 of them."""

ADJACENCY_NODE_BYTES = 160
"""Memory that building an adjacency takes for a node, whose id is looked up."""

SCAN_BOUNDED_BYTES = 16 * 1024 * 1024
"""Pages that a scan in bounded memory reads ahead of its decoder: a disk that is faster than the reader would fill memory with them."""

LOOKUP_VALUES_MAX = 8_192
"""Values of one indexed lookup; more become several."""

LOOKUP_FILTERED_MAX = 256
"""Texts that Lance itself filters by where no index serves: up to here that costs half as much as a scan whose batches
are compared one by one, because every small fragment is a batch."""

LOOKUP_ROWS_PER_VALUE = 500
"""An index finds a value in the time a scan passes this many rows; past it one scan is faster."""

CACHED_IDS_SMALL = 16_384
"""Ids of a table this small are read whole at the first lookup; a larger one must have cost as much in lookups."""

CACHED_ID_BYTES = 1_024
"""Cache bytes that allow a writer to remember one id: the id takes an eighth of them."""

FRAGMENT_ROWS_MIN = 65_536
"""Rows of a full fragment of a small table: committing an update costs 40 ns per row of the fragment it touches."""

FRAGMENT_ROWS_MAX = 1_048_576
"""Rows of a full fragment of the largest tables: commits of any kind cost more with the number of fragments."""

FRAGMENTS_AIM = 128
"""Full fragments of a table before they double in size."""

STREAM_ROWS = 16_000_000
"""Rows that a stream is assumed to bring when it does not say: a fragment size between the extremes."""

FRAGMENT_BYTES_MAX = 4 * 1024 * 1024 * 1024
"""Bytes of one fragment: a worker's share of a scan, far below the largest object of a store."""

INDEX_SEGMENTS_MAX = 8
"""Segments of one index, each asked by every query; past it the index is built again."""

BTREE_ROWS_MIN = 16_384
"""Rows of an index segment that is sorted here: of fewer Lance builds one sooner."""

BTREE_ROWS_MAX = 4_000_000
"""Rows of an index segment that is sorted in memory; of more Lance builds it, with files."""

BTREE_BYTES_MAX = 512 * 1024 * 1024
"""Texts of an index segment that is sorted in memory."""

BTREE_SAMPLE_ROWS = 65_536
"""Rows of a column that is not in order, to see whether texts come more than once: only then is it sorted here."""

VERSION_STEPS_MAX = 128
"""Versions of the manifest that a probe follows one by one on a disk, before it lists them."""

IMAGE_CHUNKS_MAX = 8
"""Chunks of a derived image before it is made whole: kernels slow down with chunks."""

SLICED_ROWS_MAX = 4
"""Rows that are left out of an image by slices; a publish leaves out one, the head of its branch."""

IMAGES_MAX = 64
"""Images of keyed rows kept per table: one per branch in use, and some past ones."""

IMAGE_ROUNDS_MAX = 3
"""Times an image is loaded again because its branch was deleted and created again meanwhile."""

INDEX_CACHE_BYTES = 1024 * 1024 * 1024
"""Index pages that one opened graph keeps in memory."""

METADATA_CACHE_BYTES = 32 * 1024 * 1024
"""Metadata of files and versions of tables that one opened graph keeps in memory: every commit adds to it until it is full."""

MANIFEST_CACHE_BYTES = 8 * 1024 * 1024
"""The same of the manifest, whose rows are kept in memory as images."""

PLANS_MAX = 1_024
"""Compiled queries kept per graph."""

COMPARE_ROWS_MAX = 8_192
"""Whole rows of one side that a comparison, or one upsert of a merge, holds at once."""

COMPARE_BYTES_MAX = 32 * 1024 * 1024
"""Bytes of those rows, as far as their types tell: wide vectors make the chunks shorter."""

SIDECAR_COMMITS_MAX = 1_000
"""Commits that a merge brings and its sidecar spells out; more of them are packed."""

AGREED_ROWS_MAX = 64
"""Rows of a table, changed in the same way by both sides, that a merge notes in its commit."""

MERGE_ROW_CACHE_BYTES = 16 * 1024 * 1024
"""Rows that a merge read to compare them and keeps until they are written."""

COPY_ROWS_MIN = 4_096
"""Rows of a fragment that a merge takes over as it is; the rows of smaller ones are written together."""

ADDRESSES_MAX = 1_024
"""Row addresses of one read; more become several, since each is parsed as text."""

OPENING_LOCKS = 16
"""Locks under which threads open table versions; two versions may share one."""

HEAD_READS_MAX = 4
"""Readings of a head that writers replace and cleanup removes while it is read, before the read fails."""

RECLAIM_LOOKS_MAX = 5
"""Looks whether a past version whose files are missing is being removed, before it is called damaged."""

RECLAIM_WAIT_SECONDS = 0.1
"""Pause between two looks at a version that may be about to go."""

DELETION_WRITES_MAX = 8
"""Deletion files one staged write has under way at a time."""

DELETION_READS_MAX = 8
"""Deletion files one comparison asks an object store for at a time."""

SPAN_ROWS_MAX = 131_072
"""Rows around the rows that a merge changes: to update those in one commit Lance looks through all of these, at some 20
ns each. Past this, changed rows come with one commit and take over in the next, which costs as much on a disk."""

SPAN_ROWS_DISTANT_MAX = 4_000_000
"""The same on an object store, where a commit is several requests."""

REPLACED_ROWS_MAX = 16_384
"""Rows of a table that a load in steps or a merge in steps replaces by one commit: Lance holds about 125 bytes of each
while it commits. Past this, rows that replace others are appended first and take over in the next commit."""

DELETIONS_CACHED_MAX = 1_024
"""Deletion files of few rows whose contents are kept in memory: they never change."""

MERGE_COMMITS_MAX = 1_024
"""Upserts one merge makes on one table; more rows make them larger, not more."""

BLOB_CHUNK_BYTES = 4 * 1024 * 1024
"""Bytes of a blob that are read at once."""

CHANGES_READ_LEAST = 128
"""Changes of one bucket that are read from its scratch file at once, at least: fewer would cost a request each."""

FEED_GROUP_COMMITS = 16
"""Commits of the feed that one step compares: a step costs some tenths of a second, and its changes wait in scratch files."""

CHANGES_PAGE = 1_000
"""Changes after which a page of the feed ends with its commit."""

CHANGES_PAGE_MAX = 8_192
"""Changes of one page on the wire, at most: a reader that asks for more asks again."""

CHANGES_PAGE_BYTES = 4 * 1024 * 1024
"""Rows of a page on the wire; the change that passes it is the last one."""

SMALL_FRAGMENTS_MAX = 12
"""Small fragments a table gathers before a writer merges them: every one costs each cold read about 0.3 ms."""

AUTO_COMPACT_ROWS_MAX = 4_096
"""Rows of a fragment that automatic maintenance still rewrites, and leaves without an index: they are scanned in no time."""

AUTO_COMPACT_BYTES_MAX = 8 * 1024 * 1024
"""Bytes that automatic maintenance rewrites at most in one go: a few milliseconds of a writer's time."""

INDEX_ROWS_MIN = 1_000
"""Rows from which on a load builds indexes by itself: below, a scan is as fast and a build costs more than the load."""

AUTO_INDEX_ROWS_MAX = 262_144
"""Rows of a table whose missing indexes automatic maintenance still builds; larger ones are left to load and optimize."""

AUTO_SEGMENTS_MAX = 32
"""Segments of one index that automatic maintenance adds to before it leaves the rest to optimize."""

OPTIMIZE_ROUNDS_MAX = 5
"""Times optimize begins again when a program that takes no locks moves a table between two of its commits."""

CLEANUP_SKEW_SECONDS_MAX = 60.0
"""Largest difference between the clocks of a machine and an object store at which cleanup tells ages: far above the
difference of synchronised clocks, far below the life of a heartbeat."""

CLEANUP_KEEP_WARN = 3
"""Fewer kept versions than this leave recovery little to look at."""

BUCKET_BYTES = 512 * 1024 * 1024
"""Keys of a load that this process holds in memory; more wait in temporary files, bucket by bucket."""

BUCKET_ROWS = 1 << 20
"""Keys that one task decides about: some 100 MiB; more are hashed over more tasks."""

BUCKET_ROWS_MIN = 1 << 15
"""Keys that are worth a task of their own when a worker would be idle otherwise."""

SPILLED_BUCKETS = 64
"""Buckets into which keys are sorted that do not fit in memory."""

HASHED_ROWS = 1 << 14
"""Keys that are hashed at once: hashing takes some ten times their bytes."""

EXPORT_PART_ROWS = 1_048_576
"""Rows of one file of an export, which one task writes."""

ORDERED_PART_BYTES = 8 * 1024 * 1024
"""Rows of a table that are sorted at a time; a larger table goes through temporary files."""

ORDERED_WIDE_BYTES = 1024
"""Bytes of a row from which an ordered scan fetches rows by their ids: that is as fast as a scan, and holds no pages."""

ORDERED_STEP_BYTES = 1024 * 1024
"""Rows that an ordered scan hands on at a time."""

ORDERED_PARTS_MAX = 512
"""Temporary files of one ordered scan: each is open while the table is read."""

ORDERED_IDS_A_PART = 64
"""Ids of a sample for each temporary file of an ordered scan: they say where the next file begins, and keep the files alike."""

ORDERED_SAMPLE_ROWS = 32
"""Rows that show how wide the rows of a table are."""

SPELLED_BYTES = 8 * 1024 * 1024
"""Columns of an export that become text at once; the text is some times as long."""

SPLIT_BYTES = 32 * 1024 * 1024
"""Input that one task reads: enough to be worth a task, little enough to hold several in memory."""

SPLIT_ROWS = 1 << 20
"""Rows that one task reads: narrow rows cost by their number, not by their bytes."""

SPREAD_BYTES = 8 * 1024 * 1024
"""Input that is worth a task of its own when a worker would be idle otherwise."""

SPREAD_ROWS = 1 << 16
"""Rows that are worth a task of their own when a worker would be idle otherwise."""

SPLITS_MAX = 100_000
"""Splits of one load: their numbers are part of fresh ids, and a driver holds a receipt for each."""

CACHED_IDS_ROWS = 4_000_000
"""Ids that a task may hold, to settle them or to look at the ends of edges: some 250 MiB."""

ONE_TASK_IDS_ROWS = 1 << 20
"""Incoming ids in no order that one Spark task resolves by itself; more are hashed over many tasks."""

BESIDE_IDS_ROWS = 250_000
"""Ids that the commit of a Spark writer holds: its process stands beside the driver, which has its own memory."""

BESIDE_KEYS_BYTES = 8 * 1024 * 1024
"""Keys that the commit of a Spark writer holds before they wait in temporary files, bucket by bucket."""

BESIDE_ROWS_BYTES = 12 * 1024 * 1024
"""Rows replacing others that the commit of a Spark writer reads and writes at a time: with Lance's buffers they take eight times as much."""

COMMITTED_SPLIT_ROWS = 2_000_000
"""Committed rows whose keys one task reads."""

PROJECTION_BYTES = 4 * 1024 * 1024 * 1024
"""Memory up to which the algorithms on a projection run in one process: some 60 million arcs."""

PROJECTED_ARC_BYTES = 64
"""About the bytes of an arc while ranks are computed: its ends, its row, its weight, and its places in two matrices."""

PROJECTED_NODE_BYTES = 64
"""About the bytes of a node: its id and a few numbers."""

SMALL_WORK_BYTES = 256 * 1024 * 1024
"""Input up to which a load works in memory, and never leaves this process by itself."""

SMALL_WORK_ROWS = 2_000_000
"""Rows of input up to which a load works in memory, and never leaves this process by itself."""

STRAYED_LOOKED_AT = 2
"""Branches an open looks at to notice that the directory was moved: one move strays all its branches. The others are
looked at when they are used."""

SCRATCH_SECONDS = 7 * 24 * 3600.0
"""Time that scratch files of a load that fell silent stay when cleanup is given no age."""

HEARTBEAT_SECONDS = 600.0
"""Time that the heartbeat of a long load counts after its last renewal: a stopped machine may come back."""

HEARTBEAT_RENEW_SECONDS = 60.0
"""Time between two renewals of the heartbeat of a long load."""

JOB_BEGIN_SECONDS = 2.0
"""Time after which work shows itself as a job: shorter work asks the store nothing for it."""

JOB_RENEW_SECONDS = 5.0
"""Time between two renewals of the record of a job."""

JOB_EXPIRE_SECONDS = 30.0
"""Time that a record counts after its last renewal; then its job is shown as dead."""

SIDE_BATCH_ROWS = 65_536
"""Rows that a task of a comparison holds while it makes digests or rows of fragments of them."""

SIDE_BATCH_BYTES = 64 * 1024 * 1024
"""Bytes of those rows, as far as their types tell."""

MERGED_FRAGMENT_BYTES = 256 * 1024 * 1024
"""Rows that a task of a merge sorts by row id and writes as one fragment."""

COMPARE_SPLIT_ROWS = 1_048_576
"""Rows of a table that one task reads when several workers compare versions."""

MESSAGE_CHARS_MAX = 4_096
"""Characters of a commit's message: every reader of the manifest loads it."""

KEY_ROUNDS_MAX = 3
"""Looks for the result of an idempotency key, with pending operations recovered between them."""

HISTORY_PROBES_MAX = 256
"""Times the history of an entity looks for an earlier life of its id before it says that it did not look further."""

AUTHORED_COMMITS_MAX = 500
"""Commits of an actor whose changes a comparison looks up."""

COMMITS_COUNTED_MAX = 25
"""Commits of a page of the log whose changes are counted: each is compared with its parent."""

"""A deterministic simulator of the commit protocol: every order of requests, every fault of them, every crash state.

Several clients of one store live in one process. Each request that a client makes is a step of one scheduler, so a seed
gives the same history, request by request. `docs/internals/simulation.md` says what is proven how.

| Module | Holds |
|---|---|
| `world`, `requested`, `threads` | scheduler and clocks; requests and what happens to them; locks and threads of clients |
| `objects`, `lines`, `tables`, `rows` | `Objects`, `Tables` and `Rows` on a store in memory |
| `handles`, `verbs` | one opened graph of a client, and what clients do with it by the real engine below the public API |
| `scenarios`, `workloads`, `plans` | who is there and what they were told; what a seed lets them do, and which request meets which fault |
| `enumerations`, `encounters` | every place of a fault; every place at which a client stands still while others change the ground |
| `models`, `stored_traces`, `traces` | instances of `model.qnt`; traces of them as lines of text; clients that go where a trace says |
| `judge`, `promises` | what must hold when all faults have ended; which write must show, which branch must be there |
| `bucket`, `bucket_server`, `engine_universe` | a bucket over HTTP; the whole engine, Lance and obstore on it, with every request a step |
| `engine_operations`, `engine_workloads`, `engine_pairs`, `engine_judge` | what clients of the engine ask for; the same on plain graphs, commit by commit |
| `appends`, `orders` | histories of appends to lists; strict serialisability along the commits of a branch |
| `mutants`, `reduce` | the code without one guard; the smallest scenario in which the judge still complains |

Whatever imports `omnigraphdb` before `threads.install` has real locks, so universes run in processes of their own.
"""

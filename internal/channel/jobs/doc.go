// Package jobs is the channel of producers that use Redis. They push messages of package job to one list, and wait for each answer on a list of its
// own. Temporal runs the jobs; a [Bridge] only moves them. [Client] is the producer's side.
//
//	RPUSH agent:jobs ──BLMOVE──▶ agent:jobs:processing:<bridge> ──Submit, Follow──▶ one script: LREM, RPUSH agent:results:<job id>
//	        ▲                            │
//	        └──── to the head again ─────┘ when the bridge stops or has died: then any other bridge does it
//
// # Guarantees
//
// A job is run at least once and answered once. Every move is one command or one script, so a job is always in exactly one list. Submitting it
// again joins the turn that it became before: the turn is named after the job's id and retry. The script that publishes a result also takes
// the entry out of the processing list. So a bridge that was considered dead and wakes up finds no entry and publishes nothing.
//
// A job_id and retry_count are run once, however often they are pushed. A second push joins the first while that runs, and there is one
// answer. After it ended, a second push is dropped while the answer waits to be taken; after that it gets the same answer again.
// [Client.Push] refuses it within a day. A producer that wants another try raises retry_count. If an earlier attempt runs or has completed,
// its result answers the retry; after a failed one, the retry is a turn of its own.
// A bridge marks attempts in the order in which it takes them. If two bridges take an attempt and its retry at the same moment, the retry
// looks again after a quarter of a second; if the mark takes longer than that, both run.
//
// The jobs of a session are submitted in the order in which a bridge took them, each when the one before has its result.
//
// A message that is no job goes to agent:jobs:dead, newest first, as {reason, field, message, truncated, job_id, bridge, at}. If its job id can be
// read, the producer gets a failed result. If that key holds no list, the message stays with the bridge, which tells the producer once and
// tries again. Such a message does not count as an attempt: the same id may be pushed again. A job that the inbox refuses, for example because
// its agent does not exist, has a failed result. While Temporal or the database is unavailable, jobs wait in the bridge up to its bounds.
//
// # Bounds
//
// A running job takes one of Concurrency places. A job that waits for a person, or behind another job or turn of its session, takes none; up to
// MaxHeld jobs run or wait. All messages together may have 256 MiB. When a bound is reached, jobs stay in agent:jobs.
//
// # Requirements of Redis
//
// Redis 6.2 or later. Jobs are as durable as Redis: with appendonly yes and appendfsync always, nothing that was acknowledged is lost. With
// everysec, a crash of Redis may undo its last second, and so lose a push or repeat a result. In a Redis Cluster all keys must be in one slot,
// so both names need the same hash tag, such as {agent}:jobs and {agent}:results. Bridges store under the queue's name:
//
//	:processing:<bridge>        what the bridge has taken, a list
//	:alive:<bridge>             expires unless the bridge renews it
//	:bridges                    all bridges of the last day, by the time of their last word
//	:attempt:<job id>:<retry>   running, completed or failed, for a day
//	:dead                       messages that are no jobs, at most 10,000
package jobs

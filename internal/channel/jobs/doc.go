// Package jobs is the channel for producers that use Redis. A producer pushes messages of package job to one list, and waits for the result of each job
// on a list for that job. Temporal runs the jobs; a [Bridge] only moves them. [Client] is the producer's side.
//
//	RPUSH agent:jobs ──BLMOVE──▶ agent:jobs:processing:<bridge> ──Submit, Follow──▶ one script: LREM, RPUSH agent:results:<job id>
//	        ▲                            │
//	        └──── to the head again ─────┘ by the bridge when it stops, or by another one if it has died
//
// # Guarantees
//
// A job is run at least once and answered once. Every move is one command or one script, so a job is always in exactly one list. Submitting it
// again joins the turn of the first submission, because the turn's id is derived from the job's id and retry count. The script that publishes a
// result also removes the entry from the processing list. So if other bridges have considered a bridge dead and it goes on, it finds no entry and
// publishes nothing.
//
// A job_id and retry_count are run once, however often they are pushed. A second push joins the first while that runs, and there is one result.
// After the first has ended, a second push is dropped while the result waits for the producer; later it gets the same result again.
// [Client.Push] refuses it within a day. A producer that wants another try raises retry_count. If an earlier attempt runs or has completed,
// its result answers the retry; after a failed attempt, the retry is a new turn.
// A bridge marks attempts in the order in which it takes them. If two bridges take an attempt and its retry at the same moment, the retry
// looks for the mark again after a quarter of a second. If marking takes longer than that, both run.
//
// The jobs of a session are submitted in the order in which a bridge took them, each after the previous one has its result.
//
// A message that is not a job goes to agent:jobs:dead, newest first, as {reason, field, message, truncated, job_id, bridge, at}. If its job id can
// be read, the producer gets a failed result. If agent:jobs:dead is not a list, the message stays with the bridge, which tells the producer once
// and tries again. Such a message does not count as an attempt: the same id may be pushed again. A job that the inbox refuses, for example because
// its agent does not exist, gets a failed result. While Temporal or the database is unavailable, jobs wait in the bridge up to its bounds.
//
// # Bounds
//
// A running job takes one of Concurrency slots. A job that waits for a person, or for another job or turn of its session, takes none. Up to MaxHeld
// jobs run or wait. All messages together may have 256 MiB. When a bound is reached, jobs stay in agent:jobs.
//
// # Requirements of Redis
//
// Redis 6.2 or later. Jobs are as durable as Redis: with appendonly yes and appendfsync always, nothing that was acknowledged is lost. With
// everysec, a crash of Redis may undo its last second, and so lose a push or repeat a result. In a Redis Cluster all keys must be in one slot,
// so both names need the same hash tag, such as {agent}:jobs and {agent}:results. Keys that begin with the queue's name:
//
//	:processing:<bridge>        list of the messages that the bridge has taken
//	:alive:<bridge>             expires unless the bridge renews it
//	:bridges                    all bridges of the last day, by the time of their last renewal
//	:attempt:<job id>:<retry>   mark of an attempt: running, completed or failed, for a day
//	:waiting:<job id>:<retry>   set when the producer was told that the job waits for approval, for a day
//	:dead                       dead letters: messages that are not jobs, at most 10,000
package jobs

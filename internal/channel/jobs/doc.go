// Package jobs lets producers that speak Redis use agents: they push messages of package job to one list and wait for each
// answer on a list of its own. Temporal is the queue; a [Bridge] only moves. [Client] is the producers' side.
//
//	RPUSH agent:jobs ──BLMOVE──▶ agent:jobs:processing:<bridge> ──Submit, Follow──▶ one script: LREM, RPUSH agent:results:<job id>
//	        ▲                            │
//	        └──── to the head again ─────┘ when the bridge leaves, or has died: then any other bridge does it
//
// # What holds
//
// A job is run at least once and answered once. Every move is one command or one script, so a job is always in exactly one list, whatever
// dies between two of them. Submitting it again joins the turn that it became before: the turn is named after the job's id and retry. Whoever
// takes the entry out of its processing list publishes, in the same script; a bridge that was thought dead and wakes up finds its entry gone
// and publishes nothing.
//
// There is one result for each job_id and retry_count, however often they are pushed: pushed while the first is under way, the second joins
// it; pushed within a day after it ended, the second is dropped without an answer, and [Client.Push] refuses it. Whoever wants another try
// counts retry_count up. Should an earlier attempt still run, or have completed, then its result answers the retry, and nothing runs twice;
// after one that failed, the retry is a turn of its own. A bridge marks attempts in the order in which it takes them. When two bridges take an
// attempt and its retry at the same moment, the retry looks again after a quarter of a second; a bridge that takes longer than that to mark
// what it has taken lets both run.
//
// The jobs of a session are submitted in the order in which a bridge took them, each when the one before has its result.
//
// A message that is no job goes to agent:jobs:dead, newest first, as {reason, field, message, truncated, job_id, bridge, at}, and where a job
// id can be read in it a failed result goes to the producer. Where that key holds no list, the message stays with the bridge, which tells the
// producer once and tries again. Such a message counts for nothing: the same id may be pushed again, in order. A
// job that the inbox refuses, for its agent does not exist, say, is a failed result. While Temporal or the database is away, jobs wait in
// the bridge, which takes no more than fit.
//
// # What it costs
//
// A job that runs takes one of Concurrency places. One that waits for a person, or behind another job or turn of its session, takes none: of
// these, MaxHeld fit, each a follower of its events. All together may hold 256 MiB of messages. When all is full, jobs stay in agent:jobs.
//
// # What Redis must do
//
// Redis 6.2 or later. Jobs are as safe as Redis keeps them: with appendonly yes and appendfsync always, nothing that was acknowledged is
// lost; with everysec, a crash of Redis may undo its last second, and so lose a push or repeat a result. In a Redis Cluster all keys must lie
// in one slot, so both names need the same hash tag, such as {agent}:jobs and {agent}:results. Bridges keep under their queue's name:
//
//	:processing:<bridge>        what the bridge has taken, a list
//	:alive:<bridge>             expires unless the bridge renews it
//	:bridges                    all bridges of the last day, by the time of their last word
//	:attempt:<job id>:<retry>   running, completed or failed, for a day
//	:dead                       messages that are no jobs, at most 10,000
package jobs

// Package blob is the content-addressed store for content that is too large for a row: results, tool outputs, compiled plans.
// The name of content is its sha-256. It is written once, compressed, and verified whenever it is read.
//
//	cas://sha256:abcdef…            a reference, as it stands in results and messages
//	<tenant>/sha256/ab/cdef…        its object: one zstd stream
//	~tmp/<random>                   an upload in progress; see [Store.Sweep]
//	~gone/abcdef…-<random>          the sign of a removal in progress; see [Store.Remove]
//
// A reference is valid only together with its tenant: another tenant does not find the content.
//
// # Reference counts
//
// With a [Ledger] content stays as long as somebody refers to it. The ledger has a row for all content, written by Put before it asks the
// bucket, with the time of the newest Put. It also has a row for every reference in a tenant's data, written and deleted in the
// transactions that write and delete that data: a turn with its input, its steps and its result, a note of a session, a cached result.
// References within stored content do not count: the tool that wrote it has the reference in its answer too. Running turns and catalogs
// refer to compiled plans, which are never removed.
//
// Content may be removed if nobody refers to it and nobody has stored it within the grace period: an hour, by the clock of the ledger's
// database alone. Within that time the process that stored it has to refer to it. [Store.Remove] has four steps. The second one is one
// statement of the database, atomic against all others on the same content:
//
//	1  write a sign to the bucket    2  delete the row, if unreferenced and old    3  delete the object    4  delete the sign
//
// Put, once it knows the digest, has these steps:
//
//	a  write the row, or renew its time    b  write the object unless it exists    c  wait until there is no sign
//	d  continue at b unless the object still exists
//
// No Put ends without its content. If a is before 2, then 2 finds the row young and the object stays. If a is after 2, the sign exists from
// before a until after 3. Either the Put sees it at c, waits, and checks again at d; or the sign is gone, and the check at b or d is after
// 3. A check at b before 3 does not end a Put: only a check after a c without a sign does.
//
// No referenced content is removed. A reference is written within the grace period of a Put: until then 2 finds the row young, and
// afterwards it finds the reference. A cached result refers to its content for a grace period beyond its time, and renews the content's
// time when it is replaced or evicted. A reference from a log or from memory does not bring removed content back.
//
// If a process dies, it leaves: after a, a row that a later collection deletes; after 1 or 3, a sign, for which Puts of this content wait
// at most twice as long as a removal may take, and which Sweep deletes; after 2, an object without a row, which the collection finds in the
// bucket and adopts as if it were stored now. Two removals at once do no harm: each has its own sign, and 2 is true for both only while
// both signs exist. One assumption about clocks remains. A removal checks its time limit (10 s, from before its sign) and then deletes. A
// process must not sleep through the limit exactly between these two calls: then a Put may have considered it dead.
//
// The bucket is a URL of gocloud.dev/blob: file:///folder, s3://bucket (also MinIO and others, by query parameters), gs://bucket, azblob://container,
// or mem:// for tests.
package blob

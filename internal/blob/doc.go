// Package blob is the content-addressed store for content that is too large for a row: results, tool outputs, compiled plans.
// Content is named by its sha-256. It is written once, compressed, and verified whenever it is read.
//
//	cas://sha256:abcdef…            a reference, as results and messages contain it
//	<tenant>/sha256/ab/cdef…        its object: one zstd stream
//	~tmp/<random>                   an upload in progress; see [Store.Sweep]
//	~gone/abcdef…-<random>          the marker of a removal in progress; see [Store.Remove]
//
// A reference is valid only together with its tenant. Another tenant does not find the content.
//
// # Reference counts
//
// With a [Ledger], content stays as long as something refers to it. The ledger has a row for each object, with the time of the newest Put. Put writes
// the row before it checks the bucket. The ledger also has a row for every reference in a tenant's data: a turn with its input, its steps and its
// result, a note of a session, a cached result. These rows are written and deleted in the transactions that write and delete the data. References
// within stored content do not count, because the tool that wrote it has the reference in its answer too. Running turns and catalogs refer to
// compiled plans, which are never removed.
//
// Content may be removed if nothing refers to it and it was not stored within the grace period: an hour, by the clock of the ledger's database. Within
// that time, the process that stored it must store a reference to it. [Store.Remove] has four steps. The second is one statement of the
// database, atomic with respect to other statements on the same content:
//
//	1  write a marker to the bucket    2  delete the row, if unreferenced and old    3  delete the object    4  delete the marker
//
// Put has these steps after it has computed the digest:
//
//	a  write the row, or renew its time    b  write the object unless it exists    c  wait until there is no marker
//	d  continue at b unless the object still exists
//
// No Put ends without its content. If a is before 2, step 2 finds a young row, and the object stays. If a is after 2, the marker exists from before a
// until after 3. Either the Put sees the marker at c, waits, and checks again at d. Or the marker is gone, and the check at b or d is after 3. A
// check at b before 3 does not end a Put, because a Put ends only with a check after a step c that has seen no marker.
//
// No referenced content is removed. A reference is written within the grace period of a Put. Until then step 2 finds a young row, and afterwards it
// finds the reference. A cached result refers to its content until a grace period after it has expired, and renews the content's time when it is
// replaced or evicted. A reference in a log or in memory does not keep content.
//
// If a process dies after a, it leaves a row that a later collection deletes. After 1 or 3 it leaves a marker: Puts of this content wait for it at most
// twice as long as a removal may take, and Sweep deletes it. After 2 it leaves an object without a row, which the collection finds in the bucket and
// adopts as if it were stored now. Two removals at the same time do no harm: each has its own marker, and step 2 succeeds for both only while both
// markers exist. One assumption about time remains: a removal checks its time limit (10 s, from before its marker) and then deletes. A process must
// not be suspended beyond the limit between these two calls, because a Put may then have considered it dead.
//
// The bucket is a URL of gocloud.dev/blob: file:///folder, s3://bucket (also MinIO and others, by query parameters), gs://bucket, azblob://container,
// or mem:// for tests.
package blob

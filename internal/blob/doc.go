// Package blob is the content-addressed store for what is too large for a row: results, tool outputs, compiled plans.
// Content is named by its sha-256, written once, compressed, and verified whenever it is read.
//
//	cas://sha256:abcdef…            a reference, as it stands in results and messages
//	<tenant>/sha256/ab/cdef…        its object: one zstd stream
//	~tmp/<random>                   an upload under way; see [Store.Sweep]
//	~gone/abcdef…-<random>          the sign of a removal under way; see [Store.Remove]
//
// A reference means nothing without its tenant: the same reference of another tenant is not found.
//
// # Reference counts
//
// With a [Ledger] content lives as long as somebody refers to it. The ledger has a row for all content, written by Put before the bucket is
// asked, with the time of the newest Put; and a row for every mention of a reference by what a tenant keeps, written and deleted in the
// transactions that write and delete what mentions it: a turn with its input, its steps and its result, a note of a session, a remembered
// result. A mention in stored content itself does not count: whatever tool wrote it has named the reference in its answer too. Compiled
// plans are named by running turns and catalogs, and are never removed.
//
// Content may go when nobody refers to it and nobody has put it for a grace (an hour, by the clock of the ledger's database alone), which is
// the time that whoever has put it has to refer to it. [Store.Remove] does this in four steps, of which the second is one statement of the
// database, atomic against every other on the same content:
//
//	1  show a sign in the bucket    2  take the row away, if unreferenced and old    3  delete the object    4  take the sign away
//
// and Put, once it knows the digest, does this:
//
//	a  write the row, or renew its time    b  write the object unless it is there    c  wait until no sign is there
//	d  begin again at b unless the object is there still
//
// Why no Put ends without its content: either a comes before 2, then 2 finds the row young and the object stays. Or a comes after 2: then
// the sign is there before a and until after 3, and the Put either sees it at c, waits, and looks again at d; or it does not see it any
// more, and looked, or looks at d, after 3. A look at b before 3 is not trusted: only one after a c without a sign ends a Put.
//
// Why nothing that is referred to goes: a reference is written within the grace of a Put, so that until then 2 finds the row young, and from
// then on finds it held. A remembered result holds its content for a grace beyond the time in which it can be recalled, and renews the
// content's time when it is replaced or evicted. Naming content that nobody holds any more, from a log or from memory, does not bring it
// back: it is found, or not.
//
// Who dies half-way leaves: after a, a row that a later collection takes away; after 1, a sign that Puts of this content wait for at most
// twice as long as removals may take, and that Sweep removes; after 2, an object without a row, which the collection finds in the bucket and
// adopts as if it were put now; after 3, a sign. Two who remove at once do no harm: each has its own sign, and 2 is true for both only
// while the sign of each is there. The one thing relied upon of clocks is that a process which has slept through its own bound (10 s, from
// before its sign) between its last look at the clock and the call that deletes does not wake to make that call: then, and only then, a
// Put may have taken it for dead.
//
// The bucket is a URL of gocloud.dev/blob. Built in are file:///folder, s3://bucket (also MinIO and others, by query parameters)
// and, for tests, mem://. Google Cloud Storage and Azure would add 23 and 6 MB to every binary, S3 adds 10; whoever needs them
// imports their driver (gocloud.dev/blob/gcsblob, azureblob) in their own main package and passes its URL.
package blob

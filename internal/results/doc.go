// Package results combines the rows of PostgreSQL with the content of the blob store. [Reader] opens datasets by reference, [Cache] stores results of
// calls, and [Collector] removes content without references.
//
// The comment of package blob, "Reference counts", explains why content is not removed while it is needed.
package results

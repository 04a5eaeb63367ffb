// Package results joins the rows of PostgreSQL with the content of the blob store: [Reader] opens datasets by reference, [Cache] keeps
// results of calls, and [Collector] removes content that nobody refers to.
//
// Package blob explains, under "Reference counts", why content stays as long as it is needed.
package results

// Package results joins the rows of PostgreSQL with the content of the blob store: [Reader] opens datasets by reference, [Cache] remembers
// what calls have answered, and [Collector] removes content that nobody refers to any more.
//
// How content stays as long as it is needed is in the documentation of package blob, under "Reference counts".
package results

// Package pipeline is the toolkit "pipeline" with the one tool execute_pipeline: a short program of table steps that
// a model writes and that runs at once, without changing a workflow.
//
// A pipeline is read completely before its first step runs, so a mistake in step 3 costs no request in step 1. Rows come from an
// http_request or a join of two references, which must be the first step, or from input_ref; each further step takes rows and gives
// rows. A row is the JSON text that the source sent: numbers keep every digit and objects keep their order. What a source may be, and
// where the rows are in a document, is said in package dataset.
//
// # The steps
//
//	http_request   url, method, params      rows of a JSON, NDJSON or CSV response; params are a GET's query or a POST's body
//	table_sort     field or fields, order   stable; null and missing last
//	table_filter   condition                and, or, not; = != < <= > >= in contains matches exists
//	table_select   fields                   "price.total as fare" renames; what a row lacks is null
//	top_k          k                        the first rows
//	groupby        by, agg, field or fields a row per group with sum_price, avg_price, count …; "sum(price) as total" is a field too
//	join           left, right, on, how     two datasets by reference, or the rows so far and one
//	jq_transform   query                    a jq program over the rows, or over the document that the source sent
//	regex_extract  pattern, field           the groups of a match (RE2) as fields
//	parse_date     field, format            strftime, into RFC 3339 in UTC
//
// The schema is that of the requirements, word by word (docs/reference/requirements.md). It does not forbid further members of a step:
// join takes how (inner, left) beyond it.
//
// # What goes wrong
//
// Whatever the model or the upstream does wrong is a failed result for the model to correct. It names the step, its index and argument
// (pipeline[3].field) and, where values are at fault, the row and the field: row 12, field "price". Rows count from 0, as in jq. Only
// an ended context and an unreachable store are errors. A field that no row has is a failure, unless the condition asks for it with
// exists; in a few rows it is null. What could not be read again is a failure of the step that makes it, and never stored.
//
// # Results
//
// The rows are streamed into the blob store as a JSON array; the output names the reference and holds the rows themselves when it is
// then within the inline bound, else their preview. A result is remembered under the hash of the pipeline, its input and the
// credentials' names, and an equal call of the tenant within an hour is answered with it, unless it posts. Failures are not remembered.
//
// # Composites
//
// A pipeline of the same shape that a tenant uses again becomes a tool of its own, which the tenant's next turns
// have. The shape is the steps without their literals: params of a request (also those in its URL), values of comparisons, k and the
// references of datasets. Fields, operators, hosts and paths, functions, jq programs, patterns and formats are the shape, and so is
// whether a literal is a text, a number or a boolean. Literals that differed among the uses are parameters that must be given; what never
// differed stays, until a use differs: then it becomes a parameter whose default is what it was, in a new version. Filling a composite
// with the literals of a pipeline gives that pipeline.
//
// Not promoted are pipelines that post, that failed, that hold what looks like a secret, of which the agent's middleware would clean
// something, of more than 16 KiB or 32 parameters, and any while the tenant has 200 composites switched on.
//
// # How values compare
//
// Numbers compare as decimals, without rounding. A string that is a JSON number compares as one with a number, because many APIs
// send prices as strings. Strings compare by bytes, so ISO dates order well. Sorting puts numbers before strings before booleans
// before anything else, and null or missing last in both directions. A column of nothing but numbers and numeric strings sorts as
// numbers. Groups tell a number from a string; a join does not where one side has numbers and the other the same as strings.
//
// # Bounds
//
// Each dataset, each response and what each step makes are bounded in rows (1,000,000) and bytes (256 MiB), so a call holds at most
// three times that: both sides of a join and its result. Steps look at the context every thousand rows.
package pipeline

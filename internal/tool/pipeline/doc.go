// Package pipeline is the toolkit "pipeline" with the one tool execute_pipeline: a short program of table steps that
// a model writes and that runs at once, without changing a workflow.
//
// The whole pipeline is checked before its first step runs, so a mistake in step 3 costs no request in step 1. Rows come from an
// http_request or a join of two references, which must be the first step, or from input_ref; each further step turns rows into other
// rows. A row is the JSON text that the source sent: numbers keep every digit and objects keep their order. Package dataset describes
// the formats of sources and finds the rows in a document.
//
// # The steps
//
//	http_request   url, method, params      rows of a JSON, NDJSON or CSV response; params are a GET's query or a POST's body
//	table_sort     field or fields, order   stable; null and missing last
//	table_filter   condition                and, or, not; = != < <= > >= in contains matches exists
//	table_select   fields                   "price.total as fare" renames; a missing field becomes null
//	top_k          k                        the first rows
//	groupby        by, agg, field or fields a row per group with sum_price, avg_price, count …; "sum(price) as total" is a field too
//	join           left, right, on, how     two datasets by reference, or the rows so far and one dataset
//	jq_transform   query                    a jq program over the rows, or over the document that the source sent
//	regex_extract  pattern, field           the groups of a match (RE2) as fields
//	parse_date     field, format            strftime, into RFC 3339 in UTC
//
// The schema is a copy of the one in docs/reference/requirements.md. That one allows further members of a step; join uses this for
// how (inner, left).
//
// # Failures
//
// A mistake of the model, or an error of the upstream, is a failed result that the model can correct. The failure names the step, its index and
// argument (pipeline[3].field) and, if a value is at fault, its row and field: row 12, field "price". Rows count from 0, as in jq. Only
// an ended context and an unreachable store are errors. A field that no row has is a failure, unless the condition tests it with
// exists; a field that only some rows lack is null in those. A step fails if its rows could not be read back from the store.
//
// # Results
//
// The rows are streamed into the blob store as a JSON array. The output names the reference and holds the rows too, or only a preview
// if the rows would make it longer than the inline bound. A result is cached under the hash of the pipeline, its input and the names of
// the credentials. An equal call of the tenant within an hour gets the cached result, unless the pipeline posts. Failures are not cached.
//
// # Composites
//
// If a tenant uses a pipeline of the same shape again, the shape becomes a tool for the tenant's later turns. The shape is the steps
// without their literals: params of a request (also those in its URL), values of comparisons, k and the references of datasets. Fields,
// operators, hosts and paths, functions, jq programs, patterns and formats belong to the shape, and so does the type of a literal. A literal
// that differed between the uses becomes a required parameter. A literal that never differed is fixed. If it differs in a later use, a new
// version of the tool has a parameter for it, with the fixed value as default. A composite that gets the literals of a pipeline as
// arguments runs exactly that pipeline.
//
// A pipeline is not promoted if it posts, fails, holds what looks like a secret, would be changed by the agent's middleware, or has more than
// 16 KiB or 32 parameters. Nothing is promoted while the tenant has 200 composites switched on.
//
// # How values compare
//
// Numbers compare as decimals, without rounding. A string that is a JSON number compares with numbers as a number, because many APIs
// send prices as strings. Strings compare by bytes, which orders ISO dates. Sorting puts numbers before strings before booleans
// before anything else, and null or missing last in both directions. A column of only numbers and numeric strings sorts as
// numbers. Groups distinguish the number 1 from the string "1"; a join matches them if one side has numbers and the other side has them as
// strings.
//
// # Bounds
//
// Each dataset, each response and the result of each step are bounded in rows (1,000,000) and bytes (256 MiB), so a call holds at most
// three times that: both sides of a join and its result. Steps check the context every thousand rows.
package pipeline

// Package pipeline is the toolkit "pipeline" with the one tool execute_pipeline (seed 004 §5.1): a short program of table steps that
// a model writes and that runs at once, without changing a workflow.
//
// A pipeline is read completely before its first step runs, so a mistake in step 3 costs no request in step 1. Rows come from an
// http_request, which must be the first step, or from input_ref; each further step takes rows and gives rows. A row is the JSON text
// that the source sent: numbers keep every digit and objects keep their order.
//
// Whatever the model or the upstream does wrong is a failed result that names the step and the field, for the model to correct. Only
// an ended context and an unreachable dataset store are errors.
//
// # Where the rows are in a document
//
// The rule is the same for responses and for input_ref:
//
//  1. An array: its elements.
//  2. An object with one of rows, items, data, results, records, values, entries, hits or flights holding an array: the first of
//     these, in this order.
//  3. Else an object with exactly one field that holds an array of objects: that one. Several: a failure that names them.
//  4. Else an object whose field data, result, response or payload is an object: the same rule there, once.
//  5. Else the object itself is the one row.
//
// # How values compare
//
// Numbers compare as decimals, without rounding. A string that is a JSON number compares as one with a number, because many APIs
// send prices as strings. Strings compare by bytes, so ISO dates order well. Sorting puts numbers before strings before booleans
// before anything else, and null or missing last in both directions.
package pipeline

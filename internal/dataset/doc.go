// Package dataset reads and writes rows: the tables that tools take and give, and that the content-addressed store keeps as JSON arrays.
//
// A row is the JSON text that the source sent: numbers keep every digit and objects keep their order. What is read is strict, so that
// nothing is lost or half stored: two members of one name, a number beyond float64, invalid UTF-8, half a surrogate pair, nesting
// deeper than [MaxDepth] and whatever follows the end are [agent.CodeInvalid], with the place in the error's field: "row 12.price.total"
// (rows count from 0), "line 900000" (lines from 1), or the path in the document, "data[12].price", when the rows are inside an object.
// More rows or bytes than the [Limits] are [agent.CodeOverflow]. An error of the reader is returned as it is.
//
// # Where the rows are in a document
//
// The rule is the same for responses, references and exports:
//
//  1. An array: its elements.
//  2. An object with one of rows, items, data, results, records, values, entries, hits or flights holding an array: the first of
//     these, in this order.
//  3. Else an object with exactly one field that holds an array of objects: that one. Several: a failure that names them.
//  4. Else an object whose field data, result, response or payload is an object: the same rule there, once.
//  5. Else the object itself is the one row.
//
// # CSV
//
// The first record names the columns, unless the media type says header=absent: then they are column_1, column_2 and so on. Each other
// record is an object with all columns in their order. A value that is a number in JSON's syntax, of at most 15 significant digits and
// within float64, is a number; so 007, +1 and an identifier of 20 digits stay strings, and true and false do too. An empty value is
// null, and "" the empty string. Records must have as many values as there are columns. Empty lines are passed over, and a line break
// within quotes reads as \n, as encoding/csv has it.
//
// Written, null and a missing member are an empty value, the empty string is "", and an object or array is its JSON text. Rows that are
// no objects are in a column "value". Of a table with one column alone null reads back as the empty string: its line would be empty.
package dataset

// Package expr evaluates the conditions of workflow definitions and renders their templates.
//
// A condition is CEL (cel.dev) with the standard functions and macros, and lowerAscii, upperAscii, trim, substring, charAt, split, format,
// join and replace of texts. Its variables are the members of the node's input by name, and
//
//	input  the whole input
//	row    one row of the input, or the whole input if it has no rows
//	steps  outputs of earlier nodes, by node id: steps.fetch.total
//	run    run_id, workflow_tag, …
//
// Any other name is a member of the input; whether it exists is known only during a run. JSON has one kind of number, so price * 2 < 900.5 and
// total / 3 work for integers and floating-point numbers alike.
//
// An input that is a list, or an object with the list "rows", has rows. A condition that reads members or row is evaluated for each of them. It is
// true if any row satisfies it, and only those rows follow the edge "true"; otherwise all rows follow "false". A condition that reads only
// input, steps and run is evaluated once.
//
// A comparison with a member that is missing or null is neither true nor false: a row without a price satisfies neither price < 500 nor
// !(price < 500), but price < 500 || seats > 3 if it has the seats.
//
// A template has expressions in {{ }}. If the input has rows, members are those of the first row. A missing value is rendered as nothing; in a URL
// it is an error.
package expr
